"""Several threads on one store: readers side by side, and a reader beside a writer."""

from __future__ import annotations

import statistics
import threading
import time

import numpy as np

from tiermem_fast import TierMemory

from .data import english
from .stores import NOW, K, Store, Stores
from .table import Table
from .timing import Figures
from .vectors import TIERS

WRITES_PER_SECOND = 500


def _searching(store: Store, seconds: float) -> list[float]:
    """Milliseconds of each search in so many seconds."""
    mem, queries = store.mem, store.data.queries
    taken, n = [], 0
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        mem.search(vector=queries[n % len(queries)], k=K, tiers=TIERS, now=NOW)
        taken.append((time.perf_counter() - begun) * 1e3)
        n += 1
    return taken


def _throughput(store: Store, threads: int, seconds: float) -> float:
    counts = [0] * threads

    def run(place: int) -> None:
        counts[place] = len(_searching(store, seconds))

    workers = [threading.Thread(target=run, args=(place,)) for place in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - started)


def readers(table: Table, stores: Stores, size: int, rounds: int = 7) -> None:
    store = stores.get(size)
    pairs = [(_throughput(store, 1, 0.5), _throughput(store, 2, 0.5)) for _ in range(rounds)]
    one, two = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
    table.value(
        "threads", f"{size:,}: searches with 2 threads", two, "per s", beside="1 thread", theirs=one, at_least=1.7
    )


class Writer:
    """Adds at a steady rate until it is told to stop."""

    def __init__(self, mem: TierMemory, texts: list[str], vectors: np.ndarray) -> None:
        self.mem, self.texts, self.vectors = mem, texts, vectors
        self.added = 0
        self._stop = threading.Event()

    def _run(self) -> None:
        start, first = time.perf_counter(), self.added
        while self.added < len(self.texts):
            due = start + (self.added - first) / WRITES_PER_SECOND
            if self._stop.wait(max(0.0, due - time.perf_counter())):
                return
            place = self.added
            self.mem.add(self.texts[place], vector=self.vectors[place % len(self.vectors)], now=NOW)
            self.added += 1

    def during(self, seconds: float, store: Store) -> tuple[list[float], float]:
        """The searches made meanwhile, and the rate of adding that was reached."""
        self._stop.clear()
        thread, before = threading.Thread(target=self._run), self.added
        started = time.perf_counter()
        thread.start()
        try:
            taken = _searching(store, seconds)
        finally:
            self._stop.set()
            thread.join()
        return taken, (self.added - before) / (time.perf_counter() - started)


def beside_writer(table: Table, stores: Stores, size: int, rounds: int = 5) -> None:
    """p99 of searching at rest, and while one thread adds 500 a second; each add is synced."""
    store = stores.get(size)
    fresh = [f"{text} (said later)" for text in english(6_000, stores.cache)]
    writer = Writer(store.mem, fresh, store.data.vectors)
    rest, busy, reached = Figures(), Figures(), []
    for _ in range(rounds):
        rest.wall.append(_searching(store, 1.0))
        taken, rate = writer.during(1.5, store)
        busy.wall.append(taken)
        reached.append(rate)
    ratio = statistics.median(
        float(np.percentile(with_writer, 99) / np.percentile(alone, 99))
        for with_writer, alone in zip(busy.wall, rest.wall, strict=True)
    )
    rate = statistics.median(reached)
    table.value(
        "threads", f"{size:,}: p99 beside {rate:.0f} adds/s of {WRITES_PER_SECOND} asked for", busy.p99, "ms p99",
        beside="at rest", theirs=busy.p99 / ratio, at_most=3.0,
        rest_p50=rest.p50, busy_p50=busy.p50, rest_p99=rest.p99,
    )  # fmt: skip
