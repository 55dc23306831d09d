"""The async twin has the same names, and its calls do not block the loop."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tiermem_fast import AsyncTierMemory, InvalidInput, TierMemory


def test_the_same_names_and_arguments() -> None:
    for name, method in vars(TierMemory).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        twin = getattr(AsyncTierMemory, name)
        assert inspect.iscoroutinefunction(twin), name
        assert inspect.signature(twin) == inspect.signature(method), name


def test_many_calls_at_once() -> None:
    async def main() -> None:
        async with await AsyncTierMemory.open() as mem:
            ids = await asyncio.gather(*(mem.add(f"fact number {number}") for number in range(50)))
            assert len(set(ids)) == 50
            found = await asyncio.gather(*(mem.search(f"number {number}", k=1) for number in range(50)))
            assert [hits.texts[0] for hits in found] == [f"fact number {number}" for number in range(50)]
            with pytest.raises(InvalidInput):
                await mem.add("")
            assert await mem.count() == 50

    asyncio.run(main())
