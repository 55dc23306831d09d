"""Several handles, processes and forks on one store, and what happens when the disk says no."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tiermem_fast import (
    DurabilityError,
    InvalidInput,
    MemoryNotFound,
    ReadOnlyStore,
    StorageError,
    StoreClosed,
    StoreLocked,
    TierMemory,
)

NOW = 1_700_000_000.0

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, signals or limits")


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "import os, sys\nfrom tiermem_fast import *\n" + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def answer(process: subprocess.Popen[str], told: str = "") -> str:
    out, err = process.communicate(told, timeout=120)
    assert process.returncode == 0, err
    return out


# ---------------------------------------------------------------------- one engine for a directory


def test_two_openings_share_one_engine(tmp_path: Path) -> None:
    one = TierMemory.open(tmp_path / "store", now=NOW)
    (tmp_path / "link").symlink_to(tmp_path / "store", target_is_directory=True)
    other = TierMemory.open(tmp_path / "link", now=NOW)
    id = one.add("seen by both", now=NOW)
    other.used(id, now=NOW + 60)
    assert one.get(id).use_count == 1, "a pending use is in the picture that both have"
    one.close()
    with pytest.raises(StoreClosed):
        one.count()
    assert other.count() == 1
    other.add("still written", now=NOW)
    other.close()
    with TierMemory.open(tmp_path / "store", now=NOW) as again:
        assert (again.count(), again.get(id).use_count) == (2, 1)


def test_a_handle_that_is_dropped_leaves_the_other(tmp_path: Path) -> None:
    one = TierMemory.open(tmp_path, now=NOW)
    other = TierMemory.open(tmp_path, now=NOW)
    del one
    other.add("goes on", now=NOW)
    other.close()
    other.close()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"durability": "normal"}, "durability"),
        ({"config": {"keywords": {"k1": 0.7}}}, "keywords.k1"),
        ({"config": {"id_seed": 3}}, "id_seed"),
    ],
)
def test_openings_that_differ_are_refused_by_name(tmp_path: Path, options: dict[str, object], name: str) -> None:
    with TierMemory.open(tmp_path, now=NOW) as mem:
        with pytest.raises(InvalidInput) as caught:
            TierMemory.open(tmp_path, now=NOW, **options)  # type: ignore[arg-type]
        assert caught.value.argument == name
        assert mem.add("not disturbed", now=NOW).created
    with TierMemory.open(tmp_path, now=NOW, **options) as mem:  # type: ignore[arg-type]
        assert mem.count() == 1


def test_seeded_handles_never_make_the_same_id(tmp_path: Path) -> None:
    config = {"id_seed": 5}
    with (
        TierMemory.open(tmp_path, config=config, now=NOW) as one,
        TierMemory.open(tmp_path, config=config, now=NOW) as two,
    ):
        ids = [mem.add(f"{number}", now=NOW) for number in range(50) for mem in (one, two)]
        assert len(set(ids)) == 50  # the same text twice is one memory
        assert (
            len({mem.add(f"{mem!r} {n} {place}", now=NOW) for n in range(9) for place, mem in enumerate((one, two))})
            == 18
        )


def test_threads_that_open_and_close_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                with TierMemory.open(tmp_path, now=NOW) as mem:
                    mem.add(f"thread {number} turn {turn}", now=NOW)
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.count() == 64
        assert mem.verify().ok


def test_a_reader_beside_a_writer(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path, now=NOW) as writer, TierMemory.open(tmp_path, read_only=True, now=NOW) as reader:
        id = writer.add("seen at once", now=NOW)
        assert reader.get(id).text == "seen at once"
        with pytest.raises(ReadOnlyStore):
            reader.add("never", now=NOW)
        writer.erase(id, now=NOW)
        with pytest.raises(MemoryNotFound):
            reader.get(id)


# ---------------------------------------------------------------------- several processes

COUNT_USES = """
import threading
mem = TierMemory.open(sys.argv[1])
print("ready", flush=True); sys.stdin.readline()
def use():
    for _ in range(int(sys.argv[3])):
        mem.used(sys.argv[2])
threads = [threading.Thread(target=use) for _ in range(16)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
mem.close()
"""


def uses(tmp_path: Path, each: int) -> None:
    with TierMemory.open(tmp_path, now=NOW) as mem:
        id = mem.add("used by many", now=NOW)
    processes = [child(COUNT_USES, tmp_path, id, each) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        answer(process)
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.get(id).use_count == 2 * 16 * each


def test_sixteen_threads_in_two_processes_lose_no_use(tmp_path: Path) -> None:
    uses(tmp_path, 100)


@pytest.mark.slow
def test_sixteen_threads_in_two_processes_lose_no_use_of_many(tmp_path: Path) -> None:
    uses(tmp_path, int(os.environ.get("TIERMEM_USES", "10000")))


MIXED = """
import random, time
mem = TierMemory.open(sys.argv[1], durability="normal")
chance = random.Random(int(sys.argv[2]))
print("ready", flush=True); sys.stdin.readline()
mine, erased = {}, []
import threading
lock = threading.Lock()
def work(number):
    chance = random.Random(f"{sys.argv[2]} {number}")
    for turn in range(int(sys.argv[3])):
        text = f"process {sys.argv[2]} thread {number} turn {turn} {chance.random()}"
        id = mem.add(text)
        with lock: mine[str(id)] = text
        kind = chance.randrange(5)
        if kind == 0: mem.used(id)
        if kind == 1: mem.update(id, importance=0.9)
        if kind == 2: assert id in mem.search(text, k=3).ids
        if kind == 3:
            mem.erase(id)
            with lock: del mine[str(id)]; erased.append(str(id))
        if kind == 4:
            mem.forget(id); mem.restore(id)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
import json
print(json.dumps([mine, erased])); mem.close()
"""


def mixed(tmp_path: Path, turns: int) -> None:
    import json

    processes = [child(MIXED, tmp_path, number, turns) for number in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [json.loads(answer(process)) for process in processes]
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        found = {item.id: item.text for item in mem.list(limit=10_000)}
        assert found == told[0][0] | told[1][0]
        for id in told[0][1] + told[1][1]:
            with pytest.raises(MemoryNotFound):
                mem.get(id)


def test_two_processes_do_everything_at_once(tmp_path: Path) -> None:
    mixed(tmp_path, 10)


@pytest.mark.slow
def test_two_processes_do_everything_at_once_for_long(tmp_path: Path) -> None:
    mixed(tmp_path, int(os.environ.get("TIERMEM_TURNS", "300")))


HOLD = """
import sqlite3
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
held.execute("select count(*) from memory").fetchall()
print("held", flush=True); sys.stdin.readline()
held.execute("rollback")
"""


def test_a_store_that_another_process_holds_is_locked_after_five_seconds(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path, now=NOW) as mem:
        mem.add("before", now=NOW)
        holder = child(HOLD, tmp_path / "memory.db", "begin immediate")
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        start = time.monotonic()
        with pytest.raises(StoreLocked) as caught:
            mem.add("not now", now=NOW)
        assert time.monotonic() - start >= 4.5
        assert caught.value.waited_ms == 5_000
        assert "memory.db" in str(caught.value.path)
        assert isinstance(caught.value, TimeoutError)
        assert mem.count() == 1
        answer(holder, "\n")
        assert mem.add("not now", now=NOW).created
        assert mem.count() == 2


def test_an_erasure_under_a_long_reader_says_so_and_is_completed_later(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path, now=NOW) as mem:
        id = mem.add("a text of the log that somebody still reads", now=NOW)
        holder = child(HOLD, tmp_path / "memory.db", "begin")
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        receipt = mem.erase(id, now=NOW)
        assert not receipt.log_emptied
        assert not receipt.complete
        assert [residue.file for residue in receipt.residues][-1] == "memory.db-wal"
        with pytest.raises(MemoryNotFound):
            mem.get(id)
        answer(holder, "\n")
        mem.maintain(now=NOW)
        (receipt,) = mem.erasures()
        assert receipt.complete
        assert receipt.completed_later
    assert b"somebody still reads" not in (tmp_path / "memory.db").read_bytes()


# ---------------------------------------------------------------------- forks

FORK = """
import warnings
warnings.simplefilter("ignore")
mem = TierMemory.open(sys.argv[1])
id = mem.add("from the parent")
pid = os.fork()
if pid == 0:
    code = 1
    try:
        try:
            mem.count()
        except StoreForked:
            fresh = TierMemory.open(sys.argv[1])
            assert fresh.get(id).text == "from the parent"
            for number in range(200):
                fresh.add(f"from the child {number}")
            fresh.close()
            del mem
            code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    os._exit(code)
for number in range(200):
    mem.add(f"from the parent {number}")
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert mem.count() == 401, mem.count()
mem.close()
"""


@posix
def test_after_a_fork_the_child_opens_afresh_and_both_write(tmp_path: Path) -> None:
    answer(child(FORK, tmp_path))
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.count() == 401
        assert mem.verify().ok


FORK_AND_CLOSE = """
import warnings
warnings.simplefilter("ignore")
mem = TierMemory.open(sys.argv[1])
mem.add("from the parent")
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    fresh = TierMemory.open(sys.argv[1])
    fresh.add("before the parent closes")
    os.write(ready[1], b"x"); os.read(go[0], 1)
    for number in range(50):
        fresh.add(f"after the parent closed {number}")
    fresh.close()
    os._exit(0)
os.read(ready[0], 1)
mem.close()
os.write(go[1], b"x")
_, status = os.waitpid(pid, 0)
assert status == 0, status
"""


@posix
def test_a_parent_that_closes_takes_nothing_from_the_child(tmp_path: Path) -> None:
    """SQLite remembers locks by process; a child that inherited them must not believe in them."""
    answer(child(FORK_AND_CLOSE, tmp_path))
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.count() == 52
        assert mem.verify().ok


# ---------------------------------------------------------------------- the disk says no

FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
mem = TierMemory.open(sys.argv[1])
kept = [mem.add("before the disk is full")]
size = sum(os.path.getsize(os.path.join(sys.argv[1], name)) for name in os.listdir(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000, resource.RLIM_INFINITY))
try:
    for number in range(10_000):
        kept.append(mem.add(f"memory {number} " + "x" * 1_000))
except DurabilityError as error:
    assert isinstance(error, OSError)
else:
    sys.exit("the limit was never met")
assert mem.count() == len(kept), (mem.count(), len(kept))
assert mem.get(kept[-1]).id == kept[-1]
assert mem.search("before the disk").ids[0] == kept[0]
for call in (lambda: mem.add("no more"), lambda: mem.forget(kept[0]), lambda: mem.erase(kept[0])):
    try:
        call()
    except ReadOnlyStore:
        continue
    sys.exit("a poisoned handle wrote")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    mem.close()
except StorageError:
    pass
print(*kept)
"""


@posix
def test_a_full_disk_stops_the_handle_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kept = answer(child(FULL, tmp_path)).split()
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        found = [item.id for item in mem.list(limit=10_000)]
        assert found[: len(kept)] == kept
        assert len(found) <= len(kept) + 1, "the write that failed may be there, nothing else"
        assert mem.add("there is room again", now=NOW).created


@posix
def test_a_directory_that_is_deleted_is_noticed(tmp_path: Path) -> None:
    mem = TierMemory.open(tmp_path / "store", now=NOW)
    id = mem.add("before", now=NOW)
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(DurabilityError, match="deleted or replaced"):
        mem.add("into the void", now=NOW)
    with pytest.raises(ReadOnlyStore):
        mem.add("again", now=NOW)
    assert mem.get(id).text == "before"
    assert not (tmp_path / "store").exists()


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_without_rights(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with TierMemory.open(store, now=NOW) as mem:
        mem.add("before", now=NOW)
    store.chmod(0o500)
    try:
        with pytest.raises(StorageError):
            TierMemory.open(store / "new", now=NOW)
        with TierMemory.open(store, read_only=True, now=NOW) as mem:
            assert mem.count() == 1
    finally:
        store.chmod(0o700)


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no directory")
    with pytest.raises(StorageError):
        TierMemory.open(tmp_path / "store", now=NOW)


def test_history_tells_each_change_with_its_time_and_actor() -> None:
    mem = TierMemory.open()
    vector = np.ones(8, np.float32)
    first = mem.add("Anna works for the bakery on Main Street", source="tool", vector=vector, now=NOW)
    mem.add("Anna works for the bakery on Main Street", source="user", now=NOW + 1)
    mem.update(first, importance=0.9, private={"phone": "555-0100"}, now=NOW + 2)
    mem.forget(first, now=NOW + 3)
    mem.restore(first, now=NOW + 4)
    mem.add("Anna works for the bakery on Main Street.", vector=vector, now=NOW + 5)
    (merged,) = mem.consolidate(now=NOW + 6).merged
    new = mem.supersede(merged.id, "Anna left the bakery", now=NOW + 7)
    told = [(entry["kind"], entry["actor"], entry["at"].timestamp() - NOW) for entry in mem.history(first)]
    assert told[:5] == [
        ("created", "tool", 0),
        ("told_again", "user", 1),
        ("update", "owner", 2),
        ("forget", "owner", 3),
        ("restore", "owner", 4),
    ]
    assert mem.history(first)[2]["detail"] == {"fields": ["importance", "private"]}
    assert "555-0100" not in str(mem.history(first))
    assert mem.history(new)[0]["detail"] == {"source": "tool", "supersedes": merged.id}
    assert mem.history(merged.id)[-1]["detail"] == {"by": new}
    (absorbed,) = merged.absorbed
    assert mem.history(absorbed)[-1]["kind"] == "merge"


def test_a_directory_in_the_place_of_a_deleted_one_is_another_store(tmp_path: Path) -> None:
    """The file system may give the number of a deleted directory to the next one, while somebody still holds the first."""
    held = []
    for turn in range(20):
        place = tmp_path / "store"
        mem = TierMemory.open(place, now=NOW)
        assert mem.count(now=NOW) == 0
        mem.add(f"turn {turn}", now=NOW)
        held.append(mem)
        shutil.rmtree(place)
