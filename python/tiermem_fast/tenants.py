"""Many memories under one roof: one directory per tenant.

Owns the way from a tenant's id to its directory and the handles that are open. Calls :mod:`.memory`. No tenant can name
another one's directory: the name is a hash of the id, which may be any text.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from .errors import InvalidInput, StorageError, StoreClosed, shown
from .memory import TierMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from .config import Config

__all__ = ["Tenants"]

_ID_FILE = "tenant.json"
_ID_BYTES = 64 * 1024


class Tenants:
    """The memories of many tenants in one directory, each alone in its own.

    Parameters
    ----------
    root
        The directory; made when missing.
    embedder, config, durability
        As in :meth:`TierMemory.open`, for every tenant.
    keep_open
        How many stores stay open when nobody holds them; the longest unused is let go first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root, Tenants(root) as tenants:
    ...     alice, bob = tenants.open("alice"), tenants.open("bob/../alice")
    ...     _ = alice.add("Likes tea")
    ...     alice.count(), bob.count(), sorted(tenants)
    (1, 0, ['alice', 'bob/../alice'])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        embedder: Any = None,
        config: Config | Mapping[str, Any] | None = None,
        durability: str | None = None,
        keep_open: int = 64,
    ) -> None:
        if isinstance(keep_open, bool) or not isinstance(keep_open, int) or keep_open < 1:
            raise InvalidInput.of("keep_open", f"{shown(keep_open)} is not a whole number from 1")
        self._root = Path(root)
        self._options: dict[str, Any] = {"embedder": embedder, "config": config, "durability": durability}
        self._keep_open = keep_open
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, TierMemory] = OrderedDict()
        self._alive: WeakValueDictionary[str, TierMemory] = WeakValueDictionary()
        self._closed = False
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, tenant: str) -> TierMemory:
        """The memory of a tenant, made when it is missing; the same object for as long as somebody holds it.

        Raises
        ------
        InvalidInput
            If the id is no text, empty, or longer than 64 KiB.
        """
        name = _directory_name(tenant)
        with self._lock:
            if self._closed:
                raise StoreClosed("these tenants are closed; make a new Tenants")
            mem = self._alive.get(name)
            if mem is None:
                directory = self._root / name
                mem = TierMemory.open(directory, **self._options)
                _write_id(directory, tenant)
                self._alive[name] = mem
            self._recent[name] = mem
            self._recent.move_to_end(name)
            if len(self._recent) > self._keep_open:
                # Not closed: somebody may hold it. What is pending is written now.
                self._recent.popitem(last=False)[1].maintain()
        return mem

    def __iter__(self) -> Iterator[str]:
        """The ids of the tenants that have a directory."""
        for entry in sorted(self._root.iterdir()):
            try:
                known = json.loads((entry / _ID_FILE).read_text(encoding="utf-8"))["tenant"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if isinstance(known, str) and _directory_name(known) == entry.name:
                yield known

    def __contains__(self, tenant: object) -> bool:
        return isinstance(tenant, str) and (self._root / _directory_name(tenant) / _ID_FILE).exists()

    def erase(self, tenant: str) -> bool:
        """Close a tenant's memory and delete its directory with everything in it; ``False`` when there was none.

        Deleting a file frees its blocks and does not overwrite them: what a disk still holds of freed blocks is out of
        the reach of any program, and so are backups made before.

        Raises
        ------
        StorageError
            If something of it could not be deleted.
        """
        name = _directory_name(tenant)
        directory = self._root / name
        with self._lock:
            self._recent.pop(name, None)
            mem = self._alive.pop(name, None)
            if mem is not None:
                mem.close()
            if not directory.exists():
                return False
            try:
                shutil.rmtree(directory)
            except OSError as error:
                message = f"could not delete everything of the tenant: {error.strerror or error}"
                raise StorageError(message, operation="erase a tenant", path=str(directory)) from error
        return True

    def close(self) -> None:
        """Close every store that is open. Closing twice is fine."""
        with self._lock:
            self._closed = True
            self._recent.clear()
            for mem in list(self._alive.values()):
                mem.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _directory_name(tenant: str) -> str:
    if not isinstance(tenant, str):
        raise InvalidInput.of("tenant", f"must be a str, not {type(tenant).__name__}")
    if not tenant:
        raise InvalidInput.of("tenant", "'' names no tenant")
    try:
        raw = tenant.encode()
    except UnicodeEncodeError:
        raise InvalidInput.of("tenant", "has a lone surrogate, which no UTF-8 can hold") from None
    if len(raw) > _ID_BYTES:
        raise InvalidInput.of("tenant", f"{len(raw)} bytes are over the limit of {_ID_BYTES}")
    return hashlib.blake2b(raw, digest_size=16, person=b"tiermem-tenant").hexdigest()


def _write_id(directory: Path, tenant: str) -> None:
    """Keep the id beside the store, so that tenants can be listed; whole or not at all."""
    file = directory / _ID_FILE
    if file.exists():
        return
    fresh = directory / f"{_ID_FILE}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        json.dump({"tenant": tenant}, out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
