"""Processes that die at any moment, one after another and several at once, and copies made of a living directory."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tiermem_fast import CorruptStore, StorageError, TierMemory

NOW = 1_700_000_000.0

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "import sys\nfrom tiermem_fast import *\n" + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")


WRITE = """
mem = TierMemory.open(sys.argv[1], durability=sys.argv[3])
number = 0
while True:
    text = f"{sys.argv[2]} {number}"
    print(mem.add(text), text, flush=True)
    if number % 5 == 0:
        ids = mem.add_many([f"{text} left", f"{text} right"])
        print(ids[0], f"{text} left", flush=True)
        print(ids[1], f"{text} right", flush=True)
    number += 1
"""


def begun(process: subprocess.Popen[str]) -> str:
    """Wait for the first thing that a process says."""
    assert process.stdout is not None
    return process.stdout.readline()


def kill(process: subprocess.Popen[str], first: str = "") -> dict[str, str]:
    """Kill a process; what it had been told is stored. A line that was cut short was told too late."""
    process.kill()
    process.wait()
    assert process.stdout is not None
    lines = (first + process.stdout.read()).split("\n")[:-1]
    process.stdout.close()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def stored(mem: TierMemory) -> dict[str, str]:
    """Every memory, in the pages that one answer holds."""
    found: dict[str, str] = {}
    while True:
        page = mem.sql(f"select id, text from memories limit 10000 offset {len(found)}")  # noqa: S608 - a number
        found |= {row["id"]: row["text"] for row in page}
        if len(page) < 10_000:
            return found


def kill_writers(store: Path, rounds: int, writers: int, seed: int) -> None:
    chance = random.Random(seed)
    told: dict[str, str] = {}
    for turn in range(rounds):
        durability = "full" if turn % 2 else "normal"
        processes = [start(WRITE, store, f"round {turn} writer {number}", durability) for number in range(writers)]
        first = [begun(process) for process in processes]
        time.sleep(chance.random() * 0.3)
        for process, line in chance.sample(list(zip(processes, first, strict=True)), writers):
            told |= kill(process, line)
        # The lock of whoever died is free at once.
        opened = time.monotonic()
        with TierMemory.open(store, now=NOW) as mem:
            mem.add(f"after round {turn}", now=NOW)
            assert time.monotonic() - opened < 4.0
            assert mem.verify().ok
            found = stored(mem)
        assert told.items() <= found.items(), "what was acknowledged is there"
        texts = set(found.values())
        for text in texts:
            if text.endswith(" left"):
                assert text.removesuffix("left") + "right" in texts, "a batch is whole or not there"
        unsent = [text for text in texts if not text.startswith(("round", "after"))]
        assert unsent == []


def test_writers_killed_at_once(tmp_path: Path) -> None:
    kill_writers(tmp_path, rounds=2, writers=3, seed=1)


@pytest.mark.slow
def test_many_writers_killed_often(tmp_path: Path) -> None:
    kill_writers(tmp_path, rounds=int(os.environ.get("TIERMEM_KILLS", "300")) // 8, writers=8, seed=2)


OPEN = "print('opening', flush=True)\nTierMemory.open(sys.argv[1]).add(sys.argv[2])\nprint('done', flush=True)"


def test_killed_again_and_again_while_it_recovers(tmp_path: Path) -> None:
    writer = start(WRITE, tmp_path, "first", "full")
    line = begun(writer)
    time.sleep(0.3)
    told = kill(writer, line)
    for depth in range(4):
        process = start(OPEN, tmp_path, f"depth {depth}")
        assert begun(process) == "opening\n"
        time.sleep(0.002 * depth)
        kill(process)
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        assert told.items() <= stored(mem).items()


def test_a_plain_copy_of_a_living_directory_is_whole_or_says_so(tmp_path: Path) -> None:
    """Files copied one by one while somebody writes are of different moments. `backup` is the way; this must not lie."""
    store = tmp_path / "store"
    writer = start(WRITE, store, "writer", "normal")
    line = begun(writer)
    try:
        for turn in range(8):
            copy = tmp_path / f"copy {turn}"
            copy.mkdir()
            names = ["memory.db", "memory.db-wal"]
            for name in names if turn % 2 else reversed(names):
                shutil.copyfile(store / name, copy / name)
                time.sleep(0.01)
    finally:
        told = kill(writer, line)
    for turn in range(8):
        try:
            with TierMemory.open(tmp_path / f"copy {turn}", now=NOW) as mem:
                report = mem.verify()
                for row in mem.sql("select id, text from memories", limit=10_000) if report.ok else ():
                    assert told.get(row["id"], row["text"]) == row["text"]
        except CorruptStore:
            continue


@pytest.mark.parametrize("count", [1, 999, 1_000, 1_001, 4_000])
def test_a_store_of_any_size_answers_the_same_after_each_reopening(tmp_path: Path, count: int) -> None:
    vectors = np.random.default_rng(count).standard_normal((count, 24)).astype(np.float32)
    words = np.random.default_rng(count).integers(0, 200, (count, 6))
    texts = [" ".join(f"w{word}" for word in row) + f" {number}" for number, row in enumerate(words)]
    questions = [{"query": f"w{word}"} for word in (3, 50, 111)] + [{"vector": vectors[n]} for n in (0, count // 2)]

    def answers(mem: TierMemory) -> str:
        hits = [mem.search(**question, k=8, now=NOW) for question in questions]  # type: ignore[arg-type]
        return json.dumps([(found.ids, found.scores.tolist()) for found in hits])

    with TierMemory.open(tmp_path, now=NOW) as mem:
        mem.add_many(texts, vectors=vectors, now=NOW)
        before = answers(mem)
    for _ in range(3):
        with TierMemory.open(tmp_path, now=NOW) as mem:
            assert mem.count() == count
            assert answers(mem) == before


def test_bytes_on_disk_follow_what_lives(tmp_path: Path) -> None:
    chance = random.Random(5)
    with TierMemory.open(tmp_path, durability="normal", now=NOW) as mem:
        for turn in range(12):
            ids = mem.add_many([f"turn {turn} memory {number} " + "x" * 300 for number in range(200)], now=NOW)
            mem.forget(chance.sample(ids, 150), now=NOW)
            mem.erase(mem.add(f"erased in turn {turn}", now=NOW), now=NOW)
        mem.compact(now=NOW)
        (live,) = mem.sql("select sum(length(text)) as live from content")
        assert mem.stats(now=NOW).disk_bytes <= 3 * live["live"]
    assert {path.name for path in tmp_path.iterdir()} <= {"memory.db", "derived"}


def test_no_store_in_the_place_of_one_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        TierMemory.open(tmp_path / "nothing", read_only=True, now=NOW)
    assert list(tmp_path.iterdir()) == []
