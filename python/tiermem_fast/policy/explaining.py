"""Why a memory stands where it stands, and how it will fade.

Owns :func:`explain` and :func:`curve`. Calls the laws on arrays and reads through what it is given; it computes nothing
that the engine decides otherwise, it asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import InvalidInput, MemoryNotFound, shown
from ..kernels import strength
from ..tiers import Tier
from ..times import from_seconds

if TYPE_CHECKING:
    from ..config import LawConfig
    from ..models import Briefing, Explanation

__all__ = ["Facts", "curve", "explain"]

_DAY: Final = 86_400.0
_MOST_POINTS: Final = 10_000
_FARTHEST: Final = 10_000


class Facts(Protocol):
    """What an explanation asks of the store, at one time and for one reader."""

    def state(self, id: str) -> str | None:
        """``alive``, ``forgotten``, ``superseded`` or ``merged``; ``None`` when there is no such memory."""

    def row(self, id: str) -> Mapping[str, Any] | None:
        """The memory as the owner sees it; ``None`` when it cannot be read."""

    def missing_labels(self, row: Mapping[str, Any]) -> Sequence[str]:
        """The labels that the reader holds no grant for."""

    def found(self, k: int) -> Sequence[Mapping[str, Any]]:
        """The best rows for the question, as the reader sees them, with their scores and ``calibrated``."""

    def alone(self, id: str) -> Mapping[str, Any] | None:
        """The row as the question finds it when it is searched alone."""

    def briefing(self) -> Briefing:
        """The briefing for the question."""


def explain(id: str, query: str | None, facts: Facts, laws: LawConfig, now: float) -> Explanation:
    """Every component of a score, the rank, or why there is none."""
    from ..models import Explanation

    state = facts.state(id)
    if state is None:
        message = f"no memory has the id {id!r}"
        raise MemoryNotFound(message, id=id)
    row = facts.row(id)
    if row is None:
        hint = f"; restore({id!r}) brings it back" if state == "forgotten" else ""
        expired = "its end has come" if state == "alive" else f"it is {state}{hint}"
        return Explanation(id=id, state="expired" if state == "alive" else state, reasons=(expired,))
    missing = facts.missing_labels(row)
    if missing:
        reason = f"it carries labels that the reader holds no grant for: {', '.join(missing)}"
        return Explanation(id=id, state="hidden", reasons=(reason,))
    values = _standing(row, laws, now)
    reasons: list[str] = []
    if row["superseded_by"] is not None:
        reasons.append(f"{row['superseded_by']} took its place: it is readable by its id and in no search")
    elif state != "alive":
        reasons.append(f"it is {state}: it is readable by its id and in no search")
    elif query is not None:
        values |= _ranked(id, facts, reasons, laws)
    reasons.append(_faded(row, values))
    return Explanation(id=id, state=state, **values, reasons=tuple(reasons))


def _standing(row: Mapping[str, Any], laws: LawConfig, now: float) -> dict[str, Any]:
    idle = max(0.0, now - row["last_used_at"])
    return {
        "tier": row["tier"],
        "importance": row["importance"],
        "half_life": row["half_life"],
        "idle": idle,
        "strength": _strength(row, laws, [idle])[0],
    }


def _ranked(id: str, facts: Facts, reasons: list[str], laws: LawConfig) -> dict[str, Any]:
    values: dict[str, Any] = {
        "relevance_share": round(1.0 - laws.strength_share - laws.importance_share, 6),
        "strength_share": laws.strength_share,
        "importance_share": laws.importance_share,
    }
    rows = facts.found(_FARTHEST)
    place = next((place for place, one in enumerate(rows) if one["id"] == id), None)
    values["found"] = len(rows)
    hit = facts.alone(id) if place is None else rows[place]
    if hit is not None:
        values |= {name: hit[name] for name in ("relevance", "vector_score", "keyword_score", "score")}
        values["calibrated_relevance"] = hit["calibrated"]
    if place is not None:
        values["rank"] = place + 1
        reasons.append(f"rank {place + 1} of {len(rows)}")
    elif hit is None:
        reasons.append("the search does not find it: it has no word of the question, and no vector that is near")
    else:
        reasons.append(f"the search finds it only when it is asked for it alone: others fill the best {len(rows)}")
    briefing = facts.briefing()
    item = next((one for one in briefing.items if one.id == id), None)
    dropped = next((one for one in briefing.dropped if one.id == id), None)
    values["in_briefing"] = item is not None
    if item is not None:
        reasons.append(f"a briefing has it as {item.citation}: {item.why}")
    elif dropped is not None:
        reasons.append(f"a briefing leaves it out, {dropped.reason.value}: {dropped.detail}")
    else:
        reasons.append(
            "a briefing does not consider it: it is not among what the session, the task or the search propose"
        )
    return values


def _faded(row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    if row["pinned"] or math.isinf(row["half_life"]):
        return f"strength 1: {'pinned' if row['pinned'] else 'it'} never fades"
    used = from_seconds(row["last_used_at"])
    return (
        f"strength {values['strength']:.3f}: last used {used:%Y-%m-%d %H:%M} UTC, {values['idle'] / _DAY:.1f} days ago, "
        f"half-life {row['half_life'] / _DAY:.1f} days"
    )


def _strength(row: Mapping[str, Any], laws: LawConfig, idle: Sequence[float]) -> list[float]:
    tier = Tier(row["tier"])
    if row["pinned"] or tier is Tier.PROCEDURAL or math.isinf(row["half_life"]):
        return [1.0] * len(idle)
    shape = getattr(laws, f"{tier.value}_shape")
    found: list[float] = strength(list(idle), row["half_life"], shape=shape).tolist()
    return found


def curve(
    row: Mapping[str, Any], laws: LawConfig, now: float, days: float | Sequence[float]
) -> list[tuple[float, float]]:
    """The strength of a memory that is not used again: pairs of days from ``now`` and strength.

    Parameters
    ----------
    row
        The memory.
    laws
        The shapes of the curves.
    now
        Seconds since 1970 UTC.
    days
        The days to tell, or how many from today on.
    """
    if isinstance(days, (int, float)) and not isinstance(days, bool):
        if not 0 <= days < _MOST_POINTS:
            raise InvalidInput.of("days", f"{shown(days)} is not a number from 0 to {_MOST_POINTS - 1}")
        days = [float(day) for day in range(math.floor(days) + 1)]
    wanted = list(days) if isinstance(days, (list, tuple, range)) else []
    numbers = all(isinstance(day, (int, float)) and not isinstance(day, bool) and 0 <= day < 4e6 for day in wanted)
    if not wanted or len(wanted) > _MOST_POINTS or not numbers:
        raise InvalidInput.of("days", f"{shown(days)} is neither a number nor a list of days from 0 on")
    idle = max(0.0, now - row["last_used_at"])
    values = _strength(row, laws, [idle + day * _DAY for day in wanted])
    return [(float(day), value) for day, value in zip(wanted, values, strict=True)]
