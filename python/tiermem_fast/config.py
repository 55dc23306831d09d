"""Every constant of the design that a user may turn, with its default and its bounds.

Owns :class:`Config` and how it is read from a file and the environment; calls :mod:`.models` for the base of its shapes
and :mod:`.located` for files. One field per constant, in a section per room of
the core; :meth:`Config.flat` is the form in which the core reads them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from .errors import InvalidInput, nearest, shown
from .located import Located, read_document
from .models import Count, HalfLife, Shape, Share, TierWord

__all__ = [
    "AccessConfig",
    "BriefingConfig",
    "CleanupConfig",
    "Config",
    "ConsolidationConfig",
    "KeywordConfig",
    "LawConfig",
    "ProceduresConfig",
    "SearchConfig",
    "VectorConfig",
    "WorkingConfig",
    "WritingConfig",
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
    format
        ``markdown``, ``xml``, or ``messages`` for a chat model.
    diversity
        What saying something else counts for against answering well, among facts and episodes found: 0 goes by score
        alone.
    source_share
        The most of the budget that what tools and imports say may take, each of the two.
    standing
        The most standing instructions on how to answer that go in without being asked for.
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
    format: Literal["markdown", "xml", "messages"] = "markdown"
    diversity: Share = 0.3
    source_share: Share = 0.5
    standing: Count = 12

    @model_validator(mode="after")
    def _shares_are_parts_of_one_budget(self) -> Self:
        total = self.procedural_share + self.working_share + self.episodic_share + self.semantic_share
        if total > 1.0 + 1e-9:
            raise InvalidInput.of(
                "semantic_share", f"{self.semantic_share} brings the four shares to {total:g}, over 1"
            )
        return self


class WritingConfig(Shape):
    """What ``observe`` keeps; the constants of the default write policy.

    Attributes
    ----------
    assistant_trust, tool_trust, import_trust
        The trust of what comes from these; what user and system say is trusted in full.
    instructing_trust
        The trust of what reads like an instruction and comes from anybody but user and system.
    correction_overlap
        The share of words that a memory must have in common with a correction to be what is corrected.
    forget_overlap
        The share of words of a request to forget that a memory must have to be what is meant.
    same_overlap
        The share of words from which two texts say the same, unless their numbers differ.
    repeat_gain
        What a repetition in another session adds to the importance.
    max_memories, max_chars
        Most memories made of one turn, and the longest of them.
    private_values
        ``redact``: private values are taken out before anything is stored. ``vault``: they are kept in ``private``, which
        a grant opens. ``allow``: they stay.
    remembered_briefings
        The briefings of this handle whose words are known again.
    """

    assistant_trust: Share = 0.8
    tool_trust: Share = 0.6
    import_trust: Share = 0.5
    instructing_trust: Share = 0.2
    correction_overlap: Share = 0.25
    forget_overlap: Share = 0.6
    same_overlap: Share = 0.9
    repeat_gain: Share = 0.05
    max_memories: AtLeastOne = 8
    max_chars: Annotated[int, Field(ge=1, le=16_384)] = 2_000
    private_values: Literal["redact", "vault", "allow"] = "redact"
    remembered_briefings: Annotated[int, Field(ge=1, le=1_000)] = 8


class AccessConfig(Shape):
    """Which tiers a type of task may see.

    Attributes
    ----------
    tiers
        Type of task to the tiers that a briefing for it may draw from; the row ``*`` holds for all others, and without
        it they see all.

    Examples
    --------
    >>> AccessConfig(tiers={"translate": ["procedural"]}).tiers["translate"]
    (<Tier.PROCEDURAL: 'procedural'>,)
    """

    tiers: dict[str, tuple[TierWord, ...]] = Field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.tiers.items())))


class ProceduresConfig(Shape):
    """Where the rules in files lie.

    Attributes
    ----------
    path
        A directory of ``*.json``, ``*.yaml`` and ``*.yml``; ``None`` has none.
    """

    path: str | None = None


class Config(Shape):
    """All that can be turned. What is not given has its default; an unknown name is refused with the nearest known one.

    Attributes
    ----------
    laws, working, consolidation, cleanup, search, keywords, vectors, briefing, writing, access, procedures
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
    writing: WritingConfig = WritingConfig()
    access: AccessConfig = AccessConfig()
    procedures: ProceduresConfig = ProceduresConfig()
    durability: Literal["full", "normal", "memory"] = "full"
    id_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None

    def flat(self) -> dict[str, float | int | str | None]:
        """Every field that the core knows, and those of ``briefing``, as ``section.field`` to a plain scalar.

        The sections ``writing``, ``access`` and ``procedures`` are rules in Python, of which the core reads nothing.
        """
        return dict(_leaves("", self.model_dump(exclude=_IN_PYTHON)))

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """The configuration of a file and of the environment, which has the last word.

        Parameters
        ----------
        path
            A JSON file, or a YAML file where PyYAML is installed (the extra ``yaml``). ``None`` is what ``TIERMEM_CONFIG``
            names, else ``tiermem.yaml``, ``tiermem.yml`` or ``tiermem.json`` in the working directory, else no file.
        environ
            ``TIERMEM_<SECTION>_<FIELD>`` or ``TIERMEM_<FIELD>`` to a value, as in ``TIERMEM_BRIEFING_BUDGET=800``; what
            is neither a number nor ``true``, ``false``, ``null`` or JSON is a text. ``None`` is the process's environment.

        Raises
        ------
        InvalidInput
            Naming file and line, or the variable, with the field and the value; an unknown name with the nearest one.

        Examples
        --------
        >>> Config.load(environ={"TIERMEM_BRIEFING_BUDGET": "800"}).briefing.budget
        800
        >>> Config.load(environ={"TIERMEM_BRIEFING_BUDGETS": "800"})
        Traceback (most recent call last):
        tiermem_fast.errors.InvalidInput: TIERMEM_BRIEFING_BUDGETS: unknown; did you mean 'TIERMEM_BRIEFING_BUDGET'?
        """
        return _load(cls, path, os.environ if environ is None else environ)


_IN_PYTHON = {"writing", "access", "procedures"}
_FILES = ("tiermem.yaml", "tiermem.yml", "tiermem.json")
_PREFIX = "TIERMEM_"
_FILE_VARIABLE = f"{_PREFIX}CONFIG"


C = TypeVar("C", bound="Config")


def _load(cls: type[C], path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> C:
    file = Path(path) if path is not None else _file_of(environ)
    values: dict[str, Any] = {}
    document: Located | None = None
    if file is not None:
        document = read_document(file)
        if document.value is not None and not isinstance(document.value, dict):
            raise document.fault((), "", f"{shown(document.value)} is not a mapping of sections")
        values = document.value or {}
        try:
            cls(**values)
        except InvalidInput as error:
            field = error.argument or ""
            raise document.fault(tuple(field.split(".")), field, str(error).partition(": ")[2]) from None
    places = _variables(cls)
    origin: dict[str, str] = {}
    for variable in sorted(name for name in environ if name.startswith(_PREFIX) and name != _FILE_VARIABLE):
        if variable not in places:
            raise InvalidInput.of(variable, f"unknown; {nearest(variable, [*places, _FILE_VARIABLE])}")
        section, name = places[variable]
        target = values if section is None else values.setdefault(section, {})
        target[name] = _value_of(environ[variable])
        origin[name if section is None else f"{section}.{name}"] = variable
    try:
        return cls(**values)
    except InvalidInput as error:
        # A variable may only clash with what the file says: then it is named with the field that tells so.
        variable = origin.get(error.argument or "", ", ".join(sorted(origin.values())))
        raise InvalidInput.of(variable, str(error)) from None


def _file_of(environ: Mapping[str, str]) -> Path | None:
    if environ.get(_FILE_VARIABLE):
        return Path(environ[_FILE_VARIABLE])
    return next((Path(name) for name in _FILES if Path(name).is_file()), None)


def _variables(cls: type[Config]) -> dict[str, tuple[str | None, str]]:
    """Every variable to the section and the field it sets."""
    places: dict[str, tuple[str | None, str]] = {}
    for name, field in cls.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Shape):
            places |= {f"{_PREFIX}{name}_{inner}".upper(): (name, inner) for inner in section.model_fields}
        else:
            places[f"{_PREFIX}{name}".upper()] = (None, name)
    return places


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _leaves(path: str, values: dict[str, Any]) -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in values.items():
        leaves += _leaves(f"{path}{name}.", value) if isinstance(value, dict) else [(path + name, value)]
    return leaves
