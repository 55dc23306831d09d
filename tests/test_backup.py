"""Backups made while others write, and restored: consistent, verified, refused rather than half done."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from tiermem_fast import CorruptStore, InvalidInput, StorageError, TierMemory

NOW = 1_700_000_000.0


def fill(mem: TierMemory, count: int, word: str = "memory") -> list[str]:
    vectors = np.random.default_rng(count).standard_normal((count, 16)).astype(np.float32)
    return [str(id) for id in mem.add_many([f"{word} {number}" for number in range(count)], vectors=vectors, now=NOW)]


def test_a_backup_is_a_store(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        ids = fill(mem, 100)
        mem.used(ids[:3], now=NOW + 60)
        steps: list[tuple[int, int]] = []
        report = mem.backup(
            tmp_path / "deep" / "copy", progress=lambda done, total: steps.append((done, total)), now=NOW + 100
        )
        mem.add("after the backup", now=NOW)
        assert steps
        assert steps[-1][0] == steps[-1][1] > 0
        assert (report.memories, report.at.timestamp()) == (100, NOW + 100)
        assert Path(report.path) == tmp_path / "deep" / "copy"
        assert report.bytes == (tmp_path / "deep" / "copy" / "memory.db").stat().st_size
    with TierMemory.open(tmp_path / "deep" / "copy", now=NOW) as copy:
        assert copy.stats().commit == report.commit
        assert copy.verify().ok
        assert [item.id for item in copy.list(limit=1_000)] == ids
        assert copy.get(ids[0]).use_count == 1, "uses that were pending are in it"


def test_a_directory_with_a_store_is_refused(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem, TierMemory.open(tmp_path / "other", now=NOW) as other:
        fill(other, 3)
        with pytest.raises(InvalidInput, match="exists already"):
            mem.backup(tmp_path / "other")
        with pytest.raises(InvalidInput):
            mem.backup(tmp_path / "store")
        assert other.count() == 3


def test_a_damaged_store_makes_no_backup(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        fill(mem, 50)
    path = tmp_path / "store" / "memory.db"
    path.write_bytes(path.read_bytes().replace(b"memory 17", b"memory 71", 1))
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        with pytest.raises(CorruptStore):
            mem.backup(tmp_path / "copy")
        assert not (tmp_path / "copy" / "memory.db").exists()
        assert list((tmp_path / "copy").iterdir()) == []


def test_backups_while_threads_write_show_one_moment(tmp_path: Path) -> None:
    """Each writer adds pairs in one call: a backup holds both of a pair or none, and all that was there before it."""
    with TierMemory.open(tmp_path / "store", durability="normal", now=NOW) as mem:
        stop = threading.Event()
        written = [0] * 4

        def write(number: int) -> None:
            while not stop.is_set() and written[number] < 2_000:
                mem.add_many([f"left {number} {written[number]}", f"right {number} {written[number]}"], now=NOW)
                written[number] += 1

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(3):
                before = sum(written)
                report = mem.backup(tmp_path / f"copy {turn}", now=NOW)
                assert report.memories % 2 == 0
                assert report.memories >= 2 * before
                assert mem.verify().ok, "looking at everything holds nobody up"
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert mem.count() == 2 * sum(written)
    for turn in range(3):
        with TierMemory.open(tmp_path / f"copy {turn}", now=NOW) as copy:
            assert copy.verify().ok
            texts = {row["text"] for row in copy.sql("select text from content", limit=10_000)}
            left = {text.removeprefix("left") for text in texts if text.startswith("left")}
            right = {text.removeprefix("right") for text in texts if text.startswith("right")}
            assert left == right


def test_restored_into_a_new_place(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        ids = fill(mem, 20)
        mem.backup(tmp_path / "copy", now=NOW)
    report = TierMemory.restore_backup(tmp_path / "copy", tmp_path / "new")
    assert report.memories == 20
    with TierMemory.open(tmp_path / "new", now=NOW) as mem:
        assert [item.id for item in mem.list()] == ids
        assert mem.add("goes on", now=NOW).created


def test_a_store_is_replaced_only_when_asked_and_in_front_of_its_users(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        ids = fill(mem, 20)
        mem.backup(tmp_path / "copy", now=NOW)
        mem.forget(ids[:15], now=NOW)
        mem.add_many([f"later {number}" for number in range(200)], now=NOW)
        with pytest.raises(InvalidInput, match="exists already"):
            TierMemory.restore_backup(tmp_path / "copy", tmp_path / "store")
        assert mem.count() == 205
        TierMemory.restore_backup(tmp_path / "copy", tmp_path / "store", replace=True)
        assert mem.count() == 20
        assert [item.id for item in mem.list()] == ids
        assert mem.search("later").texts == []
        assert mem.add("goes on", now=NOW).created
        assert mem.verify().ok
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        assert mem.count() == 21


def test_a_damaged_backup_replaces_nothing(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        fill(mem, 20)
        mem.backup(tmp_path / "copy", now=NOW)
        path = tmp_path / "copy" / "memory.db"
        path.write_bytes(path.read_bytes().replace(b"memory 17", b"memory 71", 1))
        for place, replace in (("store", True), ("new", False)):
            with pytest.raises(CorruptStore):
                TierMemory.restore_backup(tmp_path / "copy", tmp_path / place, replace=replace)
        assert mem.count() == 20
        assert mem.verify().ok
        assert not (tmp_path / "new" / "memory.db").exists()


def test_no_backup_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        TierMemory.restore_backup(tmp_path / "nothing", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_reader_can_back_up(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        fill(mem, 5)
    with TierMemory.open(tmp_path / "store", read_only=True, now=NOW) as mem:
        assert mem.backup(tmp_path / "copy", now=NOW).memories == 5


def test_compaction_makes_the_file_small_and_undo_impossible(tmp_path: Path) -> None:
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        ids = fill(mem, 2_000)
        keep = mem.supersede(ids[-1], "says it anew", now=NOW)
        mem.forget(ids[:1_500], now=NOW)
        report = mem.compact(now=NOW + 1)
        assert (report.forgotten, report.merged) == (1_500, 0)
        assert report.bytes_after < report.bytes_before / 2
        assert mem.count() == 499 + 1
        with pytest.raises(KeyError):
            mem.restore(ids[0], now=NOW)
        assert mem.get(ids[-1]).superseded_by == keep, "what was superseded stays readable"
        assert mem.verify().ok
