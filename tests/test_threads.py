"""Many threads on one store: nobody sees what does not live, nobody gets an error, nothing is lost."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tiermem_fast import MemoryNotFound, StoreClosed, TierMemory

NOW = 1_700_000_000.0
SECONDS = 3.0
DIMENSION = 16


class Ledger:
    """What the writers did, with the moment before and after each change.

    A reader that began after an addition was acknowledged must find the memory, and one that began after it was
    forgotten must not; between the two either may be.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.added: dict[str, int] = {}
        self.going: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.clock = itertools.count(1)

    def now(self) -> int:
        with self.lock:
            return next(self.clock)

    def note(self, book: dict[str, int], ids: list[str]) -> None:
        with self.lock:
            moment = next(self.clock)
            for id in ids:
                book[id] = moment

    def certainly_alive(self, since: int, until: int) -> set[str]:
        """What was added before the one moment, and of which nobody had begun to forget it at the other."""
        with self.lock:
            return {id for id, moment in self.added.items() if moment < since and self.going.get(id, until + 1) > until}

    def certainly_gone(self, since: int) -> set[str]:
        with self.lock:
            return {id for id, moment in self.gone.items() if moment < since}


def run(workers: Sequence[Callable[[threading.Event], None]], seconds: float = SECONDS) -> None:
    """Run all of them until the time is over or one of them fails; raise what the first one raised."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[threading.Event], None]) -> None:
        try:
            work(stop)
        except BaseException as error:  # noqa: BLE001  # raised again below
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work,), name=f"worker {n}") for n, work in enumerate(workers)]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), f"{thread.name} hangs"
    if failures:
        raise failures[0]


def vector_of(random_: np.random.Generator) -> np.ndarray:
    """A direction in the positive orthant, so that every question meets every memory."""
    return (random_.random(DIMENSION) + 0.05).astype(np.float32)


class Scene:
    """A store with forty memories that stay, the handles of writers and of readers, and what everybody does."""

    def __init__(self, writing: TierMemory, reading: TierMemory) -> None:
        self.writing, self.reading = writing, reading
        self.ledger = Ledger()
        self.numbers = itertools.count()
        self.turns: list[str] = []
        self.kept = self.add(40)

    def add(self, count: int) -> list[str]:
        number = self.ledger.now()
        texts = [f"apple {number} {n}" for n in range(count)]
        dice = np.random.default_rng(number)
        ids = self.writing.add_many(texts, vectors=np.stack([vector_of(dice) for _ in texts]), now=NOW)
        assert all(id.created for id in ids)
        self.ledger.texts.update(zip(ids, texts, strict=True))
        self.ledger.note(self.ledger.added, list(ids))
        return list(ids)

    def write(self, stop: threading.Event) -> None:
        mine: list[str] = []
        dice = random.Random(self.ledger.now())
        while not stop.is_set():
            mine += self.add(dice.randrange(1, 6))
            if len(mine) > 20:
                chosen = [mine.pop(dice.randrange(len(mine))) for _ in range(8)]
                self.ledger.note(self.ledger.going, chosen)
                self.writing.forget(chosen[:7], now=NOW)
                # What takes its place says nothing of apples.
                text, vector = f"pear {self.ledger.now()}", vector_of(np.random.default_rng(7))
                new = self.writing.supersede(chosen[7], text, vector=vector, now=NOW)
                self.ledger.note(self.ledger.gone, chosen)
                self.ledger.note(self.ledger.going, [new])
            self.writing.used(dice.sample(self.kept, 3), now=NOW + 1)
            self.writing.update(dice.choice(self.kept), importance=dice.random(), now=NOW)
            self.turns.append("write")

    def read(self, stop: threading.Event) -> None:
        dice = np.random.default_rng(self.ledger.now())
        while not stop.is_set():
            since = self.ledger.now()
            vector = vector_of(dice) if dice.random() < 0.5 else None
            hits = self.reading.search("apple", vector=vector, k=10_000, now=NOW)
            ids, until = hits.ids, self.ledger.now()
            assert len(set(ids)) == len(ids)
            dead = self.ledger.certainly_gone(since).intersection(ids)
            assert not dead, f"{dead} were forgotten before the question"
            missing = self.ledger.certainly_alive(since, until).difference(ids)
            assert not missing, f"{missing} were there before the question"
            assert (np.diff(hits.scores) <= 0).all()
            assert ((hits.scores > 0) & (hits.scores <= 1)).all()
            # Texts are fetched after the answer was found: what was forgotten since still has its own.
            for id, text in zip(ids, hits.texts, strict=True):
                assert text == self.ledger.texts.get(id, text)
            self.read_otherwise(since, ids[int(dice.integers(len(ids)))])
            self.turns.append("read")

    def read_otherwise(self, since: int, found: str) -> None:
        """The other ways to read agree."""
        listed = {item.id for item in self.reading.list(limit=10_000, now=NOW)}
        assert not self.ledger.certainly_gone(since) & listed
        assert listed.issuperset(self.kept)
        assert self.reading.count(now=NOW) >= len(self.kept)
        assert self.reading.get(self.kept[0], now=NOW).text == self.ledger.texts[self.kept[0]]
        try:
            assert self.reading.get(found, now=NOW).id == found
        except MemoryNotFound:
            assert found in self.ledger.going, "only what somebody forgets is not found"

    def check(self, mem: TierMemory) -> None:
        """What is there when all is done."""
        alive = self.ledger.added.keys() - self.ledger.gone.keys()
        assert {item.id for item in mem.list(must="apple", limit=10_000, now=NOW)} == alive
        assert set(mem.search("apple", k=10_000, now=NOW).ids) == alive
        uses = sum(item.use_count for item in mem.list(where={"id": self.kept}, limit=100, now=NOW))
        assert uses == 3 * self.turns.count("write")


@pytest.mark.parametrize(("place", "handles"), [("ram", 1), ("disk", 1), ("disk", 2)])
def test_eight_readers_and_two_writers(tmp_path, place, handles):
    path = None if place == "ram" else str(tmp_path / "store")
    writing = TierMemory.open(path, now=NOW)
    reading = writing if handles == 1 else TierMemory.open(path, now=NOW)
    scene = Scene(writing, reading)
    run([scene.write] * 2 + [scene.read] * 8)
    assert scene.turns.count("read") >= 8
    assert scene.turns.count("write") >= 2
    scene.check(writing)
    writing.close()
    reading.close()
    if path is not None:
        with TierMemory.open(path, now=NOW) as again:
            scene.check(again)


def test_two_handles_write_at_once_and_lose_nothing(tmp_path):
    handles = [TierMemory.open(tmp_path, now=NOW) for _ in range(2)]
    wrote: list[list[str]] = [[], [], [], []]
    shared = handles[0].add("told by all", now=NOW)
    repeats = [0, 0, 0, 0]

    def writer(number: int) -> Callable[[threading.Event], None]:
        mem = handles[number % 2]

        def write(stop: threading.Event) -> None:
            while not stop.is_set():
                place = len(wrote[number])
                wrote[number].append(mem.add(f"note {number} {place}", idempotency_key=f"{number} {place}", now=NOW))
                again = mem.add("told by all", now=NOW)
                assert (again, again.reinforced) == (shared, True)
                repeats[number] += 1

        return write

    run([writer(number) for number in range(4)])
    wanted = {shared, *itertools.chain.from_iterable(wrote)}
    assert len(wanted) == 1 + sum(map(len, wrote))
    for mem in handles:
        assert {item.id for item in mem.list(limit=10_000, now=NOW)} == wanted
        assert mem.get(shared, now=NOW).repeat_count == sum(repeats)
    for mem in handles:
        mem.close()
    with TierMemory.open(tmp_path, now=NOW) as again:
        assert {item.id for item in again.list(limit=10_000, now=NOW)} == wanted


@pytest.mark.parametrize("place", ["ram", "disk"])
@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.05, 0.1])
def test_closing_amid_calls_ends_them_with_the_one_error(tmp_path, place, seconds):
    path = None if place == "ram" else str(tmp_path / "store")
    mem = TierMemory.open(path, now=NOW)
    acknowledged: list[str] = list(mem.add_many([f"apple {n}" for n in range(50)], now=NOW))
    used = acknowledged[0]
    refused: list[str] = []
    started = threading.Barrier(5)

    def write(_: threading.Event) -> None:
        started.wait()
        while True:
            try:
                acknowledged.append(mem.add(f"more {threading.get_ident()} {len(acknowledged)}", now=NOW))
                mem.used(used, now=NOW)
            except StoreClosed:
                refused.append("write")
                return

    def read(_: threading.Event) -> None:
        started.wait()
        while True:
            try:
                assert len(mem.search("apple", k=100, now=NOW).texts) == 50
            except StoreClosed:
                refused.append("read")
                return

    def close(stop: threading.Event) -> None:
        started.wait()
        stop.wait(seconds)
        mem.close()

    run([write, write, read, read, close], seconds=0.2)
    assert sorted(refused) == ["read", "read", "write", "write"]
    if path is not None:
        with TierMemory.open(path, now=NOW) as again:
            found = {item.id for item in again.list(limit=10_000, now=NOW)}
            assert set(acknowledged) <= found, "what was acknowledged is there"


def test_consolidating_and_maintaining_beside_readers(tmp_path):
    with TierMemory.open(tmp_path, now=NOW) as mem:
        rules = mem.add_many([f"apple rule {n}" for n in range(10)], tier="procedural", now=NOW)

        def fill(stop: threading.Event) -> None:
            for turn in itertools.count():
                if stop.is_set():
                    return
                mem.add_many(
                    [f"apple {turn} {n}" for n in range(6)], tier="working", session=str(turn % 3), now=NOW + turn
                )

        def tidy(stop: threading.Event) -> None:
            for turn in itertools.count():
                if stop.is_set():
                    return
                mem.consolidate(now=NOW + turn)
                mem.maintain(now=NOW + turn)
                mem.stats(now=NOW + turn)

        def read(stop: threading.Event) -> None:
            while not stop.is_set():
                hits = mem.search("apple rule", k=10_000, now=NOW)
                assert set(rules) <= set(hits.ids)
                assert len(hits.texts) == len(hits)
                assert mem.brief("apple rule", session="1", now=NOW).tokens <= 1_200
                assert mem.history(rules[0]) is not None

        run([fill, tidy, read, read, read])
        states = {row["state"]: row["n"] for row in mem.sql("select state, count(*) as n from memories group by state")}
        stats = mem.stats(now=NOW)
        assert (stats.alive, stats.forgotten) == (states["alive"], states.get("forgotten", 0))
