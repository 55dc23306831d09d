"""One portable file for a whole store, and back.

Owns the file: its frames, its checksums, its order (docs/snapshot.md has it byte by byte). What is in the columns is
the core's; an engine-like :class:`Exporter` gives them and an :class:`Importer` takes them, so that nothing here knows
the native module. Calls :mod:`.errors`, :mod:`.files` and :mod:`.models`.

What is read may have been made by anybody: no length is believed before it is checked, nothing is unpacked but flat
maps of bytes, texts and numbers, and at no time is more than a few chunks in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgpack

from .errors import CorruptStore, InvalidInput, NewerFormat, shown
from .files import NewFile, new_file, told
from .models import SnapshotReport

__all__ = ["PARTS", "VERSION", "Exporter", "Importer", "Progress", "Snapshot", "opened", "write_snapshot"]

FORMAT: Final = "tiermem_fast snapshot"
VERSION: Final = 1
"""The version that is written and the newest that is read."""

PARTS: Final = ("memories", "events", "edges", "keys")
"""What a snapshot has between header and end, in this order."""

CHUNK_ROWS: Final = 4_096
_MOST_ROWS: Final = 1 << 16
_MOST_COLUMNS: Final = 64
_MOST_BYTES: Final = 16 << 20
"""Bytes of a frame's payload: a writer fills 8 MiB and one more row, which is less than 5 MiB at its largest."""

_DIGEST: Final = 16
_BEGINNING: Final = b"\x94\xa6header"
_ORDER: Final = {name: place for place, name in enumerate(("header", *PARTS, "end"))}

Progress = Callable[[int, int], object]
"""Hears of memories done and memories in all."""


class Exporter(Protocol):
    """A store at one commit, as the core gives it out."""

    def origin(self) -> dict[str, Any]:
        """What the store is: ``commit, memories, created_at, model, dimension``."""

    def chunk(self, rows: int) -> tuple[str, int, dict[str, bytes]] | None:
        """The next part, rows and columns; ``None`` after the last."""


class Importer(Protocol):
    """A store that is being filled, as the core takes it in."""

    def add(self, part: str, rows: int, columns: dict[str, bytes], now: float) -> None:
        """Take in one chunk, checked."""


# ---------------------------------------------------------------------- writing


class _Writer:
    """Frames one behind the other, each bound to all before it by its digest."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._number = 0
        self.digest = b""
        self.size = 0

    def frame(self, name: str, values: Mapping[str, Any]) -> None:
        payload = msgpack.packb(values, use_bin_type=True)
        head = b"\x94" + msgpack.packb(name) + b"\xce" + self._number.to_bytes(4, "big")
        head += b"\xc6" + len(payload).to_bytes(4, "big")
        self.digest = _digest(self.digest, head, payload)
        for part in (head, payload, b"\xc4\x10", self.digest):
            self._file.write(part)
            self.size += len(part)
        self._number += 1


def write_snapshot(
    export: Exporter, path: Path, *, library: str, written_at: float, progress: Progress | None = None
) -> SnapshotReport:
    """Write a store into one file.

    Parameters
    ----------
    export
        The store.
    path
        The file, which appears when it is whole, in the place of one that is there.
    library
        The version of the package, for people.
    written_at
        The time, in seconds since 1970.
    progress
        Called after each chunk of memories.

    Raises
    ------
    StorageError
        If the file cannot be written.
    CorruptStore
        If a memory in the store is damaged; the error names it.
    """
    origin = export.origin()
    total = origin["memories"]
    counts = dict.fromkeys(PARTS, 0)
    with new_file(path) as file:
        writer = _Writer(file)
        about = {"format": FORMAT, "version": VERSION, "library": library, "written_at": round(written_at * 1e6)}
        writer.frame("header", about | origin)
        while (chunk := export.chunk(CHUNK_ROWS)) is not None:
            part, rows, columns = chunk
            writer.frame(part, {"rows": rows, **columns})
            counts[part] += rows
            if progress is not None and part == "memories":
                progress(counts[part], total)
        writer.frame("end", counts)
    return SnapshotReport(
        path=str(path),
        commit=origin["commit"],
        bytes=writer.size,
        digest=writer.digest.hex(),
        model_id=origin["model"],
        dimension=origin["dimension"],
        **counts,
    )


# ---------------------------------------------------------------------- reading


class Snapshot:
    """A file that claims to be a snapshot. :meth:`verify` reads all of it before :meth:`restore` hands anything on."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file = file
        self._path = path
        self._size = size

    def verify(self) -> dict[str, Any]:
        """Read the whole file and check its version, its frames, their order, checksums and counts.

        Returns
        -------
        dict
            The header.

        Raises
        ------
        InvalidInput
            If it is no snapshot.
        NewerFormat
            If it is one of a later version.
        CorruptStore
            If it is damaged, cut off or longer than it says.
        """
        header: dict[str, Any] = {}
        for name, values in self._frames():
            if name == "header":
                header = values
        return header

    def restore(self, importer: Importer, *, now: float, progress: Progress | None = None) -> None:
        """Hand every chunk to an importer; checked again, for the file may have changed meanwhile."""
        total = done = 0
        for name, values in self._frames():
            if name == "header":
                total = values["memories"]
            elif name != "end":
                rows = values.pop("rows")
                importer.add(name, rows, values, now)
                if progress is not None and name == "memories":
                    done += rows
                    progress(done, total)

    def _frames(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each frame's name and values; the end only when everything before it was as it says."""
        self._begin()
        counts = dict.fromkeys(PARTS, 0)
        memories = digest = None
        number, last = 0, "header"
        while last != "end":
            start = self._file.tell()
            name, payload, digest = self._frame(number, digest)
            if number == 0:
                values = self._header(payload)
                memories = values["memories"]
            elif name == "header" or name not in _ORDER or _ORDER[name] < _ORDER[last]:
                raise self._damaged(start, f"{name!r} has no place behind {last!r}")
            elif name == "end":
                values = self._map(payload, start)
                if values != counts or counts["memories"] != memories:
                    raise self._damaged(start, f"it has {counts}, and should have {memories} memories and {values}")
            else:
                values = self._chunk(payload, start)
                counts[name] += values["rows"]
            yield name, values
            number, last = number + 1, name
        if self._file.tell() != self._size:
            raise self._damaged(self._file.tell(), f"{self._size - self._file.tell()} bytes follow the end")

    def _begin(self) -> None:
        """Go to the first byte of what at least looks like a snapshot."""
        with told("read", self._path):
            self._file.seek(0)
            beginning = self._file.read(len(_BEGINNING))
        if beginning != _BEGINNING:
            raise self._foreign()
        self._file.seek(0)

    def _frame(self, number: int, before: bytes | None) -> tuple[str, bytes, bytes]:
        """The next frame's name, payload and digest, verified."""
        start = self._file.tell()
        head = self._exactly(2)
        if head[0] != 0x94 or not 0xA1 <= head[1] <= 0xB0:
            raise self._damaged(start, "no frame begins there")
        head += self._exactly((head[1] & 0x1F) + 10)
        numbered, sized = head[-10:-5], head[-5:]
        if numbered[0] != 0xCE or sized[0] != 0xC6:
            raise self._damaged(start, "no frame begins there")
        length = int.from_bytes(sized[1:], "big")
        if length > _MOST_BYTES or length > self._size - self._file.tell():
            raise self._damaged(start, f"a frame of {length} bytes does not fit")
        payload = self._exactly(length)
        tail = self._exactly(2 + _DIGEST)
        digest = _digest(before or b"", head, payload)
        if tail != b"\xc4\x10" + digest:
            raise self._damaged(start, "the checksum does not match")
        if int.from_bytes(numbered[1:], "big") != number:
            raise self._damaged(start, f"frame {number} is missing")
        return head[2:-10].decode("ascii", "replace"), payload, digest

    def _header(self, payload: bytes) -> dict[str, Any]:
        values = self._map(payload, 0)
        version = values.get("version")
        if values.get("format") != FORMAT or type(version) is not int or version < 1:
            raise self._foreign()
        if version > VERSION:
            message = (
                f"{self._path} has format version {version}, this version reads up to {VERSION}; upgrade tiermem-fast"
            )
            raise NewerFormat(message, path=str(self._path), found=version, supported=VERSION)
        expected = {
            "format": str, "version": int, "library": str, "written_at": int, "commit": int, "memories": int,
            "created_at": int, "model": str, "dimension": int,
        }  # fmt: skip
        absent = values.get("model") is None and values.get("dimension") is None
        for name, kind in expected.items():
            value = values.get(name)
            fits = type(value) is kind and (not isinstance(value, int) or 0 <= value < 1 << 63)
            if not fits and not (absent and name in {"model", "dimension"} and name in values):
                raise self._damaged(0, f"its header says {shown(value)} for {name}")
        if values.keys() != expected.keys():
            raise self._damaged(0, f"its header has {sorted(values)}")
        return values

    def _chunk(self, payload: bytes, start: int) -> dict[str, Any]:
        values = self._map(payload, start)
        rows = values.get("rows")
        if type(rows) is not int or not 1 <= rows <= _MOST_ROWS:
            raise self._damaged(start, f"a chunk of {shown(rows)} rows")
        for name, value in values.items():
            if name != "rows" and type(value) is not bytes:
                raise self._damaged(start, f"the column {shown(name)} is no bytes")
        return values

    def _map(self, payload: bytes, start: int) -> dict[str, Any]:
        try:
            return _flat_map(payload)
        # What msgpack raises on hostile bytes is not one family.
        except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
            raise self._damaged(start, f"its payload is not a flat map: {shown(error)}") from None

    def _exactly(self, count: int) -> bytes:
        with told("read", self._path):
            data = self._file.read(count)
        if len(data) < count:
            raise self._damaged(self._file.tell(), "it is cut off there")
        return data

    def _foreign(self) -> InvalidInput:
        return InvalidInput.of("file", f"{self._path} is not a snapshot of tiermem_fast")

    def _damaged(self, place: int, message: str) -> CorruptStore:
        path = str(self._path)
        return CorruptStore(f"{path} is damaged at byte {place}: {message}", what=path, path=path, operation="read")


_ALLOWED: Final = (bytes, str, int, type(None))


def _flat_map(payload: bytes) -> dict[str, Any]:
    """A map of short names to bytes, texts, numbers and nothing; whatever else is in it is refused unmade."""
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=True,
        ext_hook=_refuse_extension,
        max_buffer_size=max(len(payload), 1),
        max_bin_len=len(payload),
        max_str_len=1_024,
        max_array_len=0,
        max_map_len=0,
        max_ext_len=0,
    )
    unpacker.feed(payload)
    count = unpacker.read_map_header()
    if count > _MOST_COLUMNS:
        raise ValueError(f"a map of {count}")
    values: dict[str, Any] = {}
    for _ in range(count):
        name, value = unpacker.unpack(), unpacker.unpack()
        if type(name) is not str or name in values or type(value) not in _ALLOWED:
            raise ValueError(f"{shown(name)} with {shown(value)}")
        values[name] = value
    if unpacker.tell() != len(payload):
        raise ValueError(f"{len(payload) - unpacker.tell()} bytes too many")
    return values


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"an extension of type {code} with {len(data)} bytes")


def _digest(before: bytes, head: bytes, payload: bytes) -> bytes:
    digest = hashlib.blake2b(before, digest_size=_DIGEST)
    digest.update(head)
    digest.update(payload)
    return digest.digest()


@contextmanager
def opened(path: Path) -> Iterator[Snapshot]:
    """Open a file that may be a snapshot; it stays the same one however often it is read."""
    with told("read", path):
        # Not to wait for the other end of a pipe: it is refused below.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise InvalidInput.of("file", f"{path} is not a plain file")
    with os.fdopen(number, "rb") as file:
        yield Snapshot(file, path, found.st_size)
