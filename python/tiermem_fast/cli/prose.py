"""Running text that wraps as its script does: Latin at spaces, Chinese between any two signs.

Owns :class:`Prose`; calls rich only. Rich itself breaks at spaces alone, so that a Chinese sentence is one long word to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Prose", "cut", "fill"]

_WIDE: Final = r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"
# What closes stays with what it closes, what opens with what it opens.
_TOKEN: Final = re.compile(rf"\s+|[“‘（《「]*{_WIDE}[”’…—]*[，。！？、；：）》」”’]*|(?:(?!{_WIDE})\S)+")


def fill(text: str, width: int) -> list[str]:
    """The text in lines of at most so many cells; a word longer than a line is cut.

    Examples
    --------
    >>> fill("Prefers tea to coffee", 11), fill("喜欢徒步，也喜欢 jazz。", 9)
    (['Prefers tea', 'to coffee'], ['喜欢徒', '步，也喜', '欢 jazz。'])
    """
    width = max(width, 2)
    lines: list[str] = []
    for row in text.split("\n"):
        line = ""
        for token in _TOKEN.findall(row):
            if cell_len(line + token.rstrip()) > width and line.strip():
                lines.append(line.rstrip())
                line = ""
            piece = token if line or not token.isspace() else ""
            while cell_len(piece.rstrip()) > width:
                head = cut(piece, width)
                lines.append(head)
                piece = piece[len(head) :]
            line += piece
        lines.append(line.rstrip())
    return lines


def cut(text: str, width: int) -> str:
    """The beginning of a text that takes at most so many cells; one sign at least.

    Examples
    --------
    >>> cut("徒步abc", 5)
    '徒步a'
    """
    taken = 0
    for place, sign in enumerate(text):
        taken += cell_len(sign)
        if taken > width and place:
            return text[:place]
    return text


class Prose:
    """A text to be printed in lines that fit."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text = text
        self.style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in fill(self.text, options.max_width):
            yield Text(line, style=self.style, no_wrap=True, overflow="ignore")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(map(cell_len, self.text.split("\n")))
        widest = max((cell_len(token) for token in _TOKEN.findall(self.text) if not token.isspace()), default=1)
        return Measurement(min(widest, options.max_width), min(longest, options.max_width))
