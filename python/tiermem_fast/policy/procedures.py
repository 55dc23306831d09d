"""Rules that stand in files: when they hold, what they say, and that the files are read again when they change.

Owns :class:`Procedure`, :class:`Procedures` and the default matching. Calls :mod:`..located` for the files and
:mod:`.linear_regex` for patterns, so a rule can neither stop an agent nor hide where it is wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ..errors import InvalidInput, nearest, shown
from ..located import Located, read_document
from .linear_regex import LinearRegex, compile_linear
from .sentences import folded

__all__ = ["Matched", "Procedure", "ProcedureSource", "Procedures", "When", "read_procedures"]


@dataclass(frozen=True, slots=True)
class When:
    """When a rule holds: every kind of condition that is given must, by any one of its values.

    Keywords and patterns are one kind: either may be found in the question.

    Attributes
    ----------
    tasks
        Types of task.
    keywords
        Words or phrases in the question; case and width do not matter. In Latin script a whole word.
    regex
        Patterns of linear time, see :mod:`.linear_regex`.
    tools
        Tools at hand.
    """

    tasks: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Procedure:
    """A rule of a file.

    Attributes
    ----------
    id
        Its name, unique in the directory.
    then
        What goes into the prompt.
    when
        When it holds; without any condition always.
    priority
        Higher goes first; 0 to 1000.
    enabled
        Whether it holds at all.
    version
        Counts its changes.
    file
        Where it stands.
    changed_at
        When the file was changed last, in seconds since 1970.
    """

    id: str
    then: str
    when: When = When()
    priority: int = 100
    enabled: bool = True
    version: int = 1
    file: str = ""
    changed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Matched:
    """A rule that holds, and why."""

    procedure: Procedure
    why: str


class ProcedureSource(Protocol):
    """Gives the rules that hold. :class:`Procedures` reads them from files; any object of this form takes its place."""

    def matching(self, query: str, *, task: str | None = None, tools: Sequence[str] = ()) -> Sequence[Matched]:
        """The rules that hold for a question, the most important first."""
        ...


_FIELDS: Final = ("id", "when", "then", "priority", "enabled", "version")
_CONDITIONS: Final = ("tasks", "keywords", "regex", "tools")
# The singular is what people write first.
_ALIASES: Final = {"task": "tasks", "task_types": "tasks", "keyword": "keywords", "tool": "tools"}
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_LONGEST_THEN: Final = 8_000
_MOST_VALUES: Final = 200


class Procedures:
    """The rules of a directory, read again when a file was added, changed or taken away.

    Parameters
    ----------
    directory
        With files ``*.json``, ``*.yaml`` and ``*.yml``, each one rule, a list of rules, or a mapping with ``procedures``.

    Raises
    ------
    InvalidInput
        Naming file, line and field; also when a changed file is wrong: the rules that were good stay in force until then,
        and the call that finds the fault says so.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> rule = {"id": "blue", "when": {"tasks": ["report"], "keywords": ["quarter"]}, "then": "Use the blue template."}
    >>> _ = (directory / "reports.json").write_text(json.dumps(rule))
    >>> rules = Procedures(directory)
    >>> [(one.procedure.id, one.why) for one in rules.matching("Write the quarter report", task="report")]
    [('blue', "a rule for the task report and the keyword 'quarter'")]
    >>> rules.matching("Write the quarter report", task="email")
    []
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._rules: list[tuple[Procedure, list[LinearRegex]]] = []
        self.reload()

    @property
    def rules(self) -> tuple[Procedure, ...]:
        """All rules, the most important first."""
        return tuple(rule for rule, _ in self._rules)

    def reload(self) -> bool:
        """Read the files again if one of them changed; whether one did."""
        state = self._state()
        with self._lock:
            if state == self._seen:
                return False
            rules: list[tuple[Procedure, list[LinearRegex]]] = []
            places: dict[str, str] = {}
            for name, changed, _ in state:
                for rule, line in read_procedures(read_document(Path(name)), changed / 1e9):
                    here = f"{name}:{line}"
                    if rule.id in places:
                        raise InvalidInput(f"{here}: id: {rule.id!r} stands in {places[rule.id]} too", argument="id")
                    places[rule.id] = here
                    rules.append((rule, [compile_linear(pattern) for pattern in rule.when.regex]))
            self._rules = sorted(rules, key=lambda one: (-one[0].priority, one[0].id))
            self._seen = state
            return True

    def _state(self) -> tuple[tuple[str, int, int], ...]:
        try:
            files = sorted(path for path in self._directory.iterdir() if path.suffix.lower() in _SUFFIXES)
            stats = [(str(path), path.stat()) for path in files]
        except OSError as error:
            raise InvalidInput.of(
                "procedures", f"{self._directory} cannot be read: {error.strerror or error}"
            ) from None
        return tuple((name, found.st_mtime_ns, found.st_size) for name, found in stats)

    def matching(self, query: str, *, task: str | None = None, tools: Sequence[str] = ()) -> list[Matched]:
        """The rules that hold for a question, the most important first; the files are looked at before.

        Parameters
        ----------
        query
            The question.
        task
            The type of task.
        tools
            The tools at hand.
        """
        self.reload()
        found = []
        for rule, patterns in self._rules:
            if rule.enabled:
                why = _why(rule.when, patterns, query, task, tools)
                if why is not None:
                    found.append(Matched(rule, why))
        return found


def _why(when: When, patterns: Iterable[LinearRegex], query: str, task: str | None, tools: Sequence[str]) -> str | None:
    """Why a rule holds, ``None`` when it does not."""
    reasons = []
    if when.tasks:
        if task not in when.tasks:
            return None
        reasons.append(f"the task {task}")
    if when.tools:
        tool = next((one for one in tools if one in when.tools), None)
        if tool is None:
            return None
        reasons.append(f"the tool {tool}")
    if when.keywords or when.regex:
        word = next((one for one in when.keywords if _occurs(one, query)), None)
        pattern = None if word is not None else next((one for one in patterns if one.search(query)), None)
        if word is not None:
            reasons.append(f"the keyword {word!r}")
        elif pattern is not None:
            reasons.append(f"the pattern {pattern.pattern!r}")
        else:
            return None
    return f"a rule for {' and '.join(reasons)}" if reasons else "a rule that always holds"


def _occurs(keyword: str, query: str) -> bool:
    """Whether a keyword stands in a question: in Latin script between word ends, a plural s aside."""
    word, text = folded(keyword), folded(query)
    place = text.find(word)
    while place >= 0:
        before, rest = text[:place][-1:], text[place + len(word) :]
        after = rest.removeprefix("s")[:1] if word.isascii() else rest[:1]
        inside = word.isascii() and (_is_latin(before) or _is_latin(after))
        if not inside:
            return True
        place = text.find(word, place + 1)
    return False


def _is_latin(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


def read_procedures(document: Located, changed_at: float = 0.0) -> list[tuple[Procedure, int]]:
    """The rules of one file, each with its line.

    Raises
    ------
    InvalidInput
        Naming file, line and field.
    """
    value: Any = document.value
    path: tuple[str, ...] = ()
    if isinstance(value, Mapping) and "procedures" in value:
        for name in value:
            if name != "procedures":
                raise document.fault((name,), name, "unknown beside 'procedures'")
        value, path = value["procedures"], ("procedures",)
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [(_procedure(document, value, path, changed_at), document.line(path))]
    if not isinstance(value, list):
        raise document.fault(path, "", f"{shown(value)} is neither a rule nor a list of rules")
    return [
        (_procedure(document, one, (*path, str(place)), changed_at), document.line((*path, str(place))))
        for place, one in enumerate(value)
    ]


def _procedure(document: Located, value: Any, path: tuple[str, ...], changed_at: float) -> Procedure:
    if not isinstance(value, Mapping):
        raise document.fault(path, "", f"{shown(value)} is not a rule: a mapping of {', '.join(_FIELDS)}")
    for name in value:
        if name not in _FIELDS:
            raise document.fault((*path, name), name, f"unknown; {nearest(name, _FIELDS)}")
    for name in ("id", "then"):
        if name not in value:
            raise document.fault(path, name, "is needed")
    id = value["id"]
    if not isinstance(id, str) or not id.strip() or len(id) > 100:
        raise document.fault((*path, "id"), "id", f"{shown(id)} is not a name of at most 100 characters")
    return Procedure(
        id=id,
        then=_then(document, value["then"], (*path, "then")),
        when=_when(document, value.get("when"), (*path, "when")),
        priority=_number(document, value, path, "priority", 100, 0, 1_000),
        enabled=_flag(document, value, path),
        version=_number(document, value, path, "version", 1, 1, 2**31),
        file=Path(document.name).name,
        changed_at=changed_at,
    )


def _then(document: Located, value: Any, path: tuple[str, ...]) -> str:
    """What a rule says: a text, or a list of texts that become lines."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, str) for line in lines) or not any(
        isinstance(line, str) and line.strip() for line in lines
    ):
        raise document.fault(path, "then", f"{shown(value)} is neither a text nor a list of texts")
    text = "\n".join(lines).strip()
    if len(text) > _LONGEST_THEN:
        raise document.fault(path, "then", f"is longer than {_LONGEST_THEN} characters")
    return text


def _when(document: Located, value: Any, path: tuple[str, ...]) -> When:
    if value is None:
        return When()
    if not isinstance(value, Mapping):
        raise document.fault(path, "when", f"{shown(value)} is not a mapping of {', '.join(_CONDITIONS)}")
    given: dict[str, tuple[str, ...]] = {}
    for name, values in value.items():
        known = _ALIASES.get(name, name)
        if known not in _CONDITIONS:
            raise document.fault((*path, name), f"when.{name}", f"unknown; {nearest(name, _CONDITIONS)}")
        if known in given:
            raise document.fault((*path, name), f"when.{name}", f"stands twice, also as {known!r}")
        listed = [values] if isinstance(values, str) else values
        if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_VALUES:
            raise document.fault(
                (*path, name), f"when.{name}", f"{shown(values)} is not a list of 1 to {_MOST_VALUES} texts"
            )
        for place, one in enumerate(listed):
            where = (*path, name, str(place))
            if not isinstance(one, str) or not one.strip():
                raise document.fault(where, f"when.{name}[{place}]", f"{shown(one)} is not a text")
            if known == "regex":
                _checked_pattern(document, one, where, f"when.{name}[{place}]")
        given[known] = tuple(listed)
    return When(**given)


def _checked_pattern(document: Located, pattern: str, path: tuple[str, ...], field: str) -> None:
    try:
        compile_linear(pattern)
    except InvalidInput as error:
        raise document.fault(path, field, str(error).removeprefix("regex: ")) from None


def _number(
    document: Located, value: Mapping[str, Any], path: tuple[str, ...], name: str, default: int, least: int, most: int
) -> int:
    given = value.get(name, default)
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise document.fault((*path, name), name, f"{shown(given)} is not a whole number from {least} to {most}")
    return given


def _flag(document: Located, value: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    given = value.get("enabled", True)
    if not isinstance(given, bool):
        raise document.fault((*path, "enabled"), "enabled", f"{shown(given)} is neither true nor false")
    return given
