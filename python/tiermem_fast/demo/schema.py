"""A replay's report as JSON, for machines.

Owns the names and the order of the fields; a change that a reader would notice raises the number in :data:`SCHEMA`.
Calls the shapes of the replay. Times are ISO 8601 in UTC; ``milliseconds`` and nothing else differs between two runs.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .replay import Answer, Fate, Period, Report

__all__ = ["SCHEMA", "document", "spread"]

SCHEMA: Final = "tiermem-demo/1"


def document(report: Report) -> dict[str, Any]:
    """The report as JSON values; ``docs/demo.md`` tells the fields."""
    conversation = report.conversation
    return {
        "schema": SCHEMA,
        "conversation": {
            "name": conversation.name,
            "origin": conversation.origin,
            "turns": len(conversation.turns),
            "sessions": conversation.sessions,
            "first": conversation.turns[0].time.isoformat(),
            "last": conversation.turns[-1].time.isoformat(),
            "hours_were_set": conversation.dated,
        },
        "search": {"mode": report.search, "embedder": report.model_id},
        "periods": [_period(period) for period in report.periods],
        "promoted": [_fate(fate) for fate in report.of("promoted")],
        "merged": [_fate(fate) for fate in report.of("merged")],
        "let_go": [_fate(fate) for fate in report.of("let go")],
        "reinforced": report.reinforced,
        "asked_at": report.asked_at.isoformat(),
        "questions": [_answer(answer, report) for answer in report.answers],
        "milliseconds": {"add": spread(report.written), "brief": spread(report.briefed)},
    }


def spread(seconds: Sequence[float]) -> dict[str, float | int | None]:
    """How many calls, and the median, the 95th percentile and the most of their milliseconds.

    Examples
    --------
    >>> spread([0.001, 0.003, 0.002])
    {'calls': 3, 'median': 2.0, 'p95': 3.0, 'most': 3.0}
    >>> spread([])
    {'calls': 0, 'median': None, 'p95': None, 'most': None}
    """
    if not seconds:
        return {"calls": 0, "median": None, "p95": None, "most": None}
    ordered = sorted(seconds)
    return {
        "calls": len(ordered),
        "median": _milliseconds(statistics.median(ordered)),
        "p95": _milliseconds(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]),
        "most": _milliseconds(ordered[-1]),
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 4)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _period(period: Period) -> dict[str, Any]:
    return {
        "first": period.first.isoformat(),
        "last": period.last.isoformat(),
        "said": period.said,
        "tiers": {tier.value: count for tier, count in period.tiers.items()},
        "most_working": period.most_working,
        "kept": period.kept,
        "used": period.used,
        "promoted": period.promoted,
        "merged": period.merged,
        "let_go": period.let_go,
        "strength": {tier.value: _rounded(mean) for tier, mean in period.strength.items()},
    }


def _fate(fate: Fate) -> dict[str, Any]:
    return {
        "id": fate.id,
        "turn": fate.turn,
        "role": fate.role,
        "text": fate.text,
        "importance": fate.importance,
        "rules": list(fate.rules),
        "at": fate.time.isoformat(),
        "reason": fate.reason,
        "into": fate.into,
        "uses": [{"at": use.time.isoformat(), "words": list(use.words)} for use in fate.uses],
    }


def _answer(answer: Answer, report: Report) -> dict[str, Any]:
    briefing = answer.briefing
    return {
        "text": answer.question.text,
        "answered_by": None if answer.question.turns is None else list(answer.question.turns),
        "held": None if answer.held is None else list(answer.held),
        "missed": [
            {
                "turn": turn,
                "reason": missed.reason.replace(" ", "_"),
                "detail": missed.detail,
                "at": None if missed.time is None else missed.time.isoformat(),
            }
            for turn, missed in answer.missed.items()
        ],
        "milliseconds": _milliseconds(answer.seconds),
        "tokens": briefing.tokens,
        "budget": briefing.budget,
        "briefing": briefing.text,
        "items": [
            {
                "id": item.id,
                "citation": item.citation,
                "turn": report.turn_of.get(item.id),
                "tier": item.tier.value,
                "source": item.source.value,
                "session": item.session,
                "created_at": item.created_at.isoformat(),
                "importance": item.importance,
                "strength": _rounded(item.strength),
                "relevance": _rounded(item.relevance),
                "score": _rounded(item.score),
                "uses": item.use_count,
                "why": item.why,
                "text": item.text,
            }
            for item in briefing.items
        ],
        "dropped": [
            {"id": one.id, "turn": report.turn_of.get(one.id), "reason": one.reason.value, "detail": one.detail}
            for one in briefing.dropped
        ],
    }
