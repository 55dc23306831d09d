r"""Regular expressions that take time in proportion to the text, whatever the pattern and whatever the text.

Owns :func:`compile_linear`: a small grammar, an automaton without backtracking (Thompson 1968), and a cache of its sets of
states as in a lazily built DFA. Calls only the errors. Python's ``re`` backtracks, so a pattern from a file could stop an
agent; here a character costs one look into a table, or one step of at most :data:`MOST_STATES` states.

The grammar: literals, ``.``, ``[a-z]``, ``[^a-z]``, ``\d \w \s`` and their opposites, ``\b``, ``^``, ``$``, groups, ``|``, and
the repetitions ``* + ? {m} {m,} {m,n}``. Lookaround, references and flags are refused. Case does not matter; a pattern is
searched for, not matched from the beginning.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..errors import InvalidInput

__all__ = ["MOST_STATES", "LinearRegex", "compile_linear"]

MOST_STATES: Final = 1_000
_LONGEST_PATTERN: Final = 300
_MOST_REPEATS: Final = 100
_MOST_CACHED: Final = 2_000
_DEEPEST: Final = 40

Accepts = Callable[[str], bool]
# What a place may ask of the two signs around it, besides reading one.
_BEGIN, _END, _BOUNDARY, _NO_BOUNDARY = "begin", "end", "boundary", "no boundary"


@dataclass(slots=True)
class _State:
    """A state: it reads a sign it accepts, or asks something of its place, or only leads on."""

    accepts: Accepts | None = None
    asks: str | None = None
    out: list[int] = field(default_factory=list)


class LinearRegex:
    """A compiled pattern; made by :func:`compile_linear`."""

    def __init__(self, pattern: str, states: list[_State], first: int, last: int) -> None:
        self.pattern = pattern
        self._states = states
        self._first = first
        self._last = last
        self._steps: dict[tuple[frozenset[int], str, str], tuple[frozenset[int], bool]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<LinearRegex {self.pattern!r}>"

    def search(self, text: str) -> bool:
        """Whether the pattern occurs in the text."""
        plain = unicodedata.normalize("NFKC", text).lower()
        waiting: frozenset[int] = frozenset()
        before = ""
        for sign in plain:
            waiting, done = self._step(waiting, before, sign)
            if done:
                return True
            before = sign
        return self._step(waiting, before, "")[1]

    def _step(self, waiting: frozenset[int], before: str, sign: str) -> tuple[frozenset[int], bool]:
        """From the states that wait between two signs over the second of them; whether the end was reached before it."""
        # Only whether there is a sign before, and whether it is of a word, matters.
        kind = before and ("w" if _is_word(before) else "-")
        key = (waiting, kind, sign)
        known = self._steps.get(key)
        if known is None:
            known = self._stepped(waiting, kind, sign)
            with self._lock:
                if len(self._steps) >= _MOST_CACHED:
                    self._steps.clear()
                self._steps[key] = known
        return known

    def _stepped(self, waiting: frozenset[int], before: str, sign: str) -> tuple[frozenset[int], bool]:
        seen: set[int] = set()
        stack = [*waiting, self._first]
        reached: set[int] = set()
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            if number == self._last:
                return frozenset(), True
            if state.accepts is not None:
                if sign and state.accepts(sign):
                    reached.update(state.out)
            elif state.asks is None or _holds(state.asks, before, sign):
                stack += state.out
        return frozenset(reached), False


def _is_word(sign: str) -> bool:
    return sign in {"w", "_"} or sign.isalnum()


def _holds(asked: str, before: str, sign: str) -> bool:
    if asked == _BEGIN:
        return before == ""
    if asked == _END:
        return sign == ""
    here = (before == "w") != (sign != "" and _is_word(sign))
    return here if asked == _BOUNDARY else not here


_CLASSES: Final[dict[str, Accepts]] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": lambda sign: not sign.isdecimal(),
    "W": lambda sign: not _is_word(sign),
    "S": lambda sign: not sign.isspace(),
}
_PLAIN_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class _Compiler:
    """Reads a pattern and builds its states; each part is a pair of its first and its last state."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.text = unicodedata.normalize("NFKC", pattern)
        self.place = 0
        self.depth = 0
        self.states: list[_State] = []

    def fail(self, problem: str) -> InvalidInput:
        return InvalidInput.of("regex", f"{self.pattern!r} at {self.place}: {problem}")

    def state(self, **fields: object) -> int:
        if len(self.states) >= MOST_STATES:
            raise self.fail(f"needs more than {MOST_STATES} states; make it shorter or repeat less")
        self.states.append(_State(**fields))  # type: ignore[arg-type]
        return len(self.states) - 1

    def peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def compile(self) -> LinearRegex:
        first, last = self.either()
        if self.place < len(self.text):
            raise self.fail("a ) without its (")
        return LinearRegex(self.pattern, self.states, first, last)

    def either(self) -> tuple[int, int]:
        ways = [self.sequence()]
        while self.peek() == "|":
            self.place += 1
            ways.append(self.sequence())
        if len(ways) == 1:
            return ways[0]
        first, last = self.state(), self.state()
        for begin, end in ways:
            self.states[first].out.append(begin)
            self.states[end].out.append(last)
        return first, last

    def sequence(self) -> tuple[int, int]:
        first = last = self.state()
        while self.peek() not in ("", "|", ")"):
            start = self.place
            begin, end = self.atom()
            begin, end = self.repeated(start, begin, end)
            self.states[last].out.append(begin)
            last = end
        return first, last

    def repeated(self, start: int, begin: int, end: int) -> tuple[int, int]:
        """The part that was read from ``start`` on, as often as what follows says."""
        least, most = self.times()
        if (least, most) == (1, 1):
            return begin, end
        if self.peek() in ("*", "+", "?", "{"):
            raise self.fail("a repetition of a repetition; possessive and lazy ones are not needed here")
        after = self.place
        parts: list[tuple[int, int]] = [(begin, end)]
        wanted = max(least, 1) if most is None else most
        for _ in range(wanted - 1):
            self.place = start
            parts.append(self.atom())
        self.place = after
        first, last = self.state(), self.state()
        here = first
        for number, (one, stop) in enumerate(parts):
            if number >= least:
                self.states[here].out.append(last)
            self.states[here].out.append(one)
            here = stop
        if most is None:
            again = parts[-1][0]
            self.states[here].out.append(again)
        if wanted:
            self.states[here].out.append(last)
        else:
            self.states[first].out = [last]
        return first, last

    def times(self) -> tuple[int, int | None]:
        sign = self.peek()
        if sign in ("*", "+", "?"):
            self.place += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if sign != "{":
            return 1, 1
        end = self.text.find("}", self.place)
        low, comma, high = self.text[self.place + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise self.fail("{ needs numbers, as in {2,4}; write \\{ for the sign")
        self.place = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise self.fail(f"{{{low}{comma}{high}}} is not a range within {_MOST_REPEATS}")
        return least, most

    def atom(self) -> tuple[int, int]:
        sign = self.peek()
        self.place += 1
        if sign == "(":
            return self.group()
        if sign in ("*", "+", "?", "{"):
            raise self.fail(f"{sign} has nothing to repeat")
        if sign in ("^", "$"):
            return self.asking(_BEGIN if sign == "^" else _END)
        if sign == ".":
            return self.reading(lambda one: one != "\n")
        if sign == "[":
            return self.reading(self.one_of())
        if sign == "\\":
            return self.escaped()
        return self.literal(sign)

    def group(self) -> tuple[int, int]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail(f"is nested deeper than {_DEEPEST}")
        if self.peek() == "?":
            if self.text[self.place : self.place + 2] != "?:":
                raise self.fail("lookaround, names and flags are not taken; (?: ) groups")
            self.place += 2
        found = self.either()
        if self.peek() != ")":
            raise self.fail("a ( without its )")
        self.place += 1
        self.depth -= 1
        return found

    def escaped(self) -> tuple[int, int]:
        sign = self.peek()
        self.place += 1
        if sign in ("b", "B"):
            return self.asking(_BOUNDARY if sign == "b" else _NO_BOUNDARY)
        if sign in _CLASSES:
            return self.reading(_CLASSES[sign])
        return self.literal(self.escape(sign))

    def escape(self, sign: str) -> str:
        if sign in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[sign]
        if sign == "" or sign.isalnum():
            raise self.fail(f"\\{sign} is not taken: references and special escapes are refused")
        return sign

    def one_of(self) -> Accepts:
        opposite = self.peek() == "^"
        self.place += opposite
        ranges: list[tuple[str, str]] = []
        classes: list[Accepts] = []
        first = True
        while first or self.peek() != "]":
            sign = self.peek()
            if sign == "":
                raise self.fail("a [ without its ]")
            first = False
            self.place += 1
            if sign == "\\":
                sign = self.peek()
                self.place += 1
                if sign in _CLASSES:
                    classes.append(_CLASSES[sign])
                    continue
                sign = self.escape(sign)
            low, high = sign, sign
            if self.peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("]", ""):
                self.place += 1
                high = self.peek()
                self.place += 1
                if high == "\\":
                    high = self.escape(self.peek())
                    self.place += 1
                if high < low:
                    raise self.fail(f"{low}-{high} is not a range")
            ranges.append((low, high))
        self.place += 1

        def accepts(one: str) -> bool:
            forms = {one, one.upper()} if len(one.upper()) == 1 else {one}
            inside = any(low <= form <= high for low, high in ranges for form in forms) or any(c(one) for c in classes)
            return inside != opposite

        return accepts

    def literal(self, sign: str) -> tuple[int, int]:
        lowered = sign.lower()
        return self.reading(lambda one: one == lowered)

    def reading(self, accepts: Accepts) -> tuple[int, int]:
        last = self.state()
        return self.state(accepts=accepts, out=[last]), last

    def asking(self, asked: str) -> tuple[int, int]:
        last = self.state()
        return self.state(asks=asked, out=[last]), last


def compile_linear(pattern: str) -> LinearRegex:
    """Compile a pattern.

    Raises
    ------
    InvalidInput
        If it is empty, too long, too large, or outside of the grammar; saying where.

    Examples
    --------
    >>> (
    ...     compile_linear("(quarter|annual) reports?").search("The Annual Report is due"),
    ...     compile_linear("^季报").search("写季报"),
    ... )
    (True, False)
    >>> compile_linear("(a+)+$").search("a" * 10_000 + "!")
    False
    >>> compile_linear("(?=a)b")
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: regex: '(?=a)b' at 1: lookaround, names and flags are not taken; (?: ) groups
    """
    if not isinstance(pattern, str) or not pattern:
        raise InvalidInput.of("regex", f"{pattern!r} is not a pattern")
    if len(pattern) > _LONGEST_PATTERN:
        raise InvalidInput.of("regex", f"{pattern[:20]!r}… is longer than {_LONGEST_PATTERN} characters")
    return _Compiler(pattern).compile()
