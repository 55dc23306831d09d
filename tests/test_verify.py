"""Damage that a second tool writes into the file: named, never served as if it were sound, and repaired around."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiermem_fast import CorruptStore, InvalidInput, MemoryNotFound, TierMemory

NOW = 1_700_000_000.0
COUNT = 60
DIMENSION = 32


def vector(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)


def half_bytes(number: int) -> bytes:
    """A vector as it lies in the file: of length 1, f16."""
    values = vector(number)
    return bytes((values / np.linalg.norm(values)).astype(np.float16).tobytes())


def text(number: int) -> str:
    return f"memory number {number:04} says something"


def make(store: Path) -> list[str]:
    with TierMemory.open(store, now=NOW) as mem:
        items = [
            {
                "text": text(number),
                "session": f"session of {number:04}",
                "metadata": {"note": f"metadata of {number:04}"},
                "private": {"phone": f"private of {number:04}"},
                "idempotency_key": f"key of {number:04}",
            }
            for number in range(COUNT)
        ]
        ids = mem.add_many(items, vectors=np.stack([vector(number) for number in range(COUNT)]), now=NOW)
        mem.update(ids[3], importance=0.9, now=NOW)
        return [str(id) for id in ids]


def flip(store: Path, value: bytes, bit: int = 0) -> None:
    """Turn one bit of a value where it lies. The store is closed, so its bytes are nobody's."""
    path = store / "memory.db"
    data = bytearray(path.read_bytes())
    place = data.find(value)
    assert place >= 0
    assert data.find(value, place + 1) < 0
    data[place + bit // 8 % len(value)] ^= 1 << bit % 8
    path.write_bytes(data)


PLACES = {
    "text": lambda number: text(number).encode(),
    "vector": half_bytes,
    "metadata": lambda number: f"metadata of {number:04}".encode(),
    "private": lambda number: f"private of {number:04}".encode(),
    "head": lambda number: f"session of {number:04}".encode(),
}


@pytest.mark.parametrize("place", PLACES)
def test_one_flipped_bit_is_named_and_never_served(tmp_path: Path, place: str) -> None:
    ids = make(tmp_path)
    chosen = random.Random(place).sample(range(COUNT), 3)
    for number in chosen:
        flip(tmp_path, PLACES[place](number), bit=8 * 4 + number % 8)
    broken = {ids[number] for number in chosen}
    with TierMemory.open(tmp_path, now=NOW) as mem:
        report = mem.verify()
        assert not report.ok
        assert {damaged.id for damaged in report.damaged} == broken
        assert report.sound == COUNT - 3
        assert mem.stats().damaged.keys() == broken
        for number in chosen:
            with pytest.raises(CorruptStore, match=ids[number]):
                mem.get(ids[number])
            assert ids[number] not in mem.search(text(number), k=COUNT).ids
            assert ids[number] not in mem.search(vector=vector(number), k=COUNT).ids
        assert {item.id for item in mem.list(limit=1_000)} == set(ids) - broken

        fixed = mem.verify(repair=True)
        assert fixed.repaired
        lost, bare = {one.id for one in fixed.lost}, {one.id for one in fixed.without_vector}
        assert (lost, bare) == ((set(), broken) if place == "vector" else (broken, set()))
        assert mem.verify().ok
        assert mem.stats().damaged == {}
        for number, id in enumerate(ids):
            if id in lost:
                with pytest.raises(MemoryNotFound):
                    mem.get(id)
            else:
                item = mem.get(id, grant={"fields": ["phone"]})
                assert (item.text, item.session) == (text(number), f"session of {number:04}")
                assert item.private == {"phone": f"private of {number:04}"}
        if ids[3] not in lost:
            assert [entry["kind"] for entry in mem.history(ids[3])] == ["created", "update"]
        assert fixed.kept_aside is not None
        again = mem.add(text(chosen[0]), session="new", now=NOW)
        assert again.created
    # The file as it was is a store too, as damaged as before.
    aside = tmp_path / "aside"
    aside.mkdir()
    Path(fixed.kept_aside).rename(aside / "memory.db")
    assert {damaged.id for damaged in TierMemory.check(aside).damaged} == broken
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        assert mem.count() == COUNT - len(lost) + 1


def test_nothing_to_repair_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path)
    with TierMemory.open(tmp_path, now=NOW) as mem:
        commit = mem.stats().commit
        report = mem.verify(repair=True)
        assert report.ok
        assert not report.repaired
        assert mem.stats().commit == commit
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


def test_discard_keeps_no_copy(tmp_path: Path) -> None:
    make(tmp_path)
    flip(tmp_path, text(5).encode())
    with TierMemory.open(tmp_path, now=NOW) as mem:
        report = mem.verify(repair=True, discard=True)
        assert report.repaired
        assert report.kept_aside is None
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


def test_stray_files_are_listed_and_left_alone(tmp_path: Path) -> None:
    make(tmp_path)
    names = [".memory.db.swp", "memory.db-journal.bak", "derived.lock", "readme"]
    for name in names:
        (tmp_path / name).write_text("not ours")
    with TierMemory.open(tmp_path, now=NOW) as mem:
        report = mem.verify()
        assert report.ok
        assert sorted(report.strays) == sorted(names)
        assert mem.count() == COUNT


@pytest.mark.parametrize("seed", range(12))
def test_a_page_of_zeroes_costs_only_what_was_on_it(tmp_path: Path, seed: int) -> None:
    """Whatever page is lost: no crash, no wrong answer, and what is kept is as it was written."""
    ids = make(tmp_path)
    path = tmp_path / "memory.db"
    data = bytearray(path.read_bytes())
    page = random.Random(seed).randrange(2, len(data) // 4096 + 1)
    data[(page - 1) * 4096 : page * 4096] = bytes(4096)
    path.write_bytes(data)
    try:
        report = TierMemory.check(tmp_path)
    except CorruptStore:
        # The page said where the tables lie: then the file is refused, whatever is asked of it.
        for call in (lambda: TierMemory.check(tmp_path, repair=True), lambda: TierMemory.open(tmp_path, now=NOW)):
            with pytest.raises(CorruptStore):
                call()
        return
    fixed = TierMemory.check(tmp_path, repair=True)
    assert fixed.repaired == (not report.ok)
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        kept = {item.id: item for item in mem.list(limit=1_000)}
        assert len(kept) == COUNT - len(fixed.lost)
        for number, id in enumerate(ids):
            if id in kept:
                assert kept[id].text == text(number)
                assert kept[id].metadata == {"note": f"metadata of {number:04}"}


def test_a_damaged_head_of_the_file_is_told(tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / "memory.db"
    data = bytearray(path.read_bytes())
    data[:16] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(CorruptStore):
        TierMemory.open(tmp_path, now=NOW)
    with pytest.raises(CorruptStore):
        TierMemory.check(tmp_path, repair=True)


def test_repair_beside_another_process(tmp_path: Path) -> None:
    ids = make(tmp_path)
    flip(tmp_path, text(9).encode())
    code = (
        "import sys; from tiermem_fast import TierMemory\n"
        "mem = TierMemory.open(sys.argv[1]); print(mem.count(), flush=True); sys.stdin.readline()\n"
        "print(mem.count(), mem.add('after the repair').created, mem.verify().ok, flush=True)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    with other, TierMemory.open(tmp_path, now=NOW) as mem:
        assert other.stdout is not None
        assert other.stdout.readline() == f"{COUNT - 1}\n"
        assert mem.verify(repair=True).repaired
        answer, _ = other.communicate("\n")
        assert answer == f"{COUNT - 1} True True\n"
        assert mem.count() == COUNT
        assert mem.get(ids[8]).text == text(8)
    with TierMemory.open(tmp_path, now=NOW) as mem:
        assert mem.verify().ok
        assert mem.count() == COUNT


def test_a_store_in_ram_is_verified_and_has_no_file_to_repair() -> None:
    mem = TierMemory.open()
    mem.add("sound", now=NOW)
    assert mem.verify().ok
    assert not mem.verify(repair=True).repaired


def test_repair_is_refused_to_a_reader(tmp_path: Path) -> None:
    make(tmp_path)
    with TierMemory.open(tmp_path, read_only=True, now=NOW) as mem:
        assert mem.verify().ok
        with pytest.raises(OSError, match="read-only"):
            mem.verify(repair=True)


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        connection.execute("create table notes (text)")
    connection.close()
    with pytest.raises(CorruptStore, match="another program"):
        TierMemory.check(tmp_path, repair=True)
    with pytest.raises((CorruptStore, InvalidInput)):
        TierMemory.open(tmp_path, now=NOW)
