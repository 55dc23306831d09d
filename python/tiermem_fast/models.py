"""The shapes that travel: memories, hits, briefings and reports, as pydantic models.

Owns what the package hands out and what :func:`MemoryItem.given` reads in; calls :mod:`.errors`, :mod:`.tiers` and
:mod:`.times`. Whatever a user builds is validated in full and a fault is an :class:`.errors.InvalidInput`; what comes
from the core was checked there and is taken as it is. Every shape is frozen.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from .errors import InvalidInput, nearest, shown
from .tiers import SOURCES, TIERS, DropReason, Source, Tier
from .times import from_seconds, to_seconds

__all__ = [
    "BackupReport",
    "Briefing",
    "BriefingItem",
    "CompactReport",
    "ConsolidationReport",
    "Damaged",
    "DropReason",
    "Dropped",
    "ErasureReceipt",
    "Hit",
    "ImportReport",
    "KnownBackup",
    "LetGo",
    "MaintenanceReport",
    "MemoryItem",
    "Merged",
    "Promoted",
    "Residue",
    "Review",
    "Shape",
    "SkippedLine",
    "SnapshotReport",
    "Source",
    "Stats",
    "Tier",
    "VerifyReport",
]


class Shape(BaseModel):
    """The base of every model here: frozen, no unknown fields, and its faults are :class:`.errors.InvalidInput`."""

    # The namespace "model_" is pydantic's by default, and the word of the field for a model's id.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null", protected_namespaces=())

    if not TYPE_CHECKING:  # a type checker reads the fields instead

        def __init__(self, /, **data: Any) -> None:
            try:
                self.__pydantic_validator__.validate_python(data, self_instance=self)
            except ValidationError as error:
                raise _first_fault(type(self), error) from None

        # What pydantic asks before it validates a nested model without a Python call, which keeps the path to a fault.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """As pydantic's, with an :class:`.errors.InvalidInput` for a fault."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise _first_fault(cls, error) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As pydantic's, with an :class:`.errors.InvalidInput` for a fault."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise _first_fault(cls, error) from None


def _first_fault(cls: type[BaseModel], error: ValidationError) -> InvalidInput:
    """The first fault that pydantic found, named by the path to the argument, with the value and the remedy."""
    fault = error.errors(include_url=False)[0]
    path = [str(part) for part in fault["loc"]]
    argument = ".".join(path) or cls.__name__
    own = fault.get("ctx", {}).get("error")
    if isinstance(own, InvalidInput):  # one of the checks of this package, whose message has the value in it
        name, owner = own.argument or "", _model_at(cls, path)
        if owner is not None and name in owner.model_fields:
            argument = ".".join([*path, name])
        return InvalidInput.of(argument, str(own).removeprefix(f"{name}: "))
    if fault["type"] == "extra_forbidden":
        owner = _model_at(cls, path[:-1]) or cls
        return InvalidInput.of(argument, f"unknown; {nearest(path[-1], owner.model_fields)}")
    if fault["type"] == "missing":
        return InvalidInput.of(argument, "is needed")
    return InvalidInput.of(argument, f"{fault['msg'].removeprefix('Value error, ')}, got {shown(fault['input'])}")


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    """The model that a path of field names and positions leads to, ``None`` when it is no model."""
    found: type[BaseModel] | None = model
    for part in path:
        if found is None:
            return None
        if not part.isdecimal():  # a position within a tuple of models stays with the model
            field = found.model_fields.get(part)
            found = _model_within(field.annotation) if field else None
    return found


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as ``tuple[Dropped, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_within, get_args(annotation))), None)


def _moment(value: Any) -> datetime:
    """A time of any accepted kind, or an ISO 8601 text as JSON carries it, to an aware UTC ``datetime``."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput.of("time", f"{shown(value)} is not an ISO 8601 time") from None
    elif value is None:
        raise InvalidInput.of("time", "None is not a time")
    return from_seconds(to_seconds(value, "time"))


def _json_object(value: Any) -> dict[str, Any]:
    """A mapping that JSON can say: text keys, no NaN, no objects."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput.of("object", f"{shown(value)} is not a dict with text keys")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput.of("object", f"{shown(value)} is not JSON: {error}") from None
    return dict(value)


def _names(value: Any) -> Any:
    """A set of names in the order given, each once; one bare text is a mistake that would become its letters."""
    if isinstance(value, str):
        raise InvalidInput.of("names", f"{shown(value)} is one text; give a list of texts")
    return tuple(dict.fromkeys(value)) if isinstance(value, (list, tuple, set, frozenset)) else value


def _tier(value: Any) -> Tier:
    return Tier(value)


def _source(value: Any) -> Source:
    return Source(value)


TierWord = Annotated[Tier, BeforeValidator(_tier)]
SourceWord = Annotated[Source, BeforeValidator(_source)]
Name = Annotated[str, StringConstraints(min_length=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_names)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(_json_object)]
HalfLife = Annotated[float, Field(gt=0.0), BeforeValidator(lambda value: math.inf if value is None else value)]


class MemoryItem(Shape):
    """One memory.

    Those of a store come complete. One that you build to have it added needs only its ``text``: what is not given is
    decided by the store, and :meth:`given` tells the two apart.

    Attributes
    ----------
    id
        A UUID version 7; empty until stored.
    text
        What it says.
    tier
        Where it lives.
    importance
        0 (trivia) to 1 (vital).
    session
        The session it was said in.
    about
        Whom or what it concerns; ``None`` is general.
    source
        Who said it.
    trust
        0 (hearsay) to 1 (certain).
    tags
        Free words.
    labels
        Privacy classes; a reader needs a grant for each.
    private
        Fields that stay masked unless granted. Not shown by ``repr``.
    metadata
        A JSON object.
    created_at, last_used_at
        When it was written, and last used or reinforced; aware, UTC.
    use_count, repeat_count
        How often it was used, and how often the same was said again.
    half_life
        Seconds until half of it is forgotten; infinity never decays. ``null`` in JSON is infinity.
    expires_at
        When it ends, if it does.
    pinned
        Never decays, is never cleaned up.
    derived_from
        Ids of the memories it was made from.
    supersedes, superseded_by
        Ids of the memory whose place it took, and of the one that took its place.
    version
        Counts its changes, from 1; 0 until stored.

    Raises
    ------
    InvalidInput
        Naming the field and the value.

    Examples
    --------
    >>> item = MemoryItem(text="Replies to Director Li stay formal", tier="semantic", importance=0.85)
    >>> item.tier, item.about, item.given()["importance"]
    (<Tier.SEMANTIC: 'semantic'>, None, 0.85)
    >>> MemoryItem(text="x", importance=1.5)
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: importance: Input should be less than or equal to 1, got 1.5
    >>> MemoryItem(text="x", sesion="s1")
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: sesion: unknown; did you mean 'session'?
    """

    id: str = ""
    text: Annotated[str, StringConstraints(min_length=1)]
    tier: TierWord = Tier.WORKING
    importance: Share = 0.5
    session: Name | None = None
    about: Name | None = None
    source: SourceWord = Source.USER
    trust: Share = 1.0
    tags: Names = ()
    labels: Names = ()
    private: JsonObject = Field(default_factory=dict, repr=False)
    metadata: JsonObject = Field(default_factory=dict)
    created_at: Moment = Field(default_factory=lambda: datetime.now(UTC))
    last_used_at: Moment = Field(default_factory=lambda: datetime.now(UTC))
    use_count: Count = 0
    repeat_count: Count = 0
    half_life: HalfLife = math.inf
    expires_at: Moment | None = None
    pinned: bool = False
    derived_from: Names = ()
    supersedes: Name | None = None
    superseded_by: Name | None = None
    version: Count = 0

    @model_validator(mode="before")
    @classmethod
    def _first_use_is_its_birth(cls, data: Any) -> Any:
        if isinstance(data, dict) and "created_at" in data and "last_used_at" not in data:
            return {**data, "last_used_at": data["created_at"]}
        return data

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The memory of a row of the core, unchecked: the core did that.

        Parameters
        ----------
        row
            Field names to values, in the core's own form: times are seconds since 1970, tier and source are numbers or
            names, metadata and private are JSON texts, dicts or ``None``, names come as any sequence. A field that is
            absent has its default.

        Examples
        --------
        >>> item = MemoryItem.from_row({"id": "7", "text": "x", "tier": 2, "created_at": 0.0, "metadata": '{"a": 1}'})
        >>> item.tier.value, item.created_at.year, item.metadata
        ('semantic', 1970, {'a': 1})
        """
        values = dict(row)
        for name, convert in _CONVERSIONS:
            if name in values:
                values[name] = convert(values[name])
        if "last_used_at" not in values and "created_at" in values:
            values["last_used_at"] = values["created_at"]
        if values.keys() != cls.model_fields.keys():
            return cls.model_construct(_fields_set=set(row), **values)
        # What model_construct ends in, without its walk over the fields: hits are made one by one in loops.
        item = cls.__new__(cls)
        for name, value in (
            ("__dict__", values),
            ("__pydantic_fields_set__", set(values)),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(item, name, value)
        return item

    def given(self) -> dict[str, Any]:
        """The fields that were given, as keyword arguments of ``add``; for a stored memory that is all of them.

        Examples
        --------
        >>> MemoryItem(text="x", tags=["a"]).given()
        {'text': 'x', 'tags': ('a',)}
        """
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def __hash__(self) -> int:
        # Equal memories have equal ids; the generated hash would fail on the dicts.
        return hash((self.id, self.text))


class Hit(MemoryItem):
    """A memory found by a search.

    Attributes
    ----------
    score
        What it was ranked by: relevance, aged by strength and weighted by importance.
    relevance
        How well it answers the query, 0 to 1.
    strength
        How well it is still remembered, 0 to 1.
    vector_score, keyword_score
        What each arm said; ``None`` when that arm did not look at it.
    """

    score: float
    relevance: float
    strength: float
    vector_score: float | None = None
    keyword_score: float | None = None

    __hash__ = MemoryItem.__hash__


class BriefingItem(MemoryItem):
    """A memory that went into a prompt.

    Attributes
    ----------
    citation
        The mark that stands behind its line, as in ``m:5c9e01aa``; unique within the briefing.
    origin
        Who said it, when, in which session; as it stands in the text.
    why
        Why it was chosen.
    score, relevance, strength
        As in :class:`Hit`; ``None`` when it was not searched for.
    """

    citation: str
    origin: str = ""
    why: str = ""
    score: float | None = None
    relevance: float | None = None
    strength: float | None = None

    __hash__ = MemoryItem.__hash__


class Dropped(Shape):
    """A memory that was a candidate for a prompt and is not in it.

    Attributes
    ----------
    id
        Its id.
    reason
        Why, as one word.
    detail
        Why, with the numbers.
    preview
        How its text begins; empty when it is private.
    """

    id: str
    reason: DropReason
    detail: str = ""
    preview: str = ""


class Briefing(Shape):
    """What goes into the next prompt, and what does not.

    ``str(briefing)`` is the text; iterating gives the items; an empty one is false.

    Attributes
    ----------
    text
        The prompt part; empty when nothing is relevant.
    items
        The memories in it, in the order of the text.
    dropped
        The candidates left out, each with its reason.
    tokens
        The tokens of the text, never more than ``budget``.
    budget
        What was allowed.

    Examples
    --------
    >>> briefing = Briefing(text="", items=(), dropped=(), tokens=0, budget=1200)
    >>> bool(briefing), len(briefing), str(briefing)
    (False, 0, '')
    """

    text: str
    items: tuple[BriefingItem, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    tokens: Count = 0
    budget: Count = 0

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return len(self.items)

    def cited(self, answer: str) -> tuple[BriefingItem, ...]:
        """The items whose citation stands in an answer: those that were used, and are worth reinforcing.

        Examples
        --------
        >>> item = BriefingItem(text="Tea, not coffee", citation="m:5c9e01aa")
        >>> [one.text for one in Briefing(text="…", items=(item,)).cited("Tea is ready [m:5c9e01aa].")]
        ['Tea, not coffee']
        """
        marks = set(re.findall(r"m:\w+", answer))
        return tuple(item for item in self.items if item.citation in marks)

    def __iter__(self) -> Iterator[BriefingItem]:  # type: ignore[override]  # items say more than pydantic's field pairs
        return iter(self.items)


class Stats(Shape):
    """What a store holds and how it serves it.

    Attributes
    ----------
    path
        Its directory; ``None`` is in RAM.
    durability
        ``full``, ``normal`` or ``memory``.
    read_only
        Whether this handle refuses to write.
    commit
        Number of the last change.
    alive, forgotten, superseded, merged
        Memories by what has become of them.
    tiers
        Living memories per tier.
    model_id, dimension
        The embedder that the store remembers; ``None`` without one.
    search
        How text is searched: ``keywords``, ``vectors`` or ``hybrid``.
    vectors
        Memories that have a vector.
    graph, tail
        Vectors in the graph, and those that are still scanned because the graph has not absorbed them.
    damaged
        Memories that were found damaged and are therefore not served: why, by id (or ``row n`` where the id is damaged).
    warnings
        What went wrong with files that can be made anew, and was.
    ram_bytes, disk_bytes
        Bytes held in memory and on disk.
    """

    path: str | None = None
    durability: str = "memory"
    read_only: bool = False
    commit: Count = 0
    alive: Count = 0
    forgotten: Count = 0
    superseded: Count = 0
    merged: Count = 0
    tiers: dict[TierWord, int] = Field(default_factory=lambda: dict.fromkeys(TIERS, 0))
    model_id: str | None = None
    dimension: int | None = None
    search: str = "keywords"
    vectors: Count = 0
    graph: Count = 0
    tail: Count = 0
    damaged: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ram_bytes: Count = 0
    disk_bytes: Count = 0


class MaintenanceReport(Shape):
    """What one turn of maintenance did.

    Attributes
    ----------
    absorbed
        Vectors that the graph took from the tail.
    rebuilt
        Whether the graph was made anew because too many of its vectors were dead.
    tail
        Vectors that are still scanned.
    flushed
        Buffered uses that were written.
    finished
        Whether nothing was left to do.
    """

    absorbed: Count = 0
    rebuilt: bool = False
    tail: Count = 0
    flushed: Count = 0
    finished: bool = True


class SnapshotReport(Shape):
    """A finished snapshot.

    Attributes
    ----------
    path
        The file.
    commit
        The commit of the store that it shows.
    memories
        Memories in any state: living, forgotten, superseded, merged.
    events, edges, keys
        Entries of their histories, links between them, idempotency keys.
    model_id, dimension
        What the vectors in it are from; ``None`` when there are none.
    bytes
        The size of the file.
    digest
        BLAKE2b over all of it, in hex: two files with the same digest are the same.

    Examples
    --------
    >>> print(SnapshotReport(path="x.tiermem", commit=7, memories=2, bytes=1_234, digest="00"))
    x.tiermem: 2 memories at commit 7, 1234 bytes
    """

    path: str
    commit: Count
    memories: Count
    events: Count = 0
    edges: Count = 0
    keys: Count = 0
    model_id: str | None = None
    dimension: Count | None = None
    bytes: Count
    digest: str

    def __str__(self) -> str:
        return f"{self.path}: {self.memories} memories at commit {self.commit}, {self.bytes} bytes"


class SkippedLine(Shape):
    """A line of a file that was not imported: its number, from 1, and why."""

    line: Count
    reason: str


class ImportReport(Shape):
    """What became of the lines of a file.

    Attributes
    ----------
    read
        Lines that were not blank.
    created, reinforced
        Lines that made a new memory, and those that reinforced one that says the same.
    skipped
        Lines that were not imported, each with its reason.
    masked
        Private fields that were left out because the file has a mask in their place.
    unlinked
        Links in ``derived_from`` that were left out because their memory is neither in the file nor in the store.

    Examples
    --------
    >>> print(ImportReport(read=3, created=2, skipped=[SkippedLine(line=2, reason="text: is needed")]))
    read 3, created 2, reinforced 0, skipped 1
    """

    read: Count = 0
    created: Count = 0
    reinforced: Count = 0
    skipped: tuple[SkippedLine, ...] = ()
    masked: Count = 0
    unlinked: Count = 0

    def __str__(self) -> str:
        counts = (self.read, self.created, self.reinforced, len(self.skipped))
        return "read {}, created {}, reinforced {}, skipped {}".format(*counts)


class Promoted(Shape):
    """A memory that moved to another tier: which, from where, to where, and why."""

    id: str
    from_tier: TierWord
    to_tier: TierWord
    reason: str


class Merged(Shape):
    """Memories that became one: the one that stays, those folded into it, and why."""

    id: str
    absorbed: tuple[str, ...]
    reason: str


class LetGo(Shape):
    """A memory that was not kept: which, from which tier, why, and how its text began."""

    id: str
    tier: TierWord
    reason: str
    preview: str = ""


class ConsolidationReport(Shape):
    """What one consolidation did, by name: nothing moves or goes without being listed.

    Attributes
    ----------
    promoted
        Memories that moved to another tier.
    merged
        Memories that became one.
    let_go
        Memories of working memory that were not worth keeping.
    expired
        Memories whose time was over.

    Examples
    --------
    >>> str(ConsolidationReport(let_go=[LetGo(id="7", tier="working", reason="overflow")]))
    'promoted 0, merged 0, let go 1, expired 0'
    """

    promoted: tuple[Promoted, ...] = ()
    merged: tuple[Merged, ...] = ()
    let_go: tuple[LetGo, ...] = ()
    expired: tuple[LetGo, ...] = ()

    def __str__(self) -> str:
        absorbed = sum(len(one.absorbed) for one in self.merged)
        counts = (len(self.promoted), absorbed, len(self.let_go), len(self.expired))
        return "promoted {}, merged {}, let go {}, expired {}".format(*counts)


class Review(Shape):
    """A memory that was not erased but is tied to one that was: which, and how."""

    id: str
    reason: str


class Residue(Shape):
    """What is left of erased memories in a file: its path below the store's directory, and how many pieces are in it."""

    file: str
    pieces: Count


class KnownBackup(Shape):
    """A backup or snapshot that the store knows of: where, when it was made, and the commit it shows."""

    path: str
    at: Moment
    commit: Count


class ErasureReceipt(Shape):
    """What an erasure did. It holds nothing of what was erased, and the store keeps it.

    Attributes
    ----------
    at
        When.
    commit
        The commit that took the memories out; 0 when there were none.
    scope
        What was named: ``ids``, ``session``, ``where`` or ``everything``.
    cascade
        ``derived`` or ``all``.
    asked, erased
        Memories that were named, and memories that are gone: those that followed included.
    review
        Memories that stay but should be looked at.
    unreadable
        Damaged memories of which a condition cannot tell whether it means them.
    searched
        Different pieces of erased values that were looked for: of texts in UTF-8, UTF-16 and as JSON escapes them, of
        vectors as f32, f16 and i8. Of more than 100,000 memories only what this library itself writes.
    unsearched
        Values under 8 bytes, or of a few bytes repeated: they were erased but cannot be told from chance in a file.
    files, bytes
        What was read to the last byte.
    residues
        What was found. Values that a living memory holds as well are no residue.
    log_emptied
        Whether the write-ahead log is empty; a process that reads for long can hold it, and then the next
        :meth:`.TierMemory.maintain` or :meth:`.TierMemory.open` goes on from there.
    rewritten
        Whether the whole file was written anew.
    completed_later
        Whether the call was cut short and completed by a later one. That one cannot search for texts, which nobody may
        have kept for it; it writes the file anew instead.
    removed
        Older copies of the database that were removed.
    backups
        Backups and snapshots that the store knows of and that may still hold what was erased.
    digest
        SHA-256 over all of the above.
    """

    at: Moment
    commit: Count = 0
    scope: str
    cascade: str = "derived"
    asked: Count = 0
    erased: Count = 0
    review: tuple[Review, ...] = ()
    unreadable: Count = 0
    searched: Count = 0
    unsearched: Count = 0
    files: Count = 0
    bytes: Count = 0
    residues: tuple[Residue, ...] = ()
    log_emptied: bool = True
    rewritten: bool = False
    completed_later: bool = False
    removed: tuple[str, ...] = ()
    backups: tuple[KnownBackup, ...] = ()
    digest: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing is left in the store's directory, as far as can be seen."""
        return self.log_emptied and not self.residues

    def expected_digest(self) -> str:
        """The digest that these values have; another one means that the receipt was changed.

        Examples
        --------
        >>> receipt = ErasureReceipt.from_native({"at": 0.0, "scope": "ids", "erased": 2})
        >>> (
        ...     receipt.digest == receipt.expected_digest(),
        ...     receipt.model_copy(update={"erased": 1}).expected_digest() == receipt.digest,
        ... )
        (True, False)
        """
        values = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @classmethod
    def from_native(cls, row: Mapping[str, Any]) -> Self:
        """The receipt of a row of the core."""
        values = dict(row)
        values["review"] = [Review(id=id, reason=reason) for id, reason in values.get("review", ())]
        values["residues"] = [Residue(file=file, pieces=pieces) for file, pieces in values.get("residues", ())]
        backups = values.get("backups", ())
        values["backups"] = [KnownBackup(path=path, at=at, commit=commit) for path, at, commit in backups]
        receipt = cls(**values)
        return receipt.model_copy(update={"digest": receipt.expected_digest()})


class Damaged(Shape):
    """A memory that is not as it was written: its id as far as that can be read, its row, and how it was seen."""

    id: str | None
    row: Count
    message: str


class VerifyReport(Shape):
    """What reading everything found, and what a repair made of it.

    Attributes
    ----------
    commit
        The commit that was looked at.
    sound
        Memories that are as they were written.
    damaged
        Memories that are not.
    structure
        What SQLite says about the file.
    entries
        Entries of histories, keys and settings that are damaged or point nowhere.
    strays
        Files in the directory that this library did not make. They are left alone.
    repaired
        Whether the store was repaired.
    lost, without_vector
        Memories that the repair dropped, and those that it kept without their vector.
    kept_aside
        Where the damaged file lies.
    """

    commit: Count
    sound: Count
    damaged: tuple[Damaged, ...] = ()
    structure: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    repaired: bool = False
    lost: tuple[Damaged, ...] = ()
    without_vector: tuple[Damaged, ...] = ()
    kept_aside: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged when it was looked at; strays are no damage."""
        return not (self.damaged or self.structure or self.entries)

    @classmethod
    def from_native(cls, row: Mapping[str, Any]) -> Self:
        """The report of a row of the core."""
        values = dict(row)
        for name in ("damaged", "lost", "without_vector"):
            values[name] = [Damaged(id=id, row=place, message=message) for id, place, message in values[name]]
        kept = values["kept_aside"]
        return cls(**{**values, "kept_aside": None if kept is None else str(kept)})


class BackupReport(Shape):
    """A backup that was made or restored.

    Attributes
    ----------
    path
        Its directory, or the one it was restored into.
    at
        When.
    commit
        The commit it shows.
    memories
        Memories in it, in any state, all verified.
    bytes
        Bytes of its file.
    """

    path: str
    at: Moment
    commit: Count
    memories: Count
    bytes: Count


class CompactReport(Shape):
    """What a compaction let go of, and the bytes on disk before and after it."""

    forgotten: Count
    merged: Count
    bytes_before: Count
    bytes_after: Count


_TIER_OF: dict[Any, Tier] = {**dict(enumerate(TIERS)), **{tier.value: tier for tier in TIERS}}
_SOURCE_OF: dict[Any, Source] = {**dict(enumerate(SOURCES)), **{source.value: source for source in SOURCES}}


def _object_of(value: Any) -> Any:
    if not value:
        return {}
    return json.loads(value) if isinstance(value, (str, bytes)) else value


_CONVERSIONS: tuple[tuple[str, Any], ...] = (
    ("tier", _TIER_OF.__getitem__),
    ("source", _SOURCE_OF.__getitem__),
    ("tags", tuple),
    ("labels", tuple),
    ("derived_from", tuple),
    ("metadata", _object_of),
    ("private", _object_of),
    ("created_at", from_seconds),
    ("last_used_at", from_seconds),
    ("expires_at", lambda value: None if value is None else from_seconds(value)),
)
