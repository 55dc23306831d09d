"""A conversation to replay: the shipped ones, or a file of one's own.

Owns the reading and checking of files. Calls the errors and times of the package and the data files beside it. It
promises that a fault names the file, the line, the field and the value, and says what to write instead, and that
nothing is read beyond the limits below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tiermem_fast.errors import InvalidInput, LimitExceeded, nearest, shown
from tiermem_fast.times import from_seconds, to_seconds

__all__ = ["LANGUAGES", "MAX_BYTES", "Conversation", "Question", "Turn", "parse", "read", "shipped", "with_questions"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the largest file that is read."""

MAX_TURNS: Final = 100_000
"""Turns of the longest conversation that is replayed."""

MAX_TEXT_BYTES: Final = 64 * 1024
"""UTF-8 bytes of the longest turn; the limit of a memory."""

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
        raise InvalidInput.of(f"{path}, line {line}", problem) from None
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
    source = _Source(name, text)
    document = source.document()
    if isinstance(document, list):
        return _conversation(source, {"turns": document}, ("turns",))
    if "groups" in document:
        return _conversation(source, *_exchanges(source, document, person))
    if "turns" not in document:
        problem = f'has no "turns", only {", ".join(map(shown, list(document)[:6])) or "nothing"}; {_FORMS}'
        raise InvalidInput.of(name, problem)
    return _conversation(source, document, ("turns",))


_FORMS: Final = "give a list of turns, an object with turns, or JSON Lines"


@dataclass(frozen=True, slots=True)
class _Source:
    """A file's name and text, and where its parts stand."""

    name: str
    text: str

    def fault(self, line: int | None, path: str, problem: str) -> InvalidInput:
        """The error at a place of the file."""
        where = [self.name, *([f"line {line}"] if line else []), *([path] if path else [])]
        return InvalidInput.of(", ".join(where), problem)

    def document(self) -> dict[str, Any] | list[Any]:
        """The whole of a JSON file, or the list of the lines of a JSONL file."""
        try:
            document = json.loads(self.text)
        except json.JSONDecodeError as error:
            return self._lines(error)
        except RecursionError:
            raise self.fault(None, "", f"is nested too deeply; {_FORMS}") from None
        if isinstance(document, dict) and "role" in document:
            return [document]  # a JSONL file of one line
        if not isinstance(document, (dict, list)):
            raise self.fault(None, "", f"holds {shown(document)}; {_FORMS}")
        return document

    def _lines(self, whole: json.JSONDecodeError) -> list[Any]:
        rows = [(number, row) for number, row in enumerate(self.text.split("\n"), 1) if row.strip()]
        # JSONL is told by its first line, which is a whole object there.
        try:
            first = json.loads(rows[0][1])
        except (json.JSONDecodeError, RecursionError):
            first = None
        if len(rows) < 2 or not isinstance(first, dict):
            problem = f"is not JSON: {whole.msg} at column {whole.colno}"
            raise self.fault(whole.lineno, "", problem) from None
        turns = []
        for number, row in rows:
            try:
                turns.append(json.loads(row))
            except json.JSONDecodeError as error:
                problem = f"is not JSON: {error.msg} at column {error.colno}; each line is one whole turn"
                raise self.fault(number, "", problem) from None
            except RecursionError:
                raise self.fault(number, "", "is nested too deeply") from None
        return turns

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """The line on which a part of the document begins; only asked for when there is a fault to report."""
        decoder = json.JSONDecoder()
        text, at = self.text, _past(self.text, 0)
        if text[at] == "{" and path[0] == "turns" and '"turns"' not in text[:at]:
            rows = [number for number, row in enumerate(text.split("\n"), 1) if row.strip()]
            if not isinstance(self.document(), dict):
                return rows[int(path[1])] if len(path) > 1 else rows[0]
        if text[at] == "[":
            path = path[1:]
        for step in path:
            found = _member(decoder, text, at, step)
            if found is None:
                break
            at = found
        return text.count("\n", 0, at) + 1


def _past(text: str, at: int) -> int:
    """The place of the next sign that is neither blank nor a comma."""
    while at < len(text) and text[at] in " \t\r\n,:\ufeff":
        at += 1
    return at


def _member(decoder: json.JSONDecoder, text: str, at: int, step: str | int) -> int | None:
    """Where the value of one key, or one element, of the object or list at a place begins."""
    is_object = text[at] == "{"
    at, place = _past(text, at + 1), 0
    while text[at] not in "]}":
        key: Any = place
        if is_object:
            key, at = decoder.raw_decode(text, at)
            at = _past(text, at)
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at, place = _past(text, at), place + 1
    return None


def _exchanges(source: _Source, document: Mapping[str, Any], person: str | None) -> tuple[dict[str, Any], tuple[str | int, ...]]:
    """One person of a file of exchanges as turns, each exchange being what was said and the reply to it."""
    groups = document["groups"]
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups) or not groups:
        raise source.fault(source.line_of(["groups"]), "groups", f"{shown(groups)} is not a list of people")
    known = [str(group.get("id", "")).strip() for group in groups]
    if person is not None and person.strip() not in known:
        raise InvalidInput.of("person", f"{shown(person)} is not in {source.name}; {nearest(person, known)}")
    place = 0 if person is None else known.index(person.strip())
    group = groups[place]
    turns: list[dict[str, Any]] = []
    turns_of: dict[str, list[int]] = {}
    items = group.get("items")
    if not isinstance(items, list):
        raise source.fault(source.line_of(["groups", place]), "items", f"{shown(items)} is not a list of exchanges")
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            line = source.line_of(["groups", place, "items", number])
            raise source.fault(line, "", f"{shown(item)} is not an exchange")
        shared = {name: item[name] for name in ("time", "session") if name in item}
        for role, name in (("user", "text"), ("assistant", "reply")):
            if name in item or role == "user":
                turns_of.setdefault(str(item.get("id")), []).append(len(turns))
                turns.append({"role": role, "content": item.get(name), "from": number, **shared})
    questions = []
    for query in group.get("queries") or []:
        # Unlabelled sets have `gold` empty throughout: that says nothing of the answer.
        gold = [turn for id in query.get("gold") or [] for turn in turns_of.get(str(id), ())]
        questions.append({"text": query.get("text"), **({"turns": gold} if gold else {})})
    name = f"{document.get('name', source.name)}/{known[place]}"
    credit = {"attribution": document.get("source", ""), "license": document.get("license", "")}
    return {"name": name, "turns": turns, "questions": questions, **credit}, ("groups", place, "items")


def _conversation(source: _Source, document: Mapping[str, Any], path: tuple[str | int, ...]) -> Conversation:
    given = document["turns"]
    if not isinstance(given, list):
        raise source.fault(source.line_of(path), "turns", f"{shown(given)} is not a list of turns")
    if not given:
        raise source.fault(source.line_of(path), "turns", "is an empty list; nothing was said")
    if len(given) > MAX_TURNS:
        message = f"{source.name}: has {len(given):,} turns, {MAX_TURNS:,} are the most that is replayed; give a part of it"
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
            number = one["from"] if isinstance(one, Mapping) and "from" in one else place
            line = source.line_of([*path, number])
            raise source.fault(line, error.argument or "", str(error).partition(": ")[2]) from None
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


_TURN_FIELDS: Final = frozenset({"role", "content", "time", "session", "from"})
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
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        raise InvalidInput.of("content", r"has a lone surrogate (half of a pair \ud800 to \udfff); write the whole character") from None
    if size > MAX_TEXT_BYTES:
        problem = f"has {size:,} bytes, {MAX_TEXT_BYTES:,} are the most; cut the turn in pieces"
        raise InvalidInput.of("content", problem)
    time, is_day = _time(one["time"])
    session = one.get("session")
    if session is None:
        session = f"{time:%Y-%m-%d}"
    if isinstance(session, bool) or not isinstance(session, (str, int)) or not str(session).strip():
        raise InvalidInput.of("session", f"{shown(session)} is not a name; write a text, or leave it out for one session a day")
    return Turn(role, content, time, str(session)), is_day


def _time(value: Any) -> tuple[datetime, bool]:
    if isinstance(value, str):
        try:
            if _DAY.fullmatch(value.strip()):
                day = date.fromisoformat(value.strip())
                return from_seconds(to_seconds(datetime(day.year, day.month, day.day, tzinfo=UTC), "time")), True
            return from_seconds(to_seconds(datetime.fromisoformat(value.strip()), "time")), False
        except InvalidInput:
            raise
        except ValueError:
            remedy = 'write a day as "2023-04-27" or a moment as "2023-04-27T19:00:00+02:00"'
            raise InvalidInput.of("time", f"{shown(value)} is not an ISO 8601 time; {remedy}") from None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 1e11:
        raise InvalidInput.of("time", f"{shown(value)} looks like milliseconds; write seconds since 1970")
    return from_seconds(to_seconds(value, "time")), False


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


def _questions(source: _Source, given: Any, turns: int) -> Iterator[Question]:
    if given is None:
        return
    if not isinstance(given, list):
        raise source.fault(source.line_of(["questions"]), "questions", f"{shown(given)} is not a list of questions")
    for place, one in enumerate(given):
        question = {"text": one} if isinstance(one, str) else one
        line_of = ["questions", place]
        if not isinstance(question, Mapping) or not isinstance(question.get("text"), str) or not question["text"].strip():
            problem = f'{shown(one)} is not a question; write a text, or {{"text": …}}'
            raise source.fault(source.line_of(line_of), "questions", problem)
        holds = question.get("turns")
        if holds is not None and not (
            isinstance(holds, list)
            and all(isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn < turns for turn in holds)
        ):
            problem = f"{shown(holds)} is not a list of places of turns, 0 to {turns - 1}"
            raise source.fault(source.line_of(line_of), "turns", problem)
        yield Question(question["text"], None if holds is None else tuple(holds))
