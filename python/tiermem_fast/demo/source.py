"""The text of a file, and where its parts stand.

Owns the two forms, JSON and JSON Lines, and the line on which a part begins. Calls the errors of the package. It knows
nothing of what the parts mean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from tiermem_fast.errors import InvalidInput, shown

__all__ = ["FORMS", "Source", "fault"]

FORMS: Final = "give a list of turns, an object with turns, or JSON Lines"


@dataclass(frozen=True, slots=True)
class Source:
    """A document that was read, and where its parts stand.

    Attributes
    ----------
    name, text
        The file, and what it holds.
    document
        The object or list of a JSON file, or the list of the lines of a JSON Lines file.
    rows
        Line numbers of a JSON Lines file; ``None`` for JSON.
    """

    name: str
    text: str
    document: dict[str, Any] | list[Any]
    rows: tuple[int, ...] | None = None

    @classmethod
    def read(cls, name: str, text: str) -> Self:
        """The document in a text.

        Raises
        ------
        InvalidInput
            Naming the line, if it is neither JSON nor JSON Lines.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            return cls._of_lines(name, text, error)
        except (ValueError, RecursionError) as error:
            raise fault(name, None, "", f"cannot be read as JSON: {error}") from None
        if isinstance(document, dict) and "role" in document:
            return cls(name, text, [document], (1 + text.count("\n", 0, text.index("{")),))
        if not isinstance(document, (dict, list)):
            raise fault(name, None, "", f"holds {shown(document)}; {FORMS}")
        return cls(name, text, document)

    @classmethod
    def _of_lines(cls, name: str, text: str, whole: json.JSONDecodeError) -> Self:
        rows = [(number, row) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
        turns: list[Any] = []
        for number, row in rows:
            try:
                turns.append(json.loads(row))
            except (ValueError, RecursionError) as error:
                if not turns or not isinstance(turns[0], dict):  # then it was never JSON Lines
                    problem = f"is not JSON: {whole.msg} at column {whole.colno}; {FORMS}"
                    raise fault(name, whole.lineno, "", problem) from None
                why = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
                raise fault(name, number, "", f"is not JSON: {why}; each line is one whole turn") from None
        return cls(name, text, turns, tuple(number for number, _ in rows))

    def fault(self, path: Sequence[str | int], field: str, problem: str) -> InvalidInput:
        """The error at a part of the document, named by its keys and places."""
        return fault(self.name, self._line_of(path), field, problem)

    def _line_of(self, path: Sequence[str | int]) -> int | None:
        if self.rows is not None:
            return next((self.rows[step] for step in path if isinstance(step, int)), None)
        decoder = json.JSONDecoder()
        at = _past(self.text, 0)
        for step in path[1:] if isinstance(self.document, list) else path:
            found = _member(decoder, self.text, at, step)
            if found is None:
                break
            at = found
        return self.text.count("\n", 0, at) + 1


def fault(name: str, line: int | None, field: str, problem: str) -> InvalidInput:
    """The error at a line and a field of a file."""
    where = [name, *([f"line {line}"] if line else []), *([field] if field else [])]
    return InvalidInput.of(", ".join(where), problem)


def _past(text: str, at: int) -> int:
    """The place of the next sign that is neither blank nor a comma."""
    while at < len(text) and text[at] in " \t\r\n,:\ufeff":
        at += 1
    return at


def _member(decoder: json.JSONDecoder, text: str, at: int, step: str | int) -> int | None:
    """Where the value of one key, or one element, of the object or list at a place begins."""
    if text[at] not in "[{":
        return None
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
