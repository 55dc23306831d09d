"""The page a briefing is written on: lines within a budget, in one of three formats.

Owns the price of lines, the shares of tiers and sources, and the assembling of the text. Calls :mod:`.writing` and the
words below. It promises that the text never costs more than the budget, counted on the final text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ..errors import InvalidInput, shown
from ..tiers import Source, Tier
from . import writing

if TYPE_CHECKING:
    from .tokens import TokenCounter

__all__ = ["FORMATS", "ORDER", "Format", "Line", "Page"]

Format = Literal["markdown", "xml", "messages"]
FORMATS: Final[tuple[Format, ...]] = ("markdown", "xml", "messages")

ORDER: Final = (Tier.PROCEDURAL, Tier.WORKING, Tier.EPISODIC, Tier.SEMANTIC)
"""The tiers as a briefing has them: how to act, what is at hand, what was said, what is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that waits for its place: whose it is, and what it is thought to cost."""

    place: int
    tier: Tier
    text: str
    tokens: int
    source: Source
    data: bool


@dataclass(slots=True)
class Page:
    """The lines taken so far, with what they are thought to cost; only :meth:`settle` knows what the whole costs."""

    words: writing.Words
    count: TokenCounter
    budget: int
    format: Format = "markdown"
    source_budget: int | None = None
    lines: list[Line] = field(default_factory=list)
    spent: dict[Tier, int] = field(default_factory=dict)
    spent_by: dict[Source, int] = field(default_factory=dict)
    headings: dict[Tier, int] = field(init=False)

    def __post_init__(self) -> None:
        self.headings = {tier: self._counted("\n" + "\n".join(self._frame(tier)) + "\n") for tier in ORDER}

    def price(self, place: int, tier: Tier, text: str, source: Source, *, data: bool) -> Line:
        """The line, with what it is thought to cost."""
        return Line(place, tier, text, self._counted(text + "\n"), source, data)

    def need(self, line: Line) -> int:
        """What the line costs as things stand: with the heading, if it would be the first of its tier."""
        return line.tokens if line.tier in self.spent else line.tokens + self.headings[line.tier]

    def left(self) -> int:
        """What may still be spent."""
        return self.budget - sum(self.spent.values())

    def over_source(self, line: Line) -> bool:
        """Whether the line would bring its source over the share that one source may have."""
        capped = self.source_budget is not None and line.source in (Source.TOOL, Source.IMPORT)
        return capped and self.spent_by.get(line.source, 0) + line.tokens > (self.source_budget or 0)

    def take(self, line: Line, allowed: int) -> bool:
        """Takes the line if what its tier and its source are allowed, and the budget of all, hold it."""
        need = self.need(line)
        after = self.spent.get(line.tier, 0) + need
        if need > self.left() or after > allowed or self.over_source(line):
            return False
        self.spent[line.tier] = after
        self.spent_by[line.source] = self.spent_by.get(line.source, 0) + line.tokens
        self.lines.append(line)
        return True

    def settle(self) -> tuple[str, int]:
        """The final text and its price; lines are taken back, the last one first, while the whole is too dear."""
        while self.lines:
            text = self._text()
            tokens = self._counted(text)
            if tokens <= self.budget:
                return text, tokens
            back = self.lines.pop()
            self.spent[back.tier] -= back.tokens
            self.spent_by[back.source] -= back.tokens
            if all(one.tier is not back.tier for one in self.lines):
                del self.spent[back.tier]
        return "", 0

    def messages(self) -> tuple[dict[str, str], ...]:
        """The text as messages of a chat: what may be trusted as ``system``, data as ``user``."""
        trusted = self._sections([line for line in self.lines if not line.data])
        data = self._sections([line for line in self.lines if line.data])
        found = [{"role": "system", "content": trusted}] if trusted else []
        if data:
            found.append({"role": "user", "content": f"{self.words.preface}\n\n{data}"})
        return tuple(found)

    def _text(self) -> str:
        if self.format == "messages":
            return "\n\n".join(message["content"] for message in self.messages())
        body = self._sections(self.lines)
        return f"<memory>\n{body}\n</memory>" if self.format == "xml" else body

    def _sections(self, chosen: list[Line]) -> str:
        parts = []
        for tier in ORDER:
            lines = sorted((line.place, line.text) for line in chosen if line.tier is tier)
            if lines:
                head, *foot = self._frame(tier)
                parts.append("\n".join([head, *(text for _, text in lines), *foot]))
        return ("\n" if self.format == "xml" else "\n\n").join(parts)

    def _frame(self, tier: Tier) -> list[str]:
        """What stands before the lines of a tier and, in XML, behind them."""
        if self.format == "xml":
            return [f"<{writing.ELEMENTS[tier]}>", f"</{writing.ELEMENTS[tier]}>"]
        return [f"## {self.words.headings[tier]}"]

    def _counted(self, text: str) -> int:
        tokens = self.count(text)
        if not isinstance(tokens, int) or tokens < 0:
            raise InvalidInput.of("count", f"the counter answered {shown(tokens)}, which is not a number of tokens")
        return tokens
