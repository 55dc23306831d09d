"""A conversation to replay: the shipped ones, or a file of one's own.

Owns the reading and checking of files. Calls the errors and times of the package and the data files beside it. It
promises that a fault names the file, the line, the field and the value, and says what to write instead, and that
nothing is read beyond the limits below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tiermem_fast.errors import InvalidInput, LimitExceeded, nearest, shown
from tiermem_fast.times import from_seconds, to_seconds

from .source import FORMS, Source, fault

__all__ = ["LANGUAGES", "MAX_BYTES", "Conversation", "Question", "Turn", "parse", "read", "shipped", "with_questions"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the largest file that is read."""

MAX_TURNS: Final = 100_000
"""Turns of the longest conversation that is replayed."""

MAX_TEXT_BYTES: Final = 64 * 1024
"""UTF-8 bytes of the longest turn; the limit of a memory."""

MAX_NAME_BYTES: Final = 512
"""UTF-8 bytes of the longest name of a session."""

LANGUAGES: Final = ("en", "zh")
"""The languages of which a conversation is shipped."""

ROLES: Final = ("user", "assistant", "system", "tool")
"""Who may speak; the sources of a memory have the same names."""

_EVENING = timedelta(hours=19)
_A_MINUTE = timedelta(minutes=1)
_HOURS_OF_A_DAY = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said: by whom, when (aware, UTC), in which session."""

    role: str
    content: str
    time: datetime
    session: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked afterwards.

    Attributes
    ----------
    text
        The question.
    turns
        Places of the turns that hold the answer; none when nothing in the conversation answers it, ``None`` when it is
        not known.
    """

    text: str
    turns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in the order of time, and questions about them.

    Attributes
    ----------
    name
        Where it comes from, for headings.
    turns, questions
        What was said, and what is asked.
    origin
        The credit that its licence asks for.
    dated
        Whether the source gives the days only, so that the hours were set by :func:`read`.
    ignored
        Names of the fields of the file that mean nothing here.
    """

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...] = ()
    origin: str = ""
    dated: bool = False
    ignored: tuple[str, ...] = field(default=(), compare=False)

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len({turn.session for turn in self.turns})


def shipped(language: str) -> Conversation:
    """The conversation that comes with the package.

    Parameters
    ----------
    language
        ``en`` or ``zh``.

    Examples
    --------
    >>> conversation = shipped("en")
    >>> len(conversation.turns), conversation.sessions, conversation.turns[0].content[:25]
    (104, 10, 'Hello, my name is Frank. ')
    """
    if language not in LANGUAGES:
        raise InvalidInput.of("lang", f"{shown(language)} is unknown; {nearest(str(language), LANGUAGES)}")
    data = files("tiermem_fast").joinpath("_data", f"demo_{language}.json")
    return parse(data.read_text(encoding="utf-8"), name=f"demo_{language}.json")


def read(path: str | Path, *, person: str | None = None) -> Conversation:
    """A conversation from a file.

    Parameters
    ----------
    path
        A file in UTF-8, of at most :data:`MAX_BYTES`. JSON: a list of turns, or an object with ``turns`` and perhaps
        ``questions``, or one with ``groups`` of several people. JSONL: a turn per line. A turn has ``role`` (user,
        assistant, system, tool), ``content``, ``time`` (ISO 8601, a day or a moment, or seconds since 1970) and, unless
        each day is one, ``session``.
    person
        Which of the ``groups``; the first when it is not given.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value, and what to write instead.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        message = f"{path}: has {size:,} bytes, {MAX_BYTES:,} are the most that is read; give a part of it"
        raise LimitExceeded(message, argument=str(path), got=size, limit=MAX_BYTES)
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"the byte 0x{raw[error.start]:02x} is not UTF-8; save the file in that encoding"
        raise fault(str(path), line, "", problem) from None
    return parse(text, name=str(path), person=person)


def with_questions(conversation: Conversation, texts: Iterable[str]) -> Conversation:
    """The conversation with these questions in place of its own."""
    questions = []
    for text in texts:
        if not text.strip():
            raise InvalidInput.of("ask", f"{shown(text)} is empty; write a question")
        questions.append(Question(text))
    return replace(conversation, questions=tuple(questions))


def parse(text: str, *, name: str, person: str | None = None) -> Conversation:
    """A conversation from the text of a file; see :func:`read`.

    Examples
    --------
    >>> parse('[{"role": "user", "content": "Hi", "time": "2024-05-03T09:00:00"}]', name="mine").turns[0].session
    '2024-05-03'
    >>> parse('[{"role": "user", "content": "Hi"}]', name="mine")
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: mine, line 1, time: is needed; write a day as "2023-04-27" or a moment as "2023-04-27T19:00:00"
    """
    if not text.strip():
        raise InvalidInput.of(name, 'is empty; write one turn per line, as {"role": "user", "content": …, "time": …}')
    source = Source.read(name, text)
    document = source.document
    if isinstance(document, list):
        return _conversation(source, {"turns": document}, ("turns",))
    if "groups" in document:
        return _conversation(source, *_exchanges(source, document, person))
    if "turns" not in document:
        problem = f'has no "turns", only {", ".join(map(shown, list(document)[:6])) or "nothing"}; {FORMS}'
        raise InvalidInput.of(name, problem)
    return _conversation(source, document, ("turns",))


def _exchanges(
    source: Source, document: Mapping[str, Any], person: str | None
) -> tuple[dict[str, Any], tuple[str | int, ...], list[int]]:
    """One person of a file of exchanges as turns: the turns, where the exchanges stand, and which one each turn is of."""
    groups = document["groups"]
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups) or not groups:
        raise source.fault(["groups"], "groups", f"{shown(groups)} is not a list of people")
    known = [str(group.get("id", "")).strip() for group in groups]
    if person is not None and person.strip() not in known:
        raise InvalidInput.of("person", f"{shown(person)} is not in {source.name}; {nearest(person, known)}")
    place = 0 if person is None else known.index(person.strip())
    group = groups[place]
    turns: list[dict[str, Any]] = []
    numbers: list[int] = []
    turns_of: dict[str, list[int]] = {}
    items = group.get("items")
    if not isinstance(items, list):
        raise source.fault(["groups", place], "items", f"{shown(items)} is not a list of exchanges")
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise source.fault(["groups", place, "items", number], "", f"{shown(item)} is not an exchange")
        shared = {name: item[name] for name in ("time", "session") if name in item}
        for role, name in (("user", "text"), ("assistant", "reply")):
            if name in item or role == "user":
                turns_of.setdefault(str(item.get("id")), []).append(len(turns))
                turns.append({"role": role, "content": item.get(name), **shared})
                numbers.append(number)
    questions = group.get("queries")
    if isinstance(questions, list):
        questions = [_query(query, turns_of) for query in questions]
    name = f"{document.get('name', source.name)}/{known[place]}"
    credit = {"attribution": document.get("source", ""), "license": document.get("license", "")}
    return {"name": name, "turns": turns, "questions": questions, **credit}, ("groups", place, "items"), numbers


def _query(query: Any, turns_of: Mapping[str, list[int]]) -> Any:
    """A query as a question. An empty ``gold`` says nothing of the answer: whole sets are unlabelled."""
    if not isinstance(query, Mapping):
        return query
    gold = query.get("gold")
    turns = [turn for id in gold for turn in turns_of.get(str(id), ())] if isinstance(gold, list) else []
    return {"text": query.get("text"), "turns": turns or None}


def _conversation(
    source: Source, document: Mapping[str, Any], path: tuple[str | int, ...], numbers: list[int] | None = None
) -> Conversation:
    """The conversation of a document; ``path`` leads to what the turns were made of, ``numbers`` to each one's place."""
    given = document["turns"]
    if not isinstance(given, list):
        raise source.fault(path, "turns", f"{shown(given)} is not a list of turns")
    if not given:
        raise source.fault(path, "turns", "is an empty list; nothing was said")
    if len(given) > MAX_TURNS:
        message = (
            f"{source.name}: has {len(given):,} turns, {MAX_TURNS:,} are the most that is replayed; give a part of it"
        )
        raise LimitExceeded(message, argument=source.name, got=len(given), limit=MAX_TURNS)
    turns: list[Turn] = []
    days: set[int] = set()
    ignored: dict[str, None] = {}
    for place, one in enumerate(given):
        try:
            turn, is_day = _turn(one)
            if turns:
                _refuse_earlier(turn, turns[-1], days_only=is_day or place - 1 in days, given=one["time"])
        except InvalidInput as error:
            number = place if numbers is None else numbers[place]
            raise source.fault([*path, number], error.argument or "", str(error).partition(": ")[2]) from None
        if is_day:
            days.add(place)
        turns.append(turn)
        ignored |= dict.fromkeys(str(name) for name in one if name not in _TURN_FIELDS)
    return Conversation(
        name=str(document.get("name") or source.name),
        turns=tuple(_with_hours(turns, days)),
        questions=tuple(_questions(source, document.get("questions"), len(turns))),
        origin=", ".join(str(document[name]) for name in ("attribution", "license") if document.get(name)),
        dated=bool(days),
        ignored=tuple(ignored),
    )


def _refuse_earlier(turn: Turn, above: Turn, *, days_only: bool, given: Any) -> None:
    before: Any = above.time.date() if days_only else above.time
    if (turn.time.date() if days_only else turn.time) < before:
        problem = f"{shown(given)} is before {before.isoformat()} of the turn above; sort the turns by time"
        raise InvalidInput.of("time", problem)


_TURN_FIELDS: Final = frozenset({"role", "content", "time", "session"})
_MILLISECONDS: Final = 1e11
_LAST_YEAR: Final = 9_900
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _turn(one: Any) -> tuple[Turn, bool]:
    """A turn, and whether its time is a day only; a fault is named by its field."""
    if not isinstance(one, Mapping):
        raise InvalidInput.of("turn", f'{shown(one)} is not a turn; write {{"role": …, "content": …, "time": …}}')
    for name, remedy in (
        ("role", f"write one of {', '.join(ROLES)}"),
        ("content", "write what was said"),
        ("time", 'write a day as "2023-04-27" or a moment as "2023-04-27T19:00:00"'),
    ):
        if one.get(name) is None:
            raise InvalidInput.of(name, f"is needed; {remedy}")
    role, content = one["role"], one["content"]
    if role not in ROLES:
        raise InvalidInput.of("role", f"{shown(role)} is unknown; {nearest(str(role), ROLES)}")
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput.of("content", f"{shown(content)} is not a text; write what was said, or leave the turn out")
    _refuse_unstorable("content", content, MAX_TEXT_BYTES, "cut the turn in pieces")
    time, is_day = _time(one["time"])
    session = one.get("session")
    if session is None:
        session = f"{time:%Y-%m-%d}"
    if isinstance(session, bool) or not isinstance(session, (str, int)) or not str(session).strip():
        raise InvalidInput.of(
            "session", f"{shown(session)} is not a name; write a text, or leave it out for one session a day"
        )
    _refuse_unstorable("session", str(session), MAX_NAME_BYTES, "shorten it")
    return Turn(role, content, time, str(session)), is_day


def _refuse_unstorable(field: str, text: str, limit: int, remedy: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        problem = r"has a lone surrogate (half of a pair \ud800 to \udfff); write the whole character"
        raise InvalidInput.of(field, problem) from None
    if "\0" in text:
        raise InvalidInput.of(field, f"{shown(text)} has a NUL character; take it out")
    if size > limit:
        raise InvalidInput.of(field, f"has {size:,} bytes, {limit:,} are the most; {remedy}")


def _time(value: Any) -> tuple[datetime, bool]:
    """The time in a value, and whether it is a day only."""
    time, is_day = value, False
    if isinstance(value, str):
        is_day = _DAY.fullmatch(value.strip()) is not None
        try:
            time = datetime.fromisoformat(value.strip())
        except ValueError:
            remedy = 'write a day as "2023-04-27" or a moment as "2023-04-27T19:00:00+02:00"'
            raise InvalidInput.of("time", f"{shown(value)} is not an ISO 8601 time; {remedy}") from None
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value >= _MILLISECONDS:
        raise InvalidInput.of("time", f"{shown(value)} would be far in the future; write seconds since 1970")
    try:
        time = from_seconds(to_seconds(time, "time"))
    except InvalidInput:
        raise InvalidInput.of("time", f"{shown(value)} is not a time after 1970") from None
    if time.year > _LAST_YEAR:
        raise InvalidInput.of("time", f"{shown(value)} is after {_LAST_YEAR}, and time has to pass after it")
    return time, is_day


def _with_hours(turns: list[Turn], days: set[int]) -> Iterator[Turn]:
    """The turns that have a day only, set into its evening, a minute apart or closer so that they end on that day."""
    spoken: dict[date, int] = {}
    for place in days:
        spoken[turns[place].time.date()] = spoken.get(turns[place].time.date(), 0) + 1
    said: dict[date, int] = {}
    before: datetime | None = None
    for place, turn in enumerate(turns):
        time = turn.time
        if place in days:
            day = time.date()
            step = min(_A_MINUTE, _HOURS_OF_A_DAY / spoken[day])
            time = time + _EVENING + said.get(day, 0) * step
            said[day] = said.get(day, 0) + 1
        if before is not None:
            time = max(time, before)
        before = time
        yield replace(turn, time=time)


def _questions(source: Source, given: Any, turns: int) -> Iterator[Question]:
    if given is None:
        return
    if not isinstance(given, list):
        raise source.fault(["questions"], "questions", f"{shown(given)} is not a list of questions")
    for place, one in enumerate(given):
        question = {"text": one} if isinstance(one, str) else one
        where: list[str | int] = ["questions", place]
        if (
            not isinstance(question, Mapping)
            or not isinstance(question.get("text"), str)
            or not question["text"].strip()
        ):
            problem = f'{shown(one)} is not a question; write a text, or {{"text": …}}'
            raise source.fault(where, "questions", problem)
        holds = question.get("turns")
        if holds is not None and not (
            isinstance(holds, list)
            and all(isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn < turns for turn in holds)
        ):
            problem = f"{shown(holds)} is not a list of places of turns, 0 to {turns - 1}"
            raise source.fault(where, "turns", problem)
        yield Question(question["text"], None if holds is None else tuple(holds))
