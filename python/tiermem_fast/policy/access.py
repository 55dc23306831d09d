"""Who may see what, for what purpose, and until when.

Owns :class:`Grant` and the tiers that a type of task may see. Calls the words below. It decides nothing about a memory:
what a reader sees is decided by one function in the core, for every path; here is said what a reader holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ..errors import InvalidInput, nearest, shown
from ..tiers import TIERS, Tier
from ..times import TimeLike, to_seconds

__all__ = ["OWNER", "Grant", "TierAccess", "labels_of", "rights_of", "tiers_for"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What a reader may see beyond the public.

    Attributes
    ----------
    labels
        Privacy classes; a memory is seen when each of its labels is among them.
    fields
        Private fields that are shown in place of ``***``.
    purpose
        What for.
    authorized_by
        Who gave it.
    expires_at
        From then on it grants nothing; compared with the ``now`` of the call. ``None`` does not end.

    Raises
    ------
    InvalidInput
        Naming the field and the value.

    Examples
    --------
    >>> from tiermem_fast import TierMemory
    >>> mem = TierMemory.open()
    >>> _ = mem.add("Is allergic to nuts", labels=["health"], now=0.0)
    >>> grant = Grant(labels=["health"], purpose="menu", authorized_by="Anna", expires_at=3600.0)
    >>> mem.search("allergic", grant=grant, now=10.0).texts, mem.search("allergic", grant=grant, now=3600.0).texts
    (['Is allergic to nuts'], [])
    """

    labels: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    purpose: str = ""
    authorized_by: str = ""
    expires_at: TimeLike = None
    _everything: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("labels", "fields"):
            given = getattr(self, name)
            listed = isinstance(given, (list, tuple, set, frozenset))
            if not listed or not all(isinstance(one, str) and one for one in given):
                raise InvalidInput.of(f"grant.{name}", f"{shown(given)} is not a list of names")
            object.__setattr__(self, name, tuple(dict.fromkeys(given)))
        for name in ("purpose", "authorized_by"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInput.of(f"grant.{name}", f"{shown(getattr(self, name))} is not a text")
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", to_seconds(self.expires_at, "grant.expires_at"))

    def holds(self, now: float) -> bool:
        """Whether it has not expired at ``now``, in seconds since 1970 UTC."""
        return self.expires_at is None or now < to_seconds(self.expires_at, "grant.expires_at")


OWNER: Final = Grant(purpose="the store's own upkeep", authorized_by="owner", _everything=True)
"""Sees all. For the rules of this package, which must know what is there to keep it apart; nothing hands it out."""

_KNOWN: Final = ("labels", "fields", "purpose", "authorized_by", "expires_at")


def rights_of(grant: Grant | Mapping[str, Any] | None, now: float) -> dict[str, Any] | None:
    """A grant as the core reads it; one that has expired is none.

    Parameters
    ----------
    grant
        A :class:`Grant`, a dict of its fields, or ``None``.
    now
        Seconds since 1970 UTC.

    Examples
    --------
    >>> (
    ...     rights_of({"labels": ["health"], "expires_at": 5.0}, 4.0),
    ...     rights_of({"labels": ["health"], "expires_at": 5.0}, 5.0),
    ... )
    ({'labels': ['health'], 'fields': []}, None)
    """
    if grant is None:
        return None
    if isinstance(grant, Mapping):
        for name in grant:
            if name not in _KNOWN:
                problem = f'{shown(dict(grant))} is not a dict of "labels" and "fields"; {name!r} is unknown: {nearest(str(name), _KNOWN)}'
                raise InvalidInput.of("grant", problem)
        grant = Grant(**{name: value for name, value in grant.items() if value is not None})
    elif not isinstance(grant, Grant):
        raise InvalidInput.of("grant", f'{shown(grant)} is neither a Grant nor a dict of "labels" and "fields"')
    if not grant.holds(now):
        return None
    if grant._everything:  # noqa: SLF001  # its own module
        return {"everything": True}
    return {"labels": list(grant.labels), "fields": list(grant.fields)}


def labels_of(grant: Grant | Mapping[str, Any] | None, now: float) -> tuple[str, ...]:
    """The labels that a grant opens at ``now``."""
    rights = rights_of(grant, now) or {}
    return tuple(rights.get("labels", ()))


class TierAccess(Protocol):
    """Says which tiers a type of task may see. :func:`tiers_for` is the default, made from the configuration."""

    def __call__(self, task: str | None, /) -> Sequence[Tier]:
        """The tiers."""
        ...


def tiers_for(task: str | None, table: Mapping[str, Sequence[str]]) -> tuple[Tier, ...]:
    """The tiers that a type of task may see: those of its row, else of the row ``*``, else all.

    Examples
    --------
    >>> [tier.value for tier in tiers_for("translate", {"translate": ["procedural", "semantic"]})]
    ['semantic', 'procedural']
    >>> len(tiers_for("email", {})), len(tiers_for(None, {"*": []}))
    (4, 0)
    """
    row = table.get(task) if task is not None else None
    if row is None:
        row = table.get("*")
    if row is None:
        return TIERS
    allowed = {Tier(name) for name in row}
    return tuple(tier for tier in TIERS if tier in allowed)
