"""What might go into a briefing, asked of the store: the candidates of all tiers, and those that only lack the right.

Owns :class:`Question` and :func:`gather`. Calls the shapes of :mod:`.briefing` and reads through the :class:`Reader` that
it is given. Whom a question is about is found in it when it is not said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..tiers import DropReason, Source, Tier
from .briefing import BriefingRules, Candidate, DroppedCandidate
from .write import INSTRUCTION, STANDING

if TYPE_CHECKING:
    from .procedures import Matched

__all__ = ["Gathered", "Question", "Reader", "gather"]

Row = Mapping[str, Any]


class Reader(Protocol):
    """Reads rows as one reader sees them at one time; rows are dicts of plain values."""

    def listed(self, *, limit: int, **filters: Any) -> Sequence[dict[str, Any]]:
        """The latest rows of a filter."""
        ...

    def any(self, *, everything: bool = ..., **filters: Any) -> bool:
        """Whether a filter holds of any row; ``everything`` disregards the reader's rights."""
        ...

    def found(
        self, *, k: int, least: float, share: float, everything: bool = ..., **filters: Any
    ) -> tuple[Sequence[dict[str, Any]], Sequence[tuple[str, float, float]]]:
        """The best rows for the question, and what is too faint to be read: id, relevance, and what was needed.

        ``relevance`` is calibrated; needed is ``least``, and ``share`` of the best. ``everything`` disregards the reader's
        rights.
        """
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What a briefing is for.

    Attributes
    ----------
    query, task, session
        As given.
    about
        Whom it is about; empty is nobody in particular.
    tiers
        The tiers that the task may see.
    labels
        The labels that the reader holds a grant for.
    """

    query: str
    task: str | None = None
    session: str | None = None
    about: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = tuple(Tier)
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Gathered:
    """The candidates, the rows behind them by id, and what the search found too faint to be one."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    faint: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, row: dict[str, Any], **found: Any) -> None:
        """Take a row, unless it is there."""
        if row["id"] not in self.candidates:
            self.rows[row["id"]] = row
            self.candidates[row["id"]] = _candidate(row, **found)

    def too_faint(self) -> tuple[DroppedCandidate, ...]:
        """What was found but too faint to be considered, and is not there for another reason."""
        return tuple(
            DroppedCandidate(id, DropReason.BELOW_THRESHOLD, f"relevance {value:.2f} is under {needed:.2f}")
            for id, (value, needed) in self.faint.items()
            if id not in self.candidates
        )


_MOST: Final = 10_000
_FOUND: Final = 50
_NEAR_MISSES: Final = 20
_SEARCHED: Final = (Tier.SEMANTIC, Tier.EPISODIC, Tier.PROCEDURAL)


def gather(question: Question, reader: Reader, rules: BriefingRules, procedures: Sequence[Matched] = ()) -> Gathered:
    """The candidates for a briefing.

    Working memory and the latest episodes of the session come whatever they say; rules of files as they matched; learned
    rules and instructions of the task by its type; standing instructions always; everything else by the question. What
    the reader holds no grant for, and what is about somebody else, comes along to be named among what was dropped.

    Parameters
    ----------
    question
        What is asked, by whom.
    reader
        Reads the store.
    rules
        The window, and how many standing instructions.
    procedures
        The rules of files that matched.
    """
    gathered = Gathered()
    about = question.about[0] if len(question.about) == 1 else None
    _rules(question, reader, about, procedures, gathered)
    _at_hand(question, reader, rules, about, gathered)
    if Tier.SEMANTIC in question.tiers:
        _instructions(question, reader, rules, about, gathered)
    searched = [tier.value for tier in _SEARCHED if tier in question.tiers]
    if question.query.strip() and searched:
        _answers(question, reader, rules, about, searched, gathered)
    return gathered


def _rules(
    question: Question, reader: Reader, about: str | None, procedures: Sequence[Matched], gathered: Gathered
) -> None:
    """The rules of files that matched, and the learned ones of the task."""
    if Tier.PROCEDURAL not in question.tiers:
        return
    for one in procedures:
        gathered.take(_row_of(one), why=one.why, score=one.procedure.priority / 1_000.0)
    if question.task is not None:
        for row in reader.listed(limit=_MOST, tiers=["procedural"], about=about):
            if _for_task(row, question.task):
                gathered.take(row, why=f"a rule for the task {question.task}")


def _at_hand(question: Question, reader: Reader, rules: BriefingRules, about: str | None, gathered: Gathered) -> None:
    """Working memory and the latest episodes of the session."""
    if Tier.WORKING in question.tiers:
        in_session = {"where": {"session": None}} if question.session is None else {"session": question.session}
        for row in reader.listed(limit=_MOST, tiers=["working"], about=about, **in_session):
            gathered.take(row, why="in working memory")
    if Tier.EPISODIC in question.tiers and question.session is not None:
        window = reader.listed(limit=rules.episodic_window, tiers=["episodic"], about=about, session=question.session)
        for row in window:
            gathered.take(row, why="said lately in this session")


def _answers(
    question: Question, reader: Reader, rules: BriefingRules, about: str | None, searched: list[str], gathered: Gathered
) -> None:
    """What answers the question, the instructions that have to do with it, and what only lacks the right."""
    least = rules.min_relevance or 0.0
    rows, faint = reader.found(k=_FOUND, least=least, share=rules.min_share_of_best, tiers=searched, about=about)
    for row in rows:
        gathered.take(row, why="answers the question", **_scores(row))
    # An instruction that has to do with the question holds beside any better answer.
    orders: dict[str, Any] = {"tiers": ["semantic"], "about": about, "where": {"tags": INSTRUCTION}}
    if Tier.SEMANTIC in question.tiers and reader.any(**orders):
        for row in reader.found(k=_NEAR_MISSES, least=least, share=0.0, **orders)[0]:
            gathered.take(row, why="an instruction that answers the question", **_scores(row))
    gathered.faint = {id: (value, needed) for id, value, needed in faint}
    if not question.about and not reader.any(everything=True, where={"labels": {"exists": True}}):
        return
    for row in reader.found(k=_NEAR_MISSES, least=least, share=0.0, everything=True, tiers=searched)[0]:
        missing = [label for label in row["labels"] or () if label not in question.labels]
        if missing:
            gathered.take(row, denied=missing[0], **_scores(row))
        elif question.about and row["about"] is not None:
            gathered.take(row, **_scores(row))


def _instructions(
    question: Question, reader: Reader, rules: BriefingRules, about: str | None, gathered: Gathered
) -> None:
    """What the user told the agent to do: on how to answer, always; for a type of task, with the task."""
    if rules.standing:
        for row in reader.listed(limit=rules.standing, tiers=["semantic"], about=about, where={"tags": STANDING}):
            gathered.take(row, why="a standing instruction")
    if question.task is not None:
        where = {"tags": INSTRUCTION, "task": question.task}
        for row in reader.listed(limit=_FOUND, tiers=["semantic"], about=about, where=where):
            gathered.take(row, why=f"an instruction for the task {question.task}")


def _for_task(row: Row, task: str) -> bool:
    wanted = json.loads(row["metadata"] or "{}").get("task")
    return wanted == task or (isinstance(wanted, list) and task in wanted)


def _scores(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("relevance", "score", "strength")}


def _row_of(matched: Matched) -> dict[str, Any]:
    """A rule of a file in the form of a memory: procedural, of the system, with the file in its metadata."""
    rule = matched.procedure
    metadata = {"procedure": rule.id, "version": rule.version, "file": matched.procedure.file}
    return {
        "id": f"procedure:{rule.id}", "text": rule.then, "tier": Tier.PROCEDURAL.value, "importance": 1.0, "session": None,
        "about": None, "source": Source.SYSTEM.value, "trust": 1.0, "tags": [], "labels": [], "private": None,
        "metadata": json.dumps(metadata), "created_at": rule.changed_at, "last_used_at": rule.changed_at, "use_count": 0,
        "repeat_count": 0, "half_life": float("inf"), "expires_at": None, "pinned": True, "derived_from": [],
        "supersedes": None, "superseded_by": None, "version": rule.version,
    }  # fmt: skip


def _candidate(row: Row, **found: Any) -> Candidate:
    return Candidate(
        id=row["id"],
        text=row["text"],
        tier=Tier(row["tier"]),
        source=Source(row["source"]),
        trust=row["trust"],
        about=row["about"],
        session=row["session"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        importance=row["importance"],
        tags=tuple(row["tags"] or ()),
        **found,
    )
