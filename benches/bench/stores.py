"""The stores that several subjects measure, each made once a run."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tiermem_fast import TierMemory

from .data import DIMENSION, Dataset, Floats, dataset

K = 10
NOW = 1_800_000_000.0
WRITTEN = NOW - 30 * 86_400.0
"""Memories are a month old, so that each has faded and none has gone."""


class Lookup:
    """An embedder that costs nothing: known texts have their vectors, others one drawn from their hash."""

    dimension = DIMENSION
    model_id = "benchmark"

    def __init__(self) -> None:
        self.known: dict[str, Floats] = {}

    def embed(self, texts: Any, kind: str = "document") -> Floats:  # noqa: ARG002  # the protocol's argument
        """The protocol's method."""
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> Floats:
        if text in self.known:
            return self.known[text]
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        drawn = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
        return drawn / np.linalg.norm(drawn)  # type: ignore[no-any-return]


@dataclass
class Store:
    """A store on disk with what is in it."""

    data: Dataset
    path: Path
    embedder: Lookup
    ids: dict[str, int]
    """Id to place among the data."""
    add_seconds: float
    absorb_seconds: float
    mem: TierMemory = field(init=False)

    def reopen(self) -> TierMemory:
        """Opens what was written and lets the graph take it in."""
        self.mem = TierMemory.open(self.path, embedder=self.embedder)
        self.mem.maintain(now=NOW)
        return self.mem


class Stores:
    """Makes stores on demand under one directory."""

    def __init__(self, work: Path, cache: Path) -> None:
        self.work = work
        self.cache = cache
        self._made: dict[int, Store] = {}

    def get(self, count: int) -> Store:
        """A store of ``count`` memories, full durability, everything semantic."""
        if count not in self._made:
            self._made[count] = self._make(count)
        return self._made[count]

    def drop(self, count: int) -> None:
        """Lets go of a store's memory and files."""
        made = self._made.pop(count, None)
        if made is not None:
            made.mem.close()

    def _make(self, count: int) -> Store:
        data = dataset(count, self.cache)
        path = self.work / f"store-{count}"
        embedder = Lookup()
        mem = TierMemory.open(path, embedder=embedder, now=WRITTEN)
        items = data.items()
        started = time.perf_counter()
        ids = mem.add_many(items, vectors=data.vectors, now=WRITTEN)
        added = time.perf_counter() - started
        started = time.perf_counter()
        mem.maintain(now=NOW)
        absorbed = time.perf_counter() - started
        store = Store(data, path, embedder, {str(id): n for n, id in enumerate(ids)}, added, absorbed)
        store.mem = mem
        return store
