"""The closed vocabularies: tiers, sources, and the reasons for leaving a memory out of a prompt.

Owns the words and nothing else; calls only :mod:`.errors`. Each is a ``str`` as well, so it compares, formats and
travels as one.
"""

from __future__ import annotations

from enum import StrEnum

from .errors import InvalidInput, nearest, shown

__all__ = ["SOURCES", "TIERS", "DropReason", "Source", "Tier"]


class _Word(StrEnum):
    @classmethod
    def _missing_(cls, value: object) -> None:
        known = [word.value for word in cls]
        hint = nearest(value, known) if isinstance(value, str) else "known are " + ", ".join(map(repr, known))
        raise InvalidInput.of(cls.__name__.lower(), f"{shown(value)} is unknown; {hint}")


class Tier(_Word):
    """Where a memory lives.

    Examples
    --------
    >>> Tier("semantic") is Tier.SEMANTIC, Tier.SEMANTIC == "semantic", f"{Tier.SEMANTIC}"
    (True, True, 'semantic')
    >>> Tier("semantik")
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: tier: 'semantik' is unknown; did you mean 'semantic'?
    """

    WORKING = "working"
    """One request or a very short session: constraints, temporary variables, the latest input."""
    EPISODIC = "episodic"
    """One session: turns, intermediate conclusions."""
    SEMANTIC = "semantic"
    """Across sessions: profile, facts, lasting preferences."""
    PROCEDURAL = "procedural"
    """Stable: strategies, rules, handling of errors. Never decays."""


class Source(_Word):
    """Who said it."""

    USER = "user"
    """The person."""
    ASSISTANT = "assistant"
    """The model."""
    TOOL = "tool"
    """A tool's result."""
    SYSTEM = "system"
    """The system prompt or the operator."""
    IMPORT = "import"
    """An import."""


class DropReason(_Word):
    """Why a memory is not in the briefing although it was a candidate."""

    OVER_BUDGET = "over_budget"
    """Its line did not fit into the tokens left."""
    BELOW_THRESHOLD = "below_threshold"
    """It is not relevant enough to the question."""
    DUPLICATE = "duplicate"
    """Another line already says it."""
    OTHER_ABOUT = "other_about"
    """It concerns somebody or something else."""
    EXPIRED = "expired"
    """Its time is over."""
    SUPERSEDED = "superseded"
    """A newer memory says it better."""
    PRIVATE = "private"
    """It carries a label that the reader holds no grant for."""


TIERS: tuple[Tier, ...] = tuple(Tier)
"""The tiers in the order of their numbers in the native columns."""
SOURCES: tuple[Source, ...] = tuple(Source)
"""The sources in the order of their numbers in the native columns."""
