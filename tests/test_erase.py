"""Erasure: 300 canaries in every place a memory has, found in no byte of any file, however far the call came."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tiermem_fast import ErasureReceipt, InvalidInput, MemoryNotFound, TierMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_700_000_000.0
DIMENSION = 64
CANARIES = 300
STEPS = ("rows", "log", "picture", "derived", "scan", "receipt")


def secret(place: str, number: int) -> str:
    """A text that is found nowhere by chance."""
    return f'{place} 秘密 "{number:05}" {(number * 0x9E3779B97F4A7C15) % 2**64:016x}'


def vectors(numbers: range) -> np.ndarray:
    return np.stack([np.random.default_rng(number).standard_normal(DIMENSION) for number in numbers]).astype(np.float32)


def item(number: int) -> dict[str, Any]:
    return {
        "text": secret("text", number)
        if number % 10
        else secret("text", number) + " long" * 2_000 + secret("end", number),
        "session": secret("session", number // 3),
        "about": secret("about", number),
        "tags": [secret("tag", number)],
        "metadata": {"note": secret("metadata", number)},
        "private": {"phone": secret("private", number)},
        "idempotency_key": secret("key", number),
    }


PLACES = ("text", "end", "about", "tag", "metadata", "private", "key", "replaced", "old")


def fill(mem: TierMemory, numbers: range) -> list[str]:
    ids = [str(id) for id in mem.add_many([item(number) for number in numbers], vectors=vectors(numbers), now=NOW)]
    for number, id in zip(numbers, ids, strict=True):
        if number % 4 == 0:
            # What a memory held before is erased with it.
            mem.update(id, private={"phone": secret("replaced", number)}, metadata={"note": "none"}, now=NOW)
    return ids


def needles(numbers: Iterator[int] | range) -> list[bytes]:
    """Every form in which something of these memories may lie in a file."""
    found: list[bytes] = []
    for number in numbers:
        for place in PLACES:
            value = secret(place, number)
            for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
                found += [form.encode(), form.encode("utf-16-le")]
        # The core keeps vectors of length 1, as f16; codes are the f16 values over the largest of them.
        vector = vectors(range(number, number + 1))[0]
        halves = (vector / np.linalg.norm(vector)).astype(np.float16)
        floats = halves.astype(np.float32)
        codes = np.rint(floats * (127.0 / np.abs(floats).max())).astype(np.int8)
        found += [vector.tobytes(), halves.tobytes(), floats.tobytes(), codes.tobytes()]
    return found


def contents(directory: Path) -> dict[str, bytes]:
    """All bytes of all files. Call with the store closed: another descriptor would drop SQLite's locks."""
    files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    # No value that is looked for has so many zeroes, and Python searches them slowly.
    return {name: re.sub(rb"\0{64,}", bytes(64), data) for name, data in files.items()}


def residues(directory: Path, numbers: range) -> list[tuple[str, bytes]]:
    files = contents(directory)
    return [(name, needle[:40]) for needle in needles(numbers) for name, data in files.items() if needle in data]


def count_of(directory: Path, numbers: range) -> int:
    return len(residues(directory, numbers))


def test_the_search_of_this_test_finds_what_is_there(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        fill(mem, range(20))
    # Six places of twenty memories, some of which were replaced, and the f16 vectors.
    assert count_of(tmp_path / "store", range(20)) > 120


@pytest.mark.parametrize("way", ["ids", "session", "where", "everything"])
def test_canaries_are_gone_from_every_byte(tmp_path: Path, way: str) -> None:
    store = tmp_path / "store"
    kept = range(CANARIES, CANARIES + 50)
    with TierMemory.open(store, now=NOW) as mem:
        ids = fill(mem, range(CANARIES))
        kept_ids = fill(mem, kept)
        mem.forget(ids[:20], now=NOW)
        mem.used(ids[30:50], now=NOW)
        if way == "ids":
            receipts = [mem.erase(ids, now=NOW)]
        elif way == "session":
            receipts = [mem.erase(session=secret("session", number), now=NOW) for number in range(0, CANARIES // 3, 25)]
            receipts.append(mem.erase(where={"session": [secret("session", n) for n in range(CANARIES // 3)]}, now=NOW))
        elif way == "where":
            receipts = [mem.erase(where={"about": [secret("about", number) for number in range(CANARIES)]}, now=NOW)]
        else:
            receipts = [mem.erase(everything=True, now=NOW)]
        assert sum(receipt.erased for receipt in receipts) == CANARIES + (len(kept) if way == "everything" else 0)
        for receipt in receipts:
            assert receipt.complete, receipt
            assert receipt.residues == ()
            assert receipt.searched > 0
            assert receipt.files >= 2
            assert receipt.bytes > 0
        for id in ids:
            with pytest.raises(MemoryNotFound):
                mem.get(id)
            with pytest.raises(MemoryNotFound):
                mem.history(id)
        assert mem.search(secret("text", 7)).ids == [] or secret("text", 7) not in mem.search(secret("text", 7)).texts
        again = mem.add("new", idempotency_key=secret("key", 7), now=NOW)
        assert again.created
    assert residues(store, range(8, CANARIES)) == []
    with TierMemory.open(store, now=NOW) as mem:
        assert mem.verify().ok
        if way != "everything":
            assert [mem.get(id).text for id in kept_ids] == [item(number)["text"] for number in kept]
            assert mem.search(vector=vectors(kept)[3], k=1).ids == [kept_ids[3]]
        assert mem.erasures() == receipts


def test_derived_files_that_held_canaries_are_gone_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    plain = [f"plain memory {number} of the others" for number in range(1_500)]
    with TierMemory.open(store, durability="normal", now=NOW) as mem:
        mem.add_many(plain, vectors=vectors(range(1_000, 2_500)), now=NOW)
        ids = fill(mem, range(100))
    derived = {name for name in contents(store) if name.startswith("derived")}
    assert len(derived) >= 4, derived
    assert any(name in derived for name, _ in residues(store, range(100))), "the files do hold something to be erased"
    with TierMemory.open(store, durability="normal", now=NOW) as mem:
        receipt = mem.erase(ids, now=NOW)
        assert receipt.complete, receipt
        assert mem.search("plain memory 7 of the others", k=1).texts == [plain[7]]
        assert mem.search(vector=vectors(range(1_007, 1_008))[0], k=1).texts == [plain[7]]
    assert residues(store, range(100)) == []
    with TierMemory.open(store, durability="normal", now=NOW) as mem:
        assert mem.count() == 1_500
        assert mem.verify().ok
    assert residues(store, range(100)) == []


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import test_erase as t
from tiermem_fast import TierMemory

store, step = sys.argv[2], sys.argv[3]
mem = TierMemory.open(store, now=t.NOW)
fill = t.fill(mem, range(t.CANARIES + 20))
print("filled", flush=True)

def progress(done):
    print(done, flush=True)
    if done == step:
        os.kill(os.getpid(), signal.SIGKILL)

mem.erase(fill[:t.CANARIES], progress=progress, now=t.NOW)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_next_open_completes_it(tmp_path: Path, step: str) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(store), step]
    child = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert child.stdout.split() == ["filled", *STEPS[: STEPS.index(step) + 1]]
    with TierMemory.open(store, now=NOW) as mem:
        (receipt,) = mem.erasures()
        assert receipt.complete
        assert receipt.erased == CANARIES
        assert receipt.completed_later == (step != "receipt")
        assert mem.count() == 20
        assert mem.verify().ok
    assert residues(store, range(CANARIES)) == []
    assert count_of(store, range(CANARIES, CANARIES + 20)) > 100


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
import test_erase as t
from tiermem_fast import TierMemory

mem = TierMemory.open(sys.argv[2], now=t.NOW)
ids = t.fill(mem, range(60))
print("ready", flush=True)
sys.stdin.readline()
mem.erase(ids[:50], now=t.NOW)
print("erased", flush=True)
sys.stdin.readline()
"""


def kill_at_random(tmp_path: Path, delay: float) -> None:
    """Kill a process some time after it began to erase: either nothing is gone, or the next open leaves nothing."""
    store = tmp_path / "store"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(store)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.stdin.write("\n")
    child.stdin.flush()
    try:
        child.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        child.kill()
    acknowledged = "erased" in child.stdout.read()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    with TierMemory.open(store, now=NOW) as mem:
        left = mem.count()
        assert left in ({10} if acknowledged else {10, 60})
        assert mem.verify().ok
    if left == 10:
        assert residues(store, range(50)) == []


def test_killed_at_random_instants(tmp_path: Path) -> None:
    for number in range(4):
        kill_at_random(tmp_path / str(number), delay=0.002 + 0.009 * number)


@pytest.mark.slow
def test_killed_at_many_random_instants(tmp_path: Path) -> None:
    for number in range(int(os.environ.get("TIERMEM_KILLS", "300"))):
        kill_at_random(tmp_path / str(number), delay=0.0005 * (number % 120))


def test_what_was_made_from_erased_memories() -> None:
    mem = TierMemory.open()
    source, other = mem.add("source one", now=NOW), mem.add("source two", now=NOW)
    alone = mem.add("made from one", derived_from=[source], now=NOW)
    both = mem.add("made from both", derived_from=[source, other], now=NOW)
    receipt = mem.erase(ids=source, now=NOW)
    assert (receipt.asked, receipt.erased) == (1, 2)
    assert [review.id for review in receipt.review] == [both]
    with pytest.raises(MemoryNotFound):
        mem.get(alone)
    assert mem.get(both).derived_from == (other,)
    assert mem.erase(ids=[other], cascade="all", now=NOW).erased == 2
    assert mem.count() == 0


def test_a_duplicate_goes_with_the_memory_it_was_folded_into() -> None:
    mem = TierMemory.open()
    vector = vectors(range(1))[0]
    first = mem.add("Anna works for the bakery on Main Street", vector=vector, now=NOW)
    second = mem.add("Anna works for the bakery on Main Street.", vector=vector, now=NOW)
    (merged,) = mem.consolidate(now=NOW).merged
    assert {merged.id, *merged.absorbed} == {first, second}
    (absorbed,) = merged.absorbed
    receipt = mem.erase(absorbed, now=NOW)
    assert [review.id for review in receipt.review] == [merged.id]
    assert receipt.erased == 1
    mem = TierMemory.open()
    mem.add("Anna works for the bakery on Main Street", vector=vector, now=NOW)
    mem.add("Anna works for the bakery on Main Street.", vector=vector, now=NOW)
    (merged,) = mem.consolidate(now=NOW).merged
    assert mem.erase(merged.id, now=NOW).erased == 2
    assert mem.sql("select count(*) as n from memory") == [{"n": 0}]


def test_backups_that_may_still_hold_it_are_named(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        id = mem.add("a secret for a backup", now=NOW)
        mem.backup(tmp_path / "one", now=NOW + 1)
        mem.backup(tmp_path / "two", now=NOW + 2)
        (tmp_path / "two" / "memory.db").unlink()
        (tmp_path / "two").rmdir()
        mem.snapshot(tmp_path / "three.tiermem", now=NOW + 3)
        receipt = mem.erase(id, now=NOW + 3)
        assert [Path(backup.path).name for backup in receipt.backups] == ["one", "three.tiermem"]
        assert receipt.backups[0].at.timestamp() == NOW + 1
        assert receipt.complete, "a backup elsewhere is no residue here"


def test_a_receipt_holds_nothing_of_what_was_erased_and_is_sealed(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        mem.add(secret("text", 1), session=secret("session", 1), now=NOW)
        receipt = mem.erase(session=secret("session", 1), now=NOW)
        assert "秘密" not in receipt.model_dump_json()
        assert receipt.digest == receipt.expected_digest()
        assert ErasureReceipt.model_validate_json(receipt.model_dump_json()) == receipt
        assert receipt.model_copy(update={"erased": 7}).expected_digest() != receipt.digest


def test_a_copy_that_somebody_left_in_the_directory_is_told(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        id = mem.add(secret("text", 1), now=NOW)
        (tmp_path / "store" / "notes.txt").write_text("see " + secret("text", 1), encoding="utf-8")
        receipt = mem.erase(id, now=NOW)
        assert not receipt.complete
        assert [residue.file for residue in receipt.residues] == ["notes.txt"]


def test_short_values_are_counted_as_not_looked_for() -> None:
    mem = TierMemory.open()
    receipt = mem.erase(mem.add("tea", now=NOW), now=NOW)
    assert (receipt.erased, receipt.unsearched) == (1, 1)


def test_the_lexical_embedder_forgets_its_words(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", embedder="lexical", now=NOW) as mem:
        ids = mem.add_many([secret("text", number) for number in range(50)], now=NOW)
        assert any(isinstance(one, str) and one == "秘密" for one in cached_words())
        assert mem.erase(ids, now=NOW).complete
        assert cached_words() == []
    assert all(
        secret("text", number).encode() not in data for number in range(50) for data in contents(tmp_path).values()
    )


def cached_words() -> list[object]:
    """Return the words in the cache, which only the garbage collector can list."""
    from tiermem_fast.embedding import _features

    info = _features.cache_info()
    if info.currsize == 0:
        return []
    gc.collect()
    return [key[0] for holder in gc.get_referents(_features) if isinstance(holder, dict) for key in holder]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "erase"),
        ({"ids": [], "everything": True}, "erase"),
        ({"ids": [], "session": "s"}, "erase"),
        ({"where": {}}, "where"),
        ({"session": ""}, "session"),
        ({"session": "s", "cascade": "some"}, "cascade"),
    ],
)
def test_what_is_not_clear_erases_nothing(arguments: dict[str, Any], argument: str) -> None:
    mem = TierMemory.open()
    mem.add("stays", now=NOW)
    with pytest.raises(InvalidInput) as caught:
        mem.erase(**arguments, now=NOW)
    assert caught.value.argument == argument
    assert mem.count() == 1


def test_nothing_to_erase_is_no_commit(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path, now=NOW) as mem:
        mem.add("stays", now=NOW)
        commit = mem.stats().commit
        receipt = mem.erase(session="nobody", now=NOW)
        assert (receipt.erased, receipt.complete, receipt.commit) == (0, True, 0)
        assert mem.stats().commit == commit


def test_what_progress_raises_comes_after_the_erasure(tmp_path: Path) -> None:
    def fail(step: str) -> None:
        raise RuntimeError(step)

    with TierMemory.open(tmp_path, now=NOW) as mem:
        id = mem.add(secret("text", 1), now=NOW)
        with pytest.raises(RuntimeError, match="rows"):
            mem.erase(id, progress=fail, now=NOW)
        (receipt,) = mem.erasures()
        assert receipt.complete
