"""How a file or a directory comes to its name: whole, on disk, or not at all.

Owns the two ways to do it; calls only :mod:`.errors`. What is written lies under a temporary name beside the final one,
readable for its owner alone, and is synced before it is renamed. What goes wrong leaves nothing of it behind; after a
kill in the middle a file or directory named ``.<name>.<random>.partial`` remains, which nobody reads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import InvalidInput, StorageError, TiermemError, shown

__all__ = ["NewFile", "as_path", "new_directory", "new_file", "refuse_taken", "sync_directory", "told"]


def as_path(argument: str, value: object) -> Path:
    """The path in an argument, or an :class:`.errors.InvalidInput` that names it."""
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        raise InvalidInput.of(argument, f"{shown(value)} is not a path") from None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInput.of(argument, f"{shown(text)} is not a path")
    return Path(text)


def storage_error(operation: str, path: object, error: OSError) -> StorageError:
    """An error of the operating system in the words of this package."""
    message = f"could not {operation} {path}: {error.strerror or error}"
    return StorageError(message, operation=operation, path=str(path))


@contextmanager
def told(operation: str, path: object) -> Iterator[None]:
    """Tell an error of the operating system in the words of this package."""
    try:
        yield
    except TiermemError:
        raise
    except OSError as error:
        raise storage_error(operation, path, error) from error


class NewFile:
    """A file that is being written. What the system says against it is a :class:`.errors.StorageError`."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path

    def write(self, data: bytes) -> None:
        """Write some bytes."""
        with told("write", self._path):
            self._file.write(data)

    def settle(self) -> None:
        """Bring everything to the disk."""
        with told("write", self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of it. What was not settled is lost."""
        with suppress(OSError):
            self._file.close()


@contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """A file to be written that gets its name when the block ends well, in the place of one that is there.

    Raises
    ------
    StorageError
        If it cannot be written, synced or renamed; then there is nothing of it, and what was there before still is.
    """
    with told("write", path):
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    partial, file = Path(name), NewFile(os.fdopen(number, "wb"), path)
    try:
        try:
            yield file
            file.settle()
        finally:
            file.close()
        with told("write", path):
            partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    with told("sync", path.parent):
        sync_directory(path.parent)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A directory to be filled that gets its name when the block ends well. Its files must be synced by then.

    Raises
    ------
    InvalidInput
        If there is something of that name already, but for an empty directory.
    StorageError
        If it cannot be made or renamed; then there is nothing of it.
    """
    refuse_taken(path)
    with told("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        yield partial
        refuse_taken(path)
        with told("write", path):
            sync_directory(partial)
            if path.exists():
                path.rmdir()  # Windows renames over nothing
            partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    with told("sync", path.parent):
        sync_directory(path.parent)


def refuse_taken(path: Path) -> None:
    """Refuse a place that holds anything.

    Raises
    ------
    InvalidInput
        If there is something there, but for an empty directory.
    """
    with told("look at", path):
        taken = path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))
    if taken:
        raise InvalidInput.of("path", f"{path} is taken already; name a directory that is not there, or is empty")


def sync_directory(path: Path) -> None:
    """Make the names in a directory last, where the system knows how."""
    if os.name != "posix":
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
