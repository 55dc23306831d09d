"""A conversation replayed through the tiers, and what is left of it when it is asked about.

Owns the order of events: what is written when, when the store consolidates, when time passes, what is asked. Calls the
store as any agent does, and the rules beside it. Time comes from the conversation and the stopwatch is an argument, so
that a run comes out the same each time but for the milliseconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from tiermem_fast.config import Config
from tiermem_fast.errors import InvalidInput
from tiermem_fast.kernels import strength
from tiermem_fast.tiers import TIERS, Tier

from .rules import PROFILE, judge, repeated, speaks_chinese

if TYPE_CHECKING:
    from tiermem_fast.memory import TierMemory
    from tiermem_fast.models import Briefing, BriefingItem, ConsolidationReport, MemoryItem

    from .conversation import Conversation, Question, Turn

__all__ = ["SEED", "Answer", "Fate", "Missed", "Period", "Report", "Use", "config", "replay"]

SEED: Final = 20_230_427
"""Seed of the ids."""

_LONG: Final = 21
"""Days of talk above which the table goes by weeks."""

_WEEK: Final = timedelta(days=7)
_PAGE: Final = 10_000


def config() -> Config:
    """The configuration of a store that is replayed into: the defaults, and ids that come out the same."""
    return Config(id_seed=SEED)


@dataclass(frozen=True, slots=True)
class Use:
    """A reply that used a memory: when, and the words of the memory that it repeats."""

    time: datetime
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one turn.

    Attributes
    ----------
    turn
        Its place in the conversation.
    id, text, role
        The memory made of it.
    importance, rules
        How much it matters, and the demo's rules that said so.
    event
        ``promoted`` (to semantic), ``merged`` or ``let go``.
    time
        When that happened.
    reason
        Why, as the store says.
    uses
        The replies that used it before.
    into
        The memory that it was folded into.
    """

    turn: int
    id: str
    text: str
    role: str
    importance: float
    rules: tuple[str, ...]
    event: str
    time: datetime
    reason: str
    uses: tuple[Use, ...] = ()
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """A row of the table: a day or week of talk, or a week of silence.

    Attributes
    ----------
    first, last
        Its days.
    said
        Turns.
    tiers
        Memories in each tier at its end.
    most_working
        Memories that working memory held at most.
    kept, promoted, merged, let_go
        What moved in it: working to episodic, episodic to semantic, folded together, let go.
    used
        Uses of memories by replies.
    strength
        Mean strength of the episodic and the semantic memories at its end; ``None`` where there are none.
    """

    first: date
    last: date
    said: int
    tiers: dict[Tier, int]
    most_working: int
    kept: int
    promoted: int
    merged: int
    let_go: int
    used: int
    strength: dict[Tier, float | None]


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a turn that answers a question is not in its briefing.

    Attributes
    ----------
    reason
        One of the reasons for which a briefing leaves something out, ``let go`` or ``not found``.
    detail
        The store's own words for it.
    time
        When it was let go.
    """

    reason: str
    detail: str = ""
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and its briefing.

    Attributes
    ----------
    question
        What was asked.
    briefing
        What the store gave.
    seconds
        How long that took.
    held
        Of the turns that hold the answer, those which the briefing has; ``None`` when it is not known which do.
    missed
        Why each of the others is not in it.
    """

    question: Question
    briefing: Briefing
    seconds: float
    held: tuple[int, ...] | None
    missed: dict[int, Missed]


@dataclass(frozen=True, slots=True)
class Report:
    """What a replay showed.

    Attributes
    ----------
    conversation
        What was replayed.
    search
        How the store searches: ``keywords`` or ``hybrid``.
    model_id
        Its embedder.
    asked_at
        When the questions were asked.
    periods, fates, answers
        The rows of the table; what was promoted, merged and let go; the questions.
    turn_of
        Id of a memory to the place of the turn it was made of.
    reinforced
        Turns that said what an earlier one of their session had said.
    briefed
        How long each briefing took that was asked for before a reply, in seconds.
    written
        How long each turn took to be written, in seconds.
    """

    conversation: Conversation
    search: str
    model_id: str | None
    asked_at: datetime
    periods: tuple[Period, ...]
    fates: tuple[Fate, ...]
    answers: tuple[Answer, ...]
    turn_of: dict[str, int]
    reinforced: int
    briefed: tuple[float, ...]
    written: tuple[float, ...]

    def of(self, event: str) -> tuple[Fate, ...]:
        """The turns to which something happened."""
        return tuple(fate for fate in self.fates if fate.event == event)


def replay(
    conversation: Conversation,
    mem: TierMemory,
    *,
    stopwatch: Callable[[], float],
    weeks: int = 4,
    on_step: Callable[[int, int], Any] = lambda _done, _of: None,
) -> Report:
    """Replay a conversation into an empty store, let weeks pass, ask the questions.

    Parameters
    ----------
    conversation
        What to replay.
    mem
        An empty store, opened with :func:`config`.
    stopwatch
        Seconds that only their differences mean something of, as :func:`time.perf_counter`.
    weeks
        Weeks from the last turn to the questions.
    on_step
        Told after each turn, week and question how many of all steps are done.

    Raises
    ------
    InvalidInput
        If the store is not empty.

    Examples
    --------
    >>> from itertools import count
    >>> from tiermem_fast import TierMemory
    >>> from tiermem_fast.demo import conversation
    >>> with TierMemory.open(config=config(), durability="memory") as mem:
    ...     report = replay(conversation.shipped("en"), mem, stopwatch=count().__next__)
    >>> len(report.periods), len(report.answers)
    (14, 8)
    """
    if mem.stats(now=conversation.turns[0].time).commit:
        raise InvalidInput.of("mem", f"{mem!r} has been written to; give an empty store, so that nothing is mixed")
    return _Replay(conversation, mem, stopwatch, weeks, on_step).run()


class _Replay:
    def __init__(
        self,
        conversation: Conversation,
        mem: TierMemory,
        stopwatch: Callable[[], float],
        weeks: int,
        on_step: Callable[[int, int], Any],
    ) -> None:
        self.conversation = conversation
        self.mem = mem
        self.stopwatch = stopwatch
        self.weeks = weeks
        self.on_step = on_step
        chinese = speaks_chinese(turn.content for turn in conversation.turns)
        self.profile_question = PROFILE["zh" if chinese else "en"]
        self.session: str | None = None
        self.profile: list[BriefingItem] = []
        self.turn_of: dict[str, int] = {}
        self.id_of: dict[int, str] = {}
        self.uses: dict[str, list[Use]] = {}
        self.fates: list[Fate] = []
        self.periods: list[Period] = []
        self.briefed: list[float] = []
        self.written: list[float] = []
        self.reinforced = 0
        self.kept = self.used = self.most_working = 0

    def run(self) -> Report:
        turns = self.conversation.turns
        steps = len(turns) + self.weeks + len(self.conversation.questions)
        rules = config().working
        by_day = len({turn.time.date() for turn in turns}) <= _LONG
        at_hand: list[BriefingItem] = []
        start = 0
        for place, turn in enumerate(turns):
            if turn.role == "user":
                at_hand = self.brief(turn)
            elif turn.role == "assistant":
                self.note_uses(turn, at_hand)
                at_hand = []
            self.add(place, turn)
            following = turns[place + 1] if place + 1 < len(turns) else None
            idle = turn.time + timedelta(seconds=rules.ttl + 1)
            if following is None or following.time > idle:
                self.consolidate(idle)
            elif self.mem.count(tiers="working", session=turn.session, now=turn.time) > rules.capacity:
                self.consolidate(turn.time)
            if following is None or _period(following, by_day) != _period(turn, by_day):
                end = max(datetime.combine(_period(turn, by_day)[1], time(23, 59, 59), UTC), turn.time)
                if following is not None:
                    end = min(end, following.time)
                self.close_period(_period(turn, by_day), end, place + 1 - start)
                start = place + 1
            self.on_step(place + 1, steps)
        asked_at = self.pass_weeks(turns[-1], len(turns), steps)
        answers = []
        for place, question in enumerate(self.conversation.questions):
            answers.append(self.ask(question, asked_at))
            self.on_step(len(turns) + self.weeks + place + 1, steps)
        stats = self.mem.stats(now=asked_at)
        return Report(
            conversation=self.conversation,
            search=stats.search,
            model_id=stats.model_id,
            asked_at=asked_at,
            periods=tuple(self.periods),
            fates=tuple(self.fates),
            answers=tuple(answers),
            turn_of=self.turn_of,
            reinforced=self.reinforced,
            briefed=tuple(self.briefed),
            written=tuple(self.written),
        )

    # What an agent does in a turn.

    def brief(self, turn: Turn) -> list[BriefingItem]:
        """What the prompt for the reply would have: about the person, asked as the session began, and about the turn."""
        if turn.session != self.session:
            self.session, self.profile = turn.session, self.timed_brief(self.profile_question, turn)
        found = {item.id: item for item in (*self.profile, *self.timed_brief(turn.content, turn))}
        return list(found.values())

    def timed_brief(self, query: str, turn: Turn) -> list[BriefingItem]:
        start = self.stopwatch()
        briefing = self.mem.brief(query, session=turn.session, now=turn.time)
        self.briefed.append(self.stopwatch() - start)
        earlier = (Tier.EPISODIC, Tier.SEMANTIC)
        return [item for item in briefing if item.tier in earlier and item.session != turn.session]

    def note_uses(self, reply: Turn, at_hand: list[BriefingItem]) -> None:
        """Counts as used what the reply repeats of the memories of earlier sessions."""
        used = []
        for item in at_hand:
            words = repeated(item.text, reply.content)
            if words:
                used.append(item.id)
                self.uses.setdefault(item.id, []).append(Use(reply.time, words))
        if used:
            self.mem.used(used, now=reply.time)
        self.used += len(used)

    def add(self, place: int, turn: Turn) -> None:
        judgement = judge(turn.role, turn.content)
        start = self.stopwatch()
        added = self.mem.add(
            turn.content,
            tier="working",
            importance=judgement.importance,
            session=turn.session,
            source=turn.role,
            now=turn.time,
        )
        self.written.append(self.stopwatch() - start)
        self.reinforced += added.reinforced
        self.most_working = max(self.most_working, self.mem.count(tiers="working", now=turn.time))
        self.turn_of.setdefault(str(added), place)
        self.id_of[place] = str(added)

    # What happens between.

    def consolidate(self, now: datetime) -> None:
        report = self.mem.consolidate(now=now)
        self.kept += sum(one.to_tier is Tier.EPISODIC for one in report.promoted)
        self.fates += [*self.moved(report, now)]

    def moved(self, report: ConsolidationReport, now: datetime) -> list[Fate]:
        fates = [
            self.fate(one.id, "promoted", now, one.reason) for one in report.promoted if one.to_tier is Tier.SEMANTIC
        ]
        for one in report.merged:
            fates += [self.fate(id, "merged", now, one.reason, into=one.id) for id in one.absorbed]
        fates += [self.fate(one.id, "let go", now, one.reason) for one in (*report.let_go, *report.expired)]
        return fates

    def fate(self, id: str, event: str, now: datetime, reason: str, into: str | None = None) -> Fate:
        place = self.turn_of[id]
        turn = self.conversation.turns[place]
        judgement = judge(turn.role, turn.content)
        return Fate(
            turn=place,
            id=id,
            text=turn.content,
            role=turn.role,
            importance=judgement.importance,
            rules=judgement.rules,
            event=event,
            time=now,
            reason=reason,
            uses=tuple(self.uses.get(id, ())),
            into=into,
        )

    def close_period(self, days: tuple[date, date], end: datetime, said: int) -> None:
        self.consolidate(end)
        within = [fate.event for fate in self.fates[sum(p.promoted + p.merged + p.let_go for p in self.periods) :]]
        self.periods.append(
            Period(
                first=days[0],
                last=days[1],
                said=said,
                tiers={tier: self.mem.count(tiers=tier.value, now=end) for tier in TIERS},
                most_working=self.most_working,
                kept=self.kept,
                promoted=within.count("promoted"),
                merged=within.count("merged"),
                let_go=within.count("let go"),
                used=self.used,
                strength={tier: self.mean_strength(tier, end) for tier in (Tier.EPISODIC, Tier.SEMANTIC)},
            )
        )
        self.kept = self.used = self.most_working = 0

    def mean_strength(self, tier: Tier, now: datetime) -> float | None:
        strengths: list[float] = []
        page: list[MemoryItem] = self.mem.list(tiers=tier.value, limit=_PAGE, now=now)
        while page:
            elapsed = [max((now - item.last_used_at).total_seconds(), 0.0) for item in page]
            strengths += strength(elapsed, [item.half_life for item in page]).tolist()
            page = self.mem.list(tiers=tier.value, limit=_PAGE, after=page[-1].id, now=now)
        return statistics.fmean(strengths) if strengths else None

    def pass_weeks(self, last: Turn, done: int, steps: int) -> datetime:
        now = max(last.time, datetime.combine(self.periods[-1].last, time(23, 59, 59), UTC))
        for week in range(self.weeks):
            first = now.date() + timedelta(days=1)
            now += _WEEK
            self.close_period((first, now.date()), now, 0)
            self.on_step(done + week + 1, steps)
        return now

    # What is asked afterwards.

    def ask(self, question: Question, now: datetime) -> Answer:
        start = self.stopwatch()
        briefing = self.mem.brief(question.text, now=now)
        seconds = self.stopwatch() - start
        if question.turns is None:
            return Answer(question, briefing, seconds, None, {})
        inside = {item.id for item in briefing}
        held = tuple(turn for turn in question.turns if self.lives_as(turn) in inside)
        missed = {turn: self.why_not(turn, briefing) for turn in question.turns if turn not in held}
        return Answer(question, briefing, seconds, held, missed)

    def lives_as(self, turn: int) -> str:
        """The memory that a turn is in by now: its own, or that which it was folded into."""
        id, into = self.id_of[turn], {fate.id: fate.into for fate in self.fates if fate.into is not None}
        while id in into:
            id = into[id]
        return id

    def why_not(self, turn: int, briefing: Briefing) -> Missed:
        id = self.lives_as(turn)
        for dropped in briefing.dropped:
            if dropped.id == id:
                return Missed(dropped.reason.value, dropped.detail)
        for fate in self.fates:
            if fate.id == id and fate.event == "let go":
                return Missed("let go", fate.reason, fate.time)
        return Missed("not found")


def _period(turn: Turn, by_day: bool) -> tuple[date, date]:
    day = turn.time.date()
    if by_day:
        return day, day
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)
