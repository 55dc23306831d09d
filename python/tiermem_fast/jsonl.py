"""Memories as lines of JSON: for people, spreadsheets and other programs.

Owns the lines: one memory each, in the fields of :class:`.models.MemoryItem`, UTF-8, with ``vector`` and
``vector_model`` when vectors were asked for. Calls :mod:`.errors`, :mod:`.files` and :mod:`.models`. A snapshot keeps a
store exactly; a line is a memory told again, so it gets an id of its own and starts with no uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final, Literal

import numpy as np

from .errors import InvalidInput, LimitExceeded, MemoryNotFound, TiermemError, shown
from .files import NewFile, as_path, new_file, told
from .models import ImportReport, MemoryItem, SkippedLine

__all__ = ["LINE_BYTES", "MASK", "Line", "export_lines", "import_lines"]

LINE_BYTES: Final = 2 << 20
"""Bytes of one line at most: the largest memory with its vector, every character escaped, is smaller."""

MASK: Final = "***"
"""What stands in the place of a private value that was not granted."""

_CHUNK_LINES: Final = 1_024
_CHUNK_BYTES: Final = 8 << 20

OnError = Literal["raise", "skip"]
Progress = Callable[[int, int], object]


@dataclass(slots=True)
class Line:
    """One line, read: its number, how many were read with it, the memory, and the vector with its model."""

    number: int
    read: int
    id: str
    item: dict[str, Any]
    vector: np.ndarray | None = None
    model: str | None = None


# ---------------------------------------------------------------------- writing


def export_lines(file: Any, items: Iterable[tuple[MemoryItem, np.ndarray | None]], *, model: str | None) -> int:
    """Write memories, one a line.

    Parameters
    ----------
    file
        A path, which appears when it is whole, or a file open for writing text or bytes.
    items
        Memories, each with its float16 vector or ``None``.
    model
        What the vectors are from.

    Returns
    -------
    int
        The lines written.
    """
    if hasattr(file, "write"):
        return _write_all(file, items, model)
    with new_file(as_path("file", file)) as made:
        return _write_all(made, items, model)


def _write_all(
    file: IO[Any] | NewFile, items: Iterable[tuple[MemoryItem, np.ndarray | None]], model: str | None
) -> int:
    lines = 0
    as_bytes = _takes_bytes(file)
    for item, vector in items:
        line = item.model_dump_json()
        if vector is not None:
            # Five digits bring every float16 back.
            values = ",".join(f"{value:.5g}" for value in vector.tolist())
            line = f'{line[:-1]},"vector":[{values}],"vector_model":{json.dumps(model, ensure_ascii=False)}}}'
        data: Any = f"{line}\n".encode() if as_bytes else f"{line}\n"
        file.write(data)
        lines += 1
    return lines


def _takes_bytes(file: IO[Any] | NewFile) -> bool:
    """Whether a file is for bytes: asked by writing nothing."""
    try:
        file.write(b"")
    except TypeError:
        return False
    return True


# ---------------------------------------------------------------------- reading


@dataclass(slots=True)
class _Report:
    """The counts while they grow."""

    read: int = 0
    created: int = 0
    reinforced: int = 0
    skipped: list[SkippedLine] = field(default_factory=list)
    masked: int = 0
    unlinked: int = 0

    def done(self) -> ImportReport:
        return ImportReport(
            read=self.read,
            created=self.created,
            reinforced=self.reinforced,
            skipped=tuple(self.skipped),
            masked=self.masked,
            unlinked=self.unlinked,
        )


Add = Callable[[Sequence[dict[str, Any]], "np.ndarray | None", str | None], Sequence[Any]]
"""Adds memories with their vectors and the vectors' model, all or none; gives their ids, each with ``created``."""


def import_lines(
    file: Any,
    add: Add,
    known: Callable[[Sequence[str]], set[str]],
    *,
    on_error: OnError = "raise",
    progress: Progress | None = None,
) -> ImportReport:
    """Read memories, one a line, and add them.

    Parameters
    ----------
    file
        A path, or a file open for reading text or bytes.
    add
        Adds some of them, all or none.
    known
        Which of some ids the store has.
    on_error
        ``"raise"`` ends at the first line at fault, with the lines before it stored; ``"skip"`` reports it and goes on.
    progress
        Called after each chunk with the bytes read and the bytes in all, 0 when that is not known.

    Returns
    -------
    ImportReport
        What became of the lines.

    Raises
    ------
    InvalidInput
        Naming the line and the field; ``error.line`` has the number, ``error.report`` what was done before.
    """
    if on_error not in {"raise", "skip"}:
        raise InvalidInput.of("on_error", f"{shown(on_error)} is neither 'raise' nor 'skip'")
    report = _Report()
    importer = _Importer(add, known, on_error == "skip", report)
    with _opened(file) as (stream, total):
        done = waiting = 0
        try:
            for number, raw, size in _lines(stream):
                done += size
                waiting += size
                importer.take(number, raw)
                if len(importer.waiting) >= _CHUNK_LINES or waiting >= _CHUNK_BYTES:
                    importer.flush()
                    waiting = 0
                    if progress is not None:
                        progress(done, total)
            importer.flush()
            if progress is not None:
                progress(done, total)
        except TiermemError as error:
            error.report = report.done()  # type: ignore[attr-defined]  # says exactly what is in
            raise
    return report.done()


class _Importer:
    """Collects lines into chunks, and when the store refuses a chunk finds the line that it refuses."""

    def __init__(self, add: Add, known: Callable[[Sequence[str]], set[str]], skip: bool, report: _Report) -> None:
        self._add = add
        self._known = known
        self._skip = skip
        self._report = report
        self._new_ids: dict[str, str] = {}
        self.waiting: list[Line] = []

    def take(self, number: int, raw: bytes | InvalidInput) -> None:
        self._report.read += 1
        try:
            if isinstance(raw, InvalidInput):
                raise raw
            line = _parsed(number, self._report.read, raw)
        except InvalidInput as error:
            self._refuse(number, self._report.read, error)
            return
        if self.waiting and not _go_together(self.waiting[-1], line):
            self.flush()
        self._report.masked += _unmask(line.item)
        if line.item.get("derived_from"):
            # What it was made from may wait in the same chunk.
            self.flush()
            self._link(line)
        self.waiting.append(line)

    def flush(self) -> None:
        lines, self.waiting = self.waiting, []
        self._store(lines)

    def _store(self, lines: list[Line]) -> None:
        if not lines:
            return
        vectors = (
            None if lines[0].vector is None else np.stack([line.vector for line in lines if line.vector is not None])
        )
        try:
            added = self._add([line.item for line in lines], vectors, lines[0].model)
        except (InvalidInput, MemoryNotFound) as error:
            if len(lines) == 1:
                self._refuse(lines[0].number, lines[0].read, error)
                return
            middle = len(lines) // 2
            self._store(lines[:middle])
            self._store(lines[middle:])
            return
        for line, new_id in zip(lines, added, strict=True):
            self._report.created += new_id.created
            self._report.reinforced += new_id.reinforced
            if line.id:
                self._new_ids[line.id] = str(new_id)

    def _link(self, line: Line) -> None:
        """Turn the ids of the file into those of the store; what neither has is left out and counted."""
        wanted = line.item["derived_from"]
        there = self._known([id for id in wanted if id not in self._new_ids])
        links = [self._new_ids.get(id, id) for id in wanted if id in self._new_ids or id in there]
        self._report.unlinked += len(wanted) - len(links)
        line.item["derived_from"] = links

    def _refuse(self, number: int, read: int, error: InvalidInput | MemoryNotFound) -> None:
        # A chunk of one still counts its items.
        reason = str(error).removeprefix("items[0].")
        if self._skip:
            self._report.skipped.append(SkippedLine(line=number, reason=reason))
            return
        # Those before it that wait are good as far as is known; those behind it were not looked at.
        self.flush()
        self._report.read = read
        error.args = (f"line {number}: {reason}", *error.args[1:])
        error.line = number  # type: ignore[union-attr]
        raise error


def _go_together(before: Line, line: Line) -> bool:
    same_shape = (before.vector is None) == (line.vector is None)
    if same_shape and before.vector is not None and line.vector is not None:
        same_shape = before.vector.shape == line.vector.shape
    return same_shape and before.model == line.model


def _parsed(number: int, read: int, raw: bytes) -> Line:
    """A line as a memory, or an :class:`.errors.InvalidInput` that names the field."""
    try:
        fields = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput.of("text", f"is not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput.of("line", f"is not JSON: {shown(error)}") from None
    if not isinstance(fields, dict):
        raise InvalidInput.of("line", f"{shown(fields)} is not a JSON object")
    vector, model = _vector(fields.pop("vector", None)), fields.pop("vector_model", None)
    if model is not None and not isinstance(model, str):
        raise InvalidInput.of("vector_model", f"{shown(model)} is not a text")
    item = MemoryItem.model_validate(fields)
    return Line(number, read, item.id, item.given(), vector, None if vector is None else model)


def _vector(values: Any) -> np.ndarray | None:
    if values is None:
        return None
    if not isinstance(values, list) or not all(type(value) in {int, float} for value in values):
        raise InvalidInput.of("vector", f"{shown(values)} is not a list of numbers")
    try:
        with np.errstate(over="ignore"):  # the store refuses infinity by its place
            return np.asarray(values, dtype=np.float32)
    except (OverflowError, ValueError) as error:
        raise InvalidInput.of("vector", str(error)) from None


def _unmask(item: dict[str, Any]) -> int:
    """Leave out private fields that hold a mask and not a value; how many."""
    private: Mapping[str, Any] = item.get("private") or {}
    kept = {name: value for name, value in private.items() if value != MASK}
    if len(kept) < len(private):
        item["private"] = kept
    return len(private) - len(kept)


@contextmanager
def _opened(file: Any) -> Iterator[tuple[IO[Any], int]]:
    """The stream to read and its size, 0 when that is not known."""
    if hasattr(file, "readline"):
        yield file, 0
        return
    path = as_path("file", file)
    with told("read", path):
        stream = path.open("rb")
        size = path.stat().st_size
    with stream:
        yield stream, size


def _lines(stream: IO[Any]) -> Iterator[tuple[int, bytes | InvalidInput, int]]:
    """Number, content and size of each line that is not blank; in the place of one that is too long, the error."""
    number = 0
    while line := stream.readline(LINE_BYTES + 1):
        number += 1
        data = _bytes(line)
        size = len(data)
        if len(line) > LINE_BYTES and not data.endswith(b"\n"):
            while rest := stream.readline(LINE_BYTES):
                size += len(_bytes(rest))
                if _bytes(rest).endswith(b"\n"):
                    break
            message = f"line: {size} bytes are over the limit of {LINE_BYTES}"
            yield number, LimitExceeded(message, argument="line", got=size, limit=LINE_BYTES), size
            continue
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        if data.strip():
            yield number, data, size


def _bytes(line: str | bytes) -> bytes:
    return line.encode(errors="surrogatepass") if isinstance(line, str) else line
