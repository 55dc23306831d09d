"""Every constant of the design that a user may turn, with its default and its bounds.

Owns :class:`Config`; calls :mod:`.models` for the base of its shapes. One field per constant, in a section per room of
the core; :meth:`Config.flat` is the form in which the core reads them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from .errors import InvalidInput
from .models import Count, HalfLife, Shape, Share

__all__ = [
    "BriefingConfig",
    "CleanupConfig",
    "Config",
    "ConsolidationConfig",
    "KeywordConfig",
    "LawConfig",
    "SearchConfig",
    "VectorConfig",
    "WorkingConfig",
]

_MINUTE = 60.0
_DAY = 86_400.0

Seconds = HalfLife
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]


class LawConfig(Shape):
    """How memories fade, are refreshed and are scored.

    Attributes
    ----------
    working_half_life, episodic_half_life, semantic_half_life
        Seconds until half of a memory of importance ½ is forgotten; importance stretches it from half to twice that.
        Procedural memory never fades.
    working_shape, episodic_shape, semantic_shape
        The exponent d of the forgetting curve: small forgets like people do, infinity (``null`` in JSON) exponentially.
    gain
        How much a use lengthens the half-life: at most to ``1 + gain`` times.
    max_half_life
        Seconds that no use lengthens it beyond.
    strength_share, importance_share
        The parts of a score that strength and importance decide; together at most 1, the rest is relevance alone.
    """

    working_half_life: Seconds = 30 * _MINUTE
    episodic_half_life: Seconds = 7 * _DAY
    semantic_half_life: Seconds = 180 * _DAY
    working_shape: HalfLife = float("inf")
    episodic_shape: HalfLife = 1.0
    semantic_shape: HalfLife = 1.0
    gain: NotNegative = 1.0
    max_half_life: Seconds = 3_652.5 * _DAY
    strength_share: Share = 0.2
    importance_share: Share = 0.1

    @model_validator(mode="after")
    def _shares_leave_room_for_relevance(self) -> Self:
        if self.strength_share + self.importance_share > 1.0:
            shares = f"{self.strength_share} and importance_share {self.importance_share}"
            raise InvalidInput.of("strength_share", f"{shares} are together more than 1")
        return self


class WorkingConfig(Shape):
    """The bounds of working memory.

    Attributes
    ----------
    capacity
        Memories per session before it overflows.
    ttl
        Seconds after which one expires.
    keep_share
        The part of an overflow, the best by importance and strength, that becomes episodic; the rest is let go.
    """

    capacity: AtLeastOne = 20
    ttl: Seconds = 30 * _MINUTE
    keep_share: Share = 0.5


class ConsolidationConfig(Shape):
    """When an episode becomes knowledge, and when two memories become one.

    Attributes
    ----------
    promote_uses, promote_importance
        Spaced uses and importance that together lift an episodic memory to semantic.
    use_spacing
        Seconds since the last use that make a use a spaced one; a burst counts once.
    promote_sessions
        Sessions in which the same was said that lift it as well.
    merge_cosine, merge_jaccard
        The two gates of a near-duplicate, both needed: cosine of the vectors, and overlap of the words.
    """

    promote_uses: AtLeastOne = 3
    use_spacing: NotNegative = 3_600.0
    promote_importance: Share = 0.7
    promote_sessions: AtLeastOne = 3
    merge_cosine: Share = 0.97
    merge_jaccard: Share = 0.85


class CleanupConfig(Shape):
    """What a clean-up plan proposes to forget: neither used for long nor important.

    Attributes
    ----------
    idle_days
        Days without use.
    max_importance
        Memories as important as this, or more so, stay.
    """

    idle_days: Positive = 90.0
    max_importance: Share = 0.3


class SearchConfig(Shape):
    """How the two arms of a search are put together.

    Attributes
    ----------
    vector_weight, keyword_weight
        What each arm counts for in relevance; only their ratio matters.
    candidates
        Memories that each arm proposes, at least; never fewer than the results asked for.
    """

    vector_weight: NotNegative = 0.5
    keyword_weight: NotNegative = 0.5
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 100

    @model_validator(mode="after")
    def _some_arm_counts(self) -> Self:
        if self.vector_weight + self.keyword_weight == 0.0:
            raise InvalidInput.of("vector_weight", "0.0 leaves no arm that counts, for keyword_weight is 0 as well")
        return self


class KeywordConfig(Shape):
    """The two constants of BM25.

    Attributes
    ----------
    k1
        How soon the repetition of a word stops to count.
    b
        How much a long text is held against it.
    """

    k1: NotNegative = 0.9
    b: Share = 0.4


class VectorConfig(Shape):
    """When vectors get a graph, and how wide it is walked.

    Attributes
    ----------
    graph_bytes
        Bytes of codes above which a graph is built; below, every vector is scanned exactly.
    connectivity
        Neighbours of a node of the graph (M of HNSW).
    build_ef, search_ef
        Width of the walk when the graph is built and when it is searched.
    rebuild_share
        Share of dead vectors in the graph above which it is made anew.
    """

    graph_bytes: Count = 16 * 1024 * 1024
    connectivity: Annotated[int, Field(ge=2, le=256)] = 16
    build_ef: Annotated[int, Field(ge=1, le=10_000)] = 128
    search_ef: Annotated[int, Field(ge=1, le=10_000)] = 64
    rebuild_share: Share = 0.25


class BriefingConfig(Shape):
    """How a briefing spends its tokens.

    Attributes
    ----------
    budget
        Tokens of a briefing, unless the call says otherwise.
    procedural_share, working_share, episodic_share, semantic_share
        What each tier may spend before the others had their turn; together at most 1. What one leaves, the others get.
    episodic_window
        The newest episodes of a session that are considered.
    min_relevance
        The floor under which a memory has nothing to do with the question; ``None`` takes the default, which is measured
        from where the embedder puts unrelated texts.
    min_share_of_best
        What has less than this share of the best relevance found is left out.
    min_trust
        Below this trust a text is fenced as data, as those of tools and imports always are.
    language
        Of headings and origins: ``en``, ``zh``, or ``auto`` for that of the question.
    """

    budget: Count = 1_200
    procedural_share: Share = 0.2
    working_share: Share = 0.25
    episodic_share: Share = 0.25
    semantic_share: Share = 0.3
    episodic_window: Count = 20
    min_relevance: Share | None = None
    min_share_of_best: Share = 1 / 3
    min_trust: Share = 0.5
    language: Literal["auto", "en", "zh"] = "auto"

    @model_validator(mode="after")
    def _shares_are_parts_of_one_budget(self) -> Self:
        total = self.procedural_share + self.working_share + self.episodic_share + self.semantic_share
        if total > 1.0 + 1e-9:
            raise InvalidInput.of(
                "semantic_share", f"{self.semantic_share} brings the four shares to {total:g}, over 1"
            )
        return self


class Config(Shape):
    """All that can be turned. What is not given has its default; an unknown name is refused with the nearest known one.

    Attributes
    ----------
    laws, working, consolidation, cleanup, search, keywords, vectors, briefing
        The sections, each a model of its own or a dict of its fields.
    durability
        ``full``: a call returns when its commit is synced. ``normal``: survives a kill, a power cut may lose the last
        moments. ``memory``: nothing on disk.
    id_seed
        Seed of the random bits of new ids, for runs that must come out the same; ``None`` takes the system's.

    Raises
    ------
    InvalidInput
        Naming section, field and value.

    Examples
    --------
    >>> config = Config(laws={"gain": 0.5}, briefing={"budget": 800})
    >>> config.laws.gain, config.briefing.budget, config.flat()["laws.semantic_half_life"]
    (0.5, 800, 15552000.0)
    >>> Config(laws={"gane": 0.5})
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: laws.gane: unknown; did you mean 'gain'?
    """

    laws: LawConfig = LawConfig()
    working: WorkingConfig = WorkingConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    cleanup: CleanupConfig = CleanupConfig()
    search: SearchConfig = SearchConfig()
    keywords: KeywordConfig = KeywordConfig()
    vectors: VectorConfig = VectorConfig()
    briefing: BriefingConfig = BriefingConfig()
    durability: Literal["full", "normal", "memory"] = "full"
    id_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None

    def flat(self) -> dict[str, float | int | str | None]:
        """Every field as ``section.field`` to a plain scalar, in the order of the sections; infinity stays infinity."""
        return dict(_leaves("", self.model_dump()))


def _leaves(path: str, values: dict[str, Any]) -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in values.items():
        leaves += _leaves(f"{path}{name}.", value) if isinstance(value, dict) else [(path + name, value)]
    return leaves
