"""The same memory for asyncio: every call runs in a thread, where the engine works without the GIL.

Owns :class:`AsyncTierMemory`; calls :mod:`.memory`.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from .memory import TierMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

__all__ = ["AsyncTierMemory"]

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    method: Callable[Concatenate[TierMemory, P], R],
) -> Callable[Concatenate[AsyncTierMemory, P], Coroutine[Any, Any, R]]:
    async def call(self: AsyncTierMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._mem, *args, **kwargs)

    functools.update_wrapper(call, method)
    return call


class AsyncTierMemory:
    """A :class:`TierMemory` whose calls are awaited; names and arguments are the same.

    Hits read their texts when they are first looked at, from disk and in the thread that looks: ``hits.texts`` in a
    coroutine blocks it for some microseconds.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> list[str]:
    ...     async with await AsyncTierMemory.open() as mem:
    ...         await mem.add("Likes tea")
    ...         return (await mem.search("tea")).texts
    >>> asyncio.run(main())
    ['Likes tea']
    """

    __slots__ = ("_mem",)

    def __init__(self, mem: TierMemory) -> None:
        self._mem = mem

    @classmethod
    async def open(cls, path: Any = None, **options: Any) -> Self:
        """Open a store; see :meth:`TierMemory.open`."""
        return cls(await asyncio.to_thread(functools.partial(TierMemory.open, path, **options)))

    @classmethod
    async def from_snapshot(cls, file: Any, path: Any = None, **options: Any) -> Self:
        """Make a store of a snapshot and open it; see :meth:`TierMemory.from_snapshot`."""
        return cls(await asyncio.to_thread(functools.partial(TierMemory.from_snapshot, file, path, **options)))

    add = _in_thread(TierMemory.add)
    add_many = _in_thread(TierMemory.add_many)
    observe = _in_thread(TierMemory.observe)
    update = _in_thread(TierMemory.update)
    supersede = _in_thread(TierMemory.supersede)
    forget = _in_thread(TierMemory.forget)
    restore = _in_thread(TierMemory.restore)
    erase = _in_thread(TierMemory.erase)
    erasures = _in_thread(TierMemory.erasures)
    used = _in_thread(TierMemory.used)
    get = _in_thread(TierMemory.get)
    search = _in_thread(TierMemory.search)
    list = _in_thread(TierMemory.list)
    count = _in_thread(TierMemory.count)
    history = _in_thread(TierMemory.history)
    explain = _in_thread(TierMemory.explain)
    strength_curve = _in_thread(TierMemory.strength_curve)
    sql = _in_thread(TierMemory.sql)
    brief = _in_thread(TierMemory.brief)
    snapshot = _in_thread(TierMemory.snapshot)
    export_jsonl = _in_thread(TierMemory.export_jsonl)
    import_jsonl = _in_thread(TierMemory.import_jsonl)
    stats = _in_thread(TierMemory.stats)
    maintain = _in_thread(TierMemory.maintain)
    consolidate = _in_thread(TierMemory.consolidate)
    compact = _in_thread(TierMemory.compact)
    backup = _in_thread(TierMemory.backup)
    verify = _in_thread(TierMemory.verify)
    close = _in_thread(TierMemory.close)

    @property
    def path(self) -> str | None:
        """The store's directory; ``None`` is in RAM."""
        return self._mem.path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._mem)[1:]}"
