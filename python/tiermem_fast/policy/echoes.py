"""Whether a text is what a briefing said: the loop by which a memory fills itself with its own words.

Owns :class:`Briefed`. Calls the reading of texts and the words of briefings. It knows a briefing by its marks and
headings, whoever made it, and by the words of what this handle handed out lately.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from .sentences import key, units, words
from .writing import ELEMENTS, LANGUAGES

__all__ = ["Briefed"]

_MARK = re.compile(r"\[m:[0-9a-zA-Z_]+\]|<(?:item|data|memory)\b[^>\n]*\b(?:id|cite)=\"m:")
# In XML nothing of a memory's own text begins with a sign "<", so an element ends at the next one.
_ELEMENT = re.compile(r"<(item|data) id=\"m:[^\"<>\n]*\" origin=\"[^\"<>\n]*\">[^<]*</\1>")
_FRAME = re.compile(rf"\s*</?(?:memory|{'|'.join(ELEMENTS.values())})>\s*")
_LISTED = re.compile(r"\s*(?:[-*]|\d+\.) .*\[m:[0-9a-zA-Z_]+\]")
_HEADINGS: Final = frozenset(
    heading.casefold() for language in LANGUAGES.values() for heading in language.headings.values()
)
_HEADING = re.compile(r"\s*#{1,6}\s*(.+?)\s*")
_LEAST_WORDS: Final = 3
_CONTAINED: Final = 0.8


class Briefed:
    """What the last briefings of one handle said.

    Parameters
    ----------
    briefings
        How many of them are remembered.

    Examples
    --------
    >>> briefed = Briefed()
    >>> briefed.note(["Replies to Director Li stay formal"])
    >>> briefed.echo("Director Li: replies stay formal.", by_user=False)
    'a briefing said it'
    >>> briefed.echo("The report is due on Friday.", by_user=False) is None
    True
    >>> briefed.echo("Tea, not coffee [m:5c9e01aa]", by_user=True)
    'it carries the mark of a memory'
    """

    def __init__(self, briefings: int = 8) -> None:
        self._lock = threading.Lock()
        self._said: deque[tuple[frozenset[str], tuple[frozenset[str], ...]]] = deque(maxlen=max(1, briefings))

    def note(self, texts: Iterable[str]) -> None:
        """Remember the texts of a briefing."""
        kept = list(texts)
        keys = frozenset(key(unit) for text in kept for unit in (text, *units(text)))
        bags = tuple(bag for text in kept if len(bag := words(text)) >= _LEAST_WORDS)
        if kept:
            with self._lock:
                self._said.append((keys, bags))

    def clear(self) -> None:
        """Let go of all that was said."""
        with self._lock:
            self._said.clear()

    @staticmethod
    def without_lines(text: str) -> tuple[str, int]:
        """A text without the items of a briefing, and how many there were."""
        text, elements = _ELEMENT.subn("", text)
        lines = text.split("\n")
        own = [line for line in lines if _LISTED.match(line) is None and _FRAME.fullmatch(line) is None]
        return "\n".join(own), elements + len(lines) - len(own)

    @staticmethod
    def is_marked(text: str) -> bool:
        """Whether a mark of a memory stands in the text."""
        return _MARK.search(text) is not None

    def echo(self, text: str, *, by_user: bool) -> str | None:
        """Why the text is an echo, ``None`` when it is not.

        Parameters
        ----------
        text
            One unit.
        by_user
            The user says again what they mean: only marks and headings give such a text away, not its words.
        """
        if _MARK.search(text):
            return "it carries the mark of a memory"
        heading = _HEADING.fullmatch(text)
        if heading is not None and heading[1].casefold() in _HEADINGS:
            return "it is a heading of a briefing"
        if by_user:
            return None
        with self._lock:
            said = list(self._said)
        said_key, bag = key(text), words(text)
        for keys, bags in said:
            if said_key in keys:
                return "a briefing said it"
            if len(bag) >= _LEAST_WORDS and any(len(bag & other) / len(bag) >= _CONTAINED for other in bags):
                return "a briefing said it"
        return None
