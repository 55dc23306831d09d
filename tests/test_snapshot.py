"""Snapshots: a store comes back to the bit, and a file that is not whole, or not ours, makes nothing."""

import hashlib
import importlib.util
import json
import os
import pickle
import shutil
import sqlite3
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import (
    CorruptStore,
    InvalidInput,
    ModelMismatch,
    NewerFormat,
    StorageError,
    StoreClosed,
    TiermemError,
    TierMemory,
    snapshot,
)

FIXTURES = Path(__file__).parent / "fixtures"
NOW = 1_767_225_600.0
DAMAGE = (CorruptStore, InvalidInput)
EVERYTHING = {"labels": ["contact", "health"], "fields": ["phone", "key"]}


def load_build() -> Any:
    spec = importlib.util.spec_from_file_location("fixtures_build", FIXTURES / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build: Any = load_build()
EVENTS = len(json.loads((FIXTURES / build.EXPECTED).read_text("utf-8"))["events"])


@pytest.fixture
def filled() -> Iterator[TierMemory]:
    """A store in RAM with something of every kind."""
    with TierMemory.open(config={"id_seed": 1}, now=NOW - 100 * build.DAY) as mem:
        build.fill(mem)
        yield mem


@pytest.fixture
def file(filled, tmp_path) -> Path:
    """A snapshot of it."""
    path: Path = tmp_path / "x.tiermem"
    filled.snapshot(path, now=NOW)
    return path


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


def frames(data: bytes) -> list[list[Any]]:
    """Name, number, payload and digest of each frame."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    return list(unpacker)


def forged(parts: list[tuple[str, bytes]]) -> bytes:
    """A file of these frames whose numbers and digests are all right."""
    data, digest = b"", b""
    for number, (name, payload) in enumerate(parts):
        head = b"\x94" + msgpack.packb(name) + b"\xce" + number.to_bytes(4, "big")
        head += b"\xc6" + len(payload).to_bytes(4, "big")
        digest = hashlib.blake2b(digest + head + payload, digest_size=16).digest()
        data += head + payload + b"\xc4\x10" + digest
    return data


def parts_of(path: Path) -> list[tuple[str, bytes]]:
    return [(name, payload) for name, _, payload, _ in frames(path.read_bytes())]


def changed(path: Path, part: str, **columns: Any) -> bytes:
    """The file with other columns in one part, and all digests made anew; ``None`` takes a column away."""
    forge = []
    for name, payload in parts_of(path):
        values = msgpack.unpackb(payload)
        if name == part:
            values = {key: value for key, value in {**values, **columns}.items() if value is not None}
        forge.append((name, msgpack.packb(values)))
    return forged(forge)


def refused(data: bytes, tmp_path: Path, *errors: type[TiermemError]) -> TiermemError:
    """Restore from these bytes, see that it is refused and that nothing was made of it."""
    file, target = tmp_path / "hostile", tmp_path / "target"
    file.write_bytes(data)
    before = names(tmp_path)
    with pytest.raises(errors or DAMAGE) as caught:
        TierMemory.from_snapshot(file, target, now=NOW)
    assert names(tmp_path) == before
    return caught.value


class TestRoundTrip:
    def test_everything_comes_back(self, filled, file, tmp_path):
        with TierMemory.from_snapshot(file, tmp_path / "copy", now=NOW) as copy:
            assert build.contents(copy) == build.contents(filled)
            assert copy.verify().ok
            listed = filled.list(grant=EVERYTHING, now=NOW)
            assert len(listed) == 7
            assert copy.list(grant=EVERYTHING, now=NOW) == listed
            for item in listed:
                assert copy.history(item.id) == filled.history(item.id)
            question = np.ones(4, np.float32)
            for mem in (copy, filled):
                mem.maintain(now=NOW)
            one, two = (mem.search("Director jazz", vector=question, k=9, now=NOW) for mem in (filled, copy))
            assert one.ids == two.ids
            assert one.scores.tolist() == two.scores.tolist()

    def test_into_ram(self, filled, file):
        with TierMemory.from_snapshot(file, now=NOW) as copy:
            assert copy.path is None
            assert build.contents(copy) == build.contents(filled)
            assert copy.search("jazz", now=NOW).texts == filled.search("jazz", now=NOW).texts

    def test_the_copy_goes_on_living(self, file, tmp_path):
        with TierMemory.from_snapshot(file, tmp_path / "copy", now=NOW) as copy:
            forgotten = copy.sql("select id from memories where state = 'forgotten'")[0]["id"]
            copy.restore(forgotten, now=NOW)
            assert copy.get(forgotten, now=NOW).text == "The wifi is down"
            again = copy.add("Likes jazz", tier="episodic", session="s1", idempotency_key="call 1", now=NOW)
            assert (again.created, again.reinforced) == (False, False)
            new = copy.add("Lives in Rome", now=NOW)
        with TierMemory.open(tmp_path / "copy", now=NOW) as reopened:
            assert reopened.get(new, now=NOW).text == "Lives in Rome"

    def test_a_copy_of_the_copy_is_the_same_file(self, file, tmp_path):
        with TierMemory.from_snapshot(file, tmp_path / "copy", now=NOW) as copy:
            copy.snapshot(tmp_path / "again", now=NOW)
        # But for the commit, which is each store's own.
        assert parts_of(tmp_path / "again")[1:] == parts_of(file)[1:]

    def test_without_vectors(self, filled, tmp_path):
        report = filled.snapshot(tmp_path / "x", vectors=False, now=NOW)
        assert (report.model_id, report.dimension) == (None, None)
        with TierMemory.from_snapshot(tmp_path / "x", now=NOW) as copy:
            found = build.contents(copy)
            assert {row["halves"] for row in found["memories"]} == {None}
            expected = build.contents(filled)
            for row in expected["memories"]:
                row["halves"] = None
            assert found["memories"] == expected["memories"]
            copy.add("any model is welcome", vector=np.ones(8, np.float32), now=NOW)

    def test_an_empty_store(self, tmp_path):
        with TierMemory.open() as mem:
            assert mem.snapshot(tmp_path / "x").memories == 0
        with TierMemory.from_snapshot(tmp_path / "x", tmp_path / "copy") as copy:
            assert copy.count() == 0

    def test_pending_uses_are_in_it(self, tmp_path):
        with TierMemory.open(tmp_path / "store", now=0.0) as mem:
            id = mem.add("Prefers tea", now=0.0)
            mem.used(id, now=86_400.0)
            mem.snapshot(tmp_path / "x", now=86_400.0)
        with TierMemory.from_snapshot(tmp_path / "x") as copy:
            assert copy.get(id, now=86_400.0).use_count == 1

    def test_the_report(self, filled, tmp_path):
        heard = []
        report = filled.snapshot(tmp_path / "x", progress=lambda done, total: heard.append((done, total)), now=NOW)
        assert report.bytes == (tmp_path / "x").stat().st_size
        assert report.digest == frames((tmp_path / "x").read_bytes())[-1][3].hex()
        assert (report.memories, report.events, report.edges, report.keys) == (9, EVENTS, 3, 1)
        # The store then notes where its copy is.
        assert report.commit == filled.stats(now=NOW).commit - 1
        receipt = filled.erase(filled.list(limit=1, now=NOW)[0].id, now=NOW)
        assert [known.path for known in receipt.backups] == [str((tmp_path / "x").resolve())]
        assert heard == [(9, 9)]

    @pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
    def test_only_its_owner_reads_it(self, file):
        assert file.stat().st_mode & 0o777 == 0o600

    def test_many_chunks(self, filled, tmp_path, monkeypatch):
        monkeypatch.setattr(snapshot, "CHUNK_ROWS", 2)
        heard: list[tuple[int, int]] = []
        filled.snapshot(tmp_path / "x", now=NOW)
        assert [name for name, _ in parts_of(tmp_path / "x")].count("memories") == 5
        with TierMemory.from_snapshot(
            tmp_path / "x", tmp_path / "copy", progress=lambda done, total: heard.append((done, total)), now=NOW
        ) as copy:
            assert build.contents(copy) == build.contents(filled)
        assert heard == [(2, 9), (4, 9), (6, 9), (8, 9), (9, 9)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
NAMES = TEXTS.filter(lambda name: len(name.encode()) <= 512)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SHARES = st.floats(0, 1, width=32)
TIMES = st.floats(0, NOW).map(lambda seconds: round(seconds, 3))
MEMORIES = st.fixed_dictionaries(
    {"text": TEXTS.filter(lambda text: text.strip())},
    optional={
        "tier": st.sampled_from(["working", "episodic", "semantic", "procedural"]),
        "importance": SHARES,
        "session": NAMES,
        "about": NAMES,
        "source": st.sampled_from(["user", "assistant", "tool", "system", "import"]),
        "trust": SHARES,
        "tags": st.lists(NAMES, max_size=4, unique=True),
        "labels": st.lists(st.sampled_from(["contact", "health", "秘密"]), max_size=3, unique=True),
        "private": st.dictionaries(TEXTS, JSON, max_size=3),
        "metadata": st.dictionaries(TEXTS, JSON, max_size=3),
        "created_at": TIMES,
        "expires_at": st.floats(NOW + 60, 2 * NOW).map(lambda seconds: round(seconds, 3)),
        "half_life": st.floats(1, 1e9, width=32) | st.just(float("inf")),
        "pinned": st.booleans(),
        "idempotency_key": NAMES,
    },
)


RIGHTS = {"labels": ["contact", "health", "秘密"]}


@given(
    items=st.lists(MEMORIES, max_size=12),
    with_vectors=st.booleans(),
    fates=st.lists(st.sampled_from(["keep", "forget", "supersede", "use", "update", "derive"]), max_size=12),
    rows=st.integers(1, 5),
)
@settings(max_examples=60)
def test_any_store_comes_back(tmp_path_factory, items, with_vectors, fates, rows):
    directory = tmp_path_factory.mktemp("round")
    with TierMemory.open(directory / "store", config={"id_seed": 3}, durability="normal", now=0.0) as mem:
        vectors = np.random.default_rng(len(items)).normal(size=(len(items), 3)).astype(np.float32)
        ids = mem.add_many(items, vectors=vectors if with_vectors else None, now=NOW) if items else []
        alive = list(dict.fromkeys(ids))
        for id, fate in zip(list(alive), fates, strict=False):
            if fate == "forget":
                mem.forget(id, now=NOW)
            elif fate == "supersede":
                vector = np.ones(3, np.float32) if with_vectors else None
                mem.supersede(id, f"instead of {id}", vector=vector, now=NOW)
            elif fate == "use" and mem.list(
                where={"id": id}, grant=RIGHTS, now=NOW + 5.0
            ):  # what has ended is not used
                mem.used(id, now=NOW + 5.0)
            elif fate == "update":
                mem.update(id, importance=0.25, now=NOW)
            elif fate == "derive":
                mem.add(f"from {id}", derived_from=[id], now=NOW)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "CHUNK_ROWS", rows)
            mem.snapshot(directory / "x", now=NOW)
        grant = RIGHTS
        question = np.ones(3, np.float32) if with_vectors and items else None
        query = items[0]["text"] if items else "nothing"
        with TierMemory.from_snapshot(directory / "x", directory / "copy", now=NOW) as copy:
            assert build.contents(copy) == build.contents(mem)
            assert copy.list(grant=grant, now=NOW) == mem.list(grant=grant, now=NOW)
            one, two = (one.search(query, vector=question, k=20, grant=grant, now=NOW) for one in (mem, copy))
            assert one.scores.tolist() == two.scores.tolist()
            assert sorted(one.ids) == sorted(two.ids)
    shutil.rmtree(directory)


class TestDamage:
    def test_cut_off_anywhere(self, file, tmp_path, monkeypatch, filled):
        monkeypatch.setattr(snapshot, "CHUNK_ROWS", 2)
        filled.snapshot(file, now=NOW)
        data = file.read_bytes()
        borders, place = [0], 0
        for name, _, payload, _ in frames(data):
            place += 1 + 1 + len(name) + 5 + 5 + len(payload) + 2 + 16
            borders.append(place)
        assert borders.pop() == len(data)
        assert len(borders) > 10
        rest = np.random.default_rng(5).integers(0, len(data), 64).tolist()
        for cut in borders + rest + [cut + 1 for cut in borders] + [len(data) - 1]:
            refused(data[:cut], tmp_path)

    def test_any_bit_flipped(self, file, tmp_path):
        data = file.read_bytes()
        chance = np.random.default_rng(9)
        for _ in range(500):
            flipped = bytearray(data)
            flipped[chance.integers(len(data))] ^= 1 << int(chance.integers(8))
            refused(bytes(flipped), tmp_path)

    def test_what_is_there_stays(self, file, tmp_path):
        target = tmp_path / "store"
        with TierMemory.open(target, now=NOW) as mem:
            mem.add("was here before", now=NOW)
        before = {path.name: path.read_bytes() for path in target.iterdir()}
        broken = bytearray(file.read_bytes())
        broken[200] ^= 1
        for source in (file.read_bytes(), bytes(broken)):
            (tmp_path / "y").write_bytes(source)
            with pytest.raises(InvalidInput, match="taken already"):
                TierMemory.from_snapshot(tmp_path / "y", target, now=NOW)
        assert {path.name: path.read_bytes() for path in target.iterdir()} == before

    def test_an_empty_directory_is_filled_and_stays_on_an_error(self, file, tmp_path):
        target = tmp_path / "empty"
        target.mkdir()
        (tmp_path / "y").write_bytes(file.read_bytes()[:-1])
        with pytest.raises(CorruptStore):
            TierMemory.from_snapshot(tmp_path / "y", target, now=NOW)
        assert list(target.iterdir()) == []
        TierMemory.from_snapshot(file, target, now=NOW).close()
        assert (target / "memory.db").exists()

    def test_more_behind_the_end(self, file, tmp_path):
        data = file.read_bytes()
        for rest in (b"\0", data[-300:], data):
            assert "follow the end" in str(refused(data + rest, tmp_path))

    def test_chunks_left_out_doubled_or_from_elsewhere(self, file, tmp_path, filled, monkeypatch):
        monkeypatch.setattr(snapshot, "CHUNK_ROWS", 2)
        filled.snapshot(file, now=NOW)
        data, place, spans = file.read_bytes(), 0, []
        for name, _, payload, _ in frames(data):
            size = 1 + 1 + len(name) + 5 + 5 + len(payload) + 2 + 16
            spans.append(data[place : place + size])
            place += size
        for one in range(len(spans)):
            refused(b"".join(spans[:one] + spans[one + 1 :]), tmp_path)
            refused(b"".join(spans[: one + 1] + spans[one:]), tmp_path)
            for two in range(one):
                swapped = list(spans)
                swapped[one], swapped[two] = swapped[two], swapped[one]
                refused(b"".join(swapped), tmp_path)

    def test_a_file_that_changes_between_the_two_readings(self, file, tmp_path, monkeypatch):
        verify = snapshot.Snapshot.verify

        def then_change(self: Any) -> Any:
            header = verify(self)
            with file.open("r+b") as changing:
                changing.seek(-400, os.SEEK_END)
                changing.write(b"?")
            return header

        monkeypatch.setattr(snapshot.Snapshot, "verify", then_change)
        with pytest.raises(CorruptStore):
            TierMemory.from_snapshot(file, tmp_path / "target", now=NOW)
        assert names(tmp_path) == ["x.tiermem"]

    @pytest.mark.parametrize(
        "data", [b"", b"\x94", b"SQLite format 3\0" + bytes(99), b'{"text": "x"}\n', b"\x94\xa6headex"]
    )
    def test_other_files(self, data, tmp_path):
        assert "is not a snapshot" in str(refused(data, tmp_path, InvalidInput))

    def test_no_file(self, tmp_path):
        with pytest.raises(StorageError, match="could not read"):
            TierMemory.from_snapshot(tmp_path / "missing", tmp_path / "target")
        with pytest.raises((InvalidInput, StorageError)):
            TierMemory.from_snapshot(tmp_path, tmp_path / "target")
        for bad in (None, 7, "", "a\0b"):
            with pytest.raises(InvalidInput, match="file: "):
                TierMemory.from_snapshot(bad, tmp_path / "target")  # type: ignore[arg-type]
        assert names(tmp_path) == []

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidInput, match="not a plain file"):
            TierMemory.from_snapshot(tmp_path / "pipe", tmp_path / "target")


class TestVersions:
    def test_version_1_reads_as_it_always_did(self, tmp_path):
        expected = json.loads((FIXTURES / build.EXPECTED).read_text("utf-8"))
        with TierMemory.from_snapshot(FIXTURES / build.SNAPSHOT, tmp_path / "copy", now=NOW) as mem:
            assert build.contents(mem) == expected
        shutil.copytree(FIXTURES / build.STORE, tmp_path / "store")
        with TierMemory.open(tmp_path / "store", now=NOW) as mem:
            assert build.contents(mem) == expected

    def test_the_same_store_makes_the_same_file(self, tmp_path):
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            build.build(tmp_path / name)
        one, two = ((tmp_path / name / build.SNAPSHOT).read_bytes() for name in ("one", "two"))
        assert one == two

    def test_a_later_snapshot_is_refused_by_name(self, file, tmp_path):
        error = refused(changed(file, "header", version=2, novelty=b"?"), tmp_path, NewerFormat)
        assert isinstance(error, NewerFormat)
        assert (error.found, error.supported) == (2, 1)
        assert "upgrade tiermem-fast" in str(error)

    def test_a_later_store_is_refused_by_name(self, tmp_path):
        shutil.copytree(FIXTURES / build.STORE, tmp_path / "store")
        # No handle of ours has it open.
        with sqlite3.connect(tmp_path / "store" / "memory.db") as database:
            database.execute("pragma user_version = 2")
        database.close()
        with pytest.raises(NewerFormat):
            TierMemory.open(tmp_path / "store")


def le(kind: str, *values: Any) -> bytes:
    return np.asarray(values, np.dtype(kind).newbyteorder("<")).tobytes()


class TestHostile:
    """Files whose checksums are right and whose contents are not."""

    @pytest.mark.parametrize(
        "payload",
        [
            b"\x91" * 100_000,
            b"\x81\xa1a" * 100_000 + b"\x01",
            b"\x82\xa1a\x80\xa1b\x90",
            b"\xdf\xff\xff\xff\xff",
            b"\xdd\xff\xff\xff\xff",
            b"\xde\xff\xff" + b"\xa0\xc0" * 65_535,
            b"\x81\xa1a\xc6\xff\xff\xff\xff",
            b"\x81\xa1a\xdb\xff\xff\xff\xff",
            b"\x81\xa1a\xc9\xff\xff\xff\xff\x01",
            b"\x81\xa1a\xc7\x00\x01",
            b"\x81\xa1a\xd4\x01x",
            b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",
            b"\x81\xa1a\xcb" + bytes(8),
            b"\x81\xa1a\xc3",
            b"\x81\x01\x01",
            b"\x81\xc0\x01",
            b"\x81\xa2\xff\xfe\x01",
            b"\x82\xa1a\x01\xa1a\x01",
            b"\x81\xa1a\xc1",
            b"\x80\x80",
            b"\x81",
            b"",
            msgpack.packb({"rows": 1, "id": [b"x" * 16]}),
            msgpack.packb({"rows": -1}),
            msgpack.packb({"rows": 2**64 - 1}),
            msgpack.packb({"rows": 65_537}),
            msgpack.packb({"rows": 1, "id": "x" * 16}),
            msgpack.packb({"rows": 1, "x" * 2_000: b""}),
            msgpack.packb({str(place): b"" for place in range(65)}),
        ],
        ids=lambda payload: payload[:8].hex() + f"-{len(payload)}",
    )
    def test_payloads(self, payload, file, tmp_path):
        parts = parts_of(file)
        for place in range(len(parts)):
            refused(forged([*parts[:place], (parts[place][0], payload), *parts[place + 1 :]]), tmp_path)

    def test_lengths_that_are_not_there(self, tmp_path):
        for length in (2**32 - 1, (16 << 20) + 1, 1 << 20):
            head = b"\x94\xa6header\xce\0\0\0\0\xc6" + length.to_bytes(4, "big")
            tracemalloc.start()
            refused(head + bytes(1_000), tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 1 << 20

    def test_a_pickle_is_never_opened(self, file, tmp_path):
        sentinel = tmp_path.parent / f"{tmp_path.name}-ran"

        class Bomb:
            def __reduce__(self) -> Any:
                return Path.touch, (sentinel,)

        bomb = pickle.dumps(Bomb())
        refused(bomb, tmp_path)
        parts = parts_of(file)
        for place in range(len(parts)):
            refused(forged([*parts[:place], (parts[place][0], bomb), *parts[place + 1 :]]), tmp_path)
        refused(changed(file, "memories", metadata=bomb), tmp_path)
        pickle.loads(bomb)
        assert sentinel.exists(), "the bomb works, and no restore has set it off"
        sentinel.unlink()

    def test_order_of_parts(self, file, tmp_path):
        parts = parts_of(file)
        refused(forged(parts[1:]), tmp_path)
        refused(forged([parts[0], *parts]), tmp_path)
        refused(forged([parts[0], *parts[2:], parts[1]]), tmp_path)
        refused(forged([*parts[:1], parts[2], parts[1], *parts[3:]]), tmp_path)
        refused(forged([*parts[:-1], ("surprise", parts[1][1]), parts[-1]]), tmp_path)
        refused(forged(parts[:-1]), tmp_path)
        refused(forged([*parts, parts[-1]]), tmp_path)
        refused(forged(parts[:1] + parts[-1:]), tmp_path)

    @pytest.mark.parametrize(
        "fields",
        [
            {"memories": 8},
            {"memories": -1},
            {"memories": 2**63},
            {"memories": "9"},
            {"memories": None},
            {"format": "another"},
            {"version": 0},
            {"version": "1"},
            {"version": True},
            {"commit": b"7"},
            {"created_at": 2**62},
            {"model": "x" * 600},
            {"dimension": 0},
            {"dimension": 5},
            {"dimension": 16_385},
            {"dimension": 2**62},
            {"model": 7},
            {"more": 1},
        ],
        ids=str,
    )
    def test_headers(self, fields, file, tmp_path):
        refused(changed(file, "header", **fields), tmp_path)

    def test_a_model_of_nothing(self, file, tmp_path):
        forge = parts_of(file)
        header = msgpack.unpackb(forge[0][1])
        forge[0] = ("header", msgpack.packb({**header, "model": None, "dimension": None}))
        assert "of no model" in str(refused(forged(forge), tmp_path))

    @pytest.mark.parametrize(
        ("part", "column", "value", "says"),
        [
            ("memories", "state", bytes([9] * 9), "state"),
            ("memories", "tier", bytes([4] * 9), "tier"),
            ("memories", "source", bytes([5] * 9), "source"),
            ("memories", "pinned", bytes([2] * 9), "pinned"),
            ("memories", "state", bytes(8), "is not 9 values"),
            ("memories", "id", bytes(16 * 9), "already in the store"),
            ("memories", "id", bytes(16 * 9 - 1), "is not 9 values"),
            ("memories", "importance", le("f4", *[float("nan")] * 9), "importance"),
            ("memories", "trust", le("f4", *[1.5] * 9), "trust"),
            ("memories", "half_life", le("f4", *[0.0] * 9), "half_life"),
            ("memories", "half_life", le("f4", *[float("nan")] * 9), "half_life"),
            ("memories", "created_at", le("i8", *[-1] * 9), "created_at"),
            ("memories", "last_used_at", le("i8", *[2**62] * 9), "last_used_at"),
            ("memories", "expires_at", le("i8", *[-(2**63) + 1] * 9), "expires_at"),
            ("memories", "text", b"", "text"),
            ("memories", "text_ends", le("u4", *[0] * 9), "text"),
            ("memories", "text_ends", le("u4", *[2**32 - 1] * 9), "text"),
            ("memories", "text_ends", le("u4", 9, 8, 7, 6, 5, 4, 3, 2, 1), "text"),
            ("memories", "tags_counts", le("u4", *[2**32 - 1] * 9), "tags_ends"),
            ("memories", "has_vector", bytes([7] * 9), "has_vector"),
            ("memories", "has_vector", bytes([1] * 9), "halves"),
            ("memories", "halves", b"", "halves"),
            ("memories", "surprise", b"", "columns"),
            ("memories", "version", None, "version is missing"),
            ("events", "id", bytes(16 * EVENTS), "no memory has the id"),
            ("events", "at", le("i8", *[-1] * EVENTS), "at"),
            ("events", "kind", b"\0" * 20, "kind"),
            ("edges", "kind", bytes([2] * 3), "kind"),
            ("edges", "older", bytes(16 * 3), "no memory has the id"),
            ("keys", "id", bytes(16), "no memory has the id"),
            ("keys", "key", b"", "key"),
        ],
    )
    def test_columns(self, part, column, value, says, file, tmp_path):
        assert says in str(refused(changed(file, part, **{column: value}), tmp_path, CorruptStore))

    def texts(self, column: str, *values: bytes) -> dict[str, bytes]:
        values += (b"",) * (9 - len(values))
        return {column: b"".join(values), f"{column}_ends": le("u4", *np.cumsum([len(value) for value in values]))}

    @pytest.mark.parametrize(
        "value",
        [
            b"x",
            b"[]",
            b"7",
            b'{"a":',
            b"\xff\xfe",
            b'{"a":NaN}',
            b'{"a":' + b"[" * 99 + b"]" * 99 + b"}",
            b"[" * 60_000,
        ],
        ids=lambda value: str(value[:12]),
    )
    @pytest.mark.parametrize("column", ["metadata", "private"])
    def test_objects(self, column, value, file, tmp_path):
        refused(changed(file, "memories", **self.texts(column, value)), tmp_path, CorruptStore)

    @pytest.mark.parametrize("column", ["text", "session", "about"])
    def test_texts_that_are_too_long(self, column, file, tmp_path):
        refused(changed(file, "memories", **self.texts(column, b"x" * 70_000)), tmp_path, CorruptStore)
        refused(changed(file, "memories", **self.texts(column, b"a\0b")), tmp_path, CorruptStore)
        refused(changed(file, "memories", **self.texts(column, b"\xe5\xad")), tmp_path, CorruptStore)

    def test_a_text_that_ends_within_a_character(self, file, tmp_path):
        values = {"session": "é".encode(), "session_ends": le("u4", 1, *[2] * 8)}
        assert "middle of a character" in str(refused(changed(file, "memories", **values), tmp_path))

    def test_more_labels_than_a_store_has_room_for(self, file, tmp_path):
        labels = [f"label {place}".encode() for place in range(65)]
        values = {
            "labels_counts": le("u4", 65, *[0] * 8),
            "labels": b"".join(labels),
            "labels_ends": le("u4", *np.cumsum([len(label) for label in labels])),
        }
        assert "different labels" in str(refused(changed(file, "memories", **values), tmp_path))

    @pytest.mark.parametrize("value", [0.0, 3.0, float("nan"), float("inf")])
    def test_vectors_that_no_store_has(self, value, file, tmp_path):
        halves = le("f2", *[value] * 24)
        assert "length" in str(refused(changed(file, "memories", halves=halves), tmp_path, CorruptStore))


@given(data=st.data())
@settings(max_examples=300)
def test_no_bytes_do_harm(tmp_path_factory, data):
    """Bytes changed under right checksums: refused by name, or a store that is whole and can be asked."""
    directory = tmp_path_factory.mktemp("fuzz")
    parts = parts_of(FIXTURES / build.SNAPSHOT)
    place = data.draw(st.integers(0, len(parts) - 1))
    name, payload = parts[place]
    if data.draw(st.booleans()):
        payload = data.draw(st.binary(max_size=64))
    else:
        changing = bytearray(payload)
        for _ in range(data.draw(st.integers(1, 4))):
            changing[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        payload = bytes(changing)
    parts[place] = (name, payload)
    (directory / "x").write_bytes(forged(parts))
    target = directory / "store"
    try:
        mem = TierMemory.from_snapshot(directory / "x", target, durability="normal", now=NOW)
    except (CorruptStore, InvalidInput, NewerFormat):
        assert names(directory) == ["x"]
    else:
        with mem:
            assert len(mem.list(grant=EVERYTHING, now=NOW)) <= 9
            same = mem.stats(now=NOW).model_id == "external"
            mem.search("jazz formal", vector=np.ones(4, np.float32) if same else None, now=NOW)
        with TierMemory.open(target, now=NOW) as again:
            assert not again._engine.stats(NOW)["damaged"]
    shutil.rmtree(directory)


class TestWriting:
    def test_it_replaces_a_file_only_when_it_is_whole(self, filled, file, tmp_path):
        before = file.read_bytes()

        def stop(*_: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            filled.snapshot(file, progress=stop, now=NOW)
        assert file.read_bytes() == before
        assert names(tmp_path) == ["x.tiermem"]
        filled.add("one more", vector=np.ones(4, np.float32), now=NOW)
        filled.snapshot(file, now=NOW)
        assert file.read_bytes() != before

    def test_where_nothing_can_be_written(self, filled, tmp_path):
        with pytest.raises(StorageError, match="could not write"):
            filled.snapshot(tmp_path / "missing" / "x", now=NOW)
        (tmp_path / "taken").mkdir()
        with pytest.raises(StorageError, match="could not write"):
            filled.snapshot(tmp_path / "taken", now=NOW)
        assert names(tmp_path) == ["taken"]
        for bad in (None, 7, "", "a\0b"):
            with pytest.raises(InvalidInput, match="file: "):
                filled.snapshot(bad)
        filled.add("the store is as well as before", vector=np.ones(4, np.float32), now=NOW)

    @pytest.mark.skipif(sys.platform != "linux", reason="asks for a device that is always full")
    def test_a_full_disk(self, filled, tmp_path, monkeypatch):
        import tempfile

        def full(**_: Any) -> tuple[int, str]:
            (tmp_path / "partial").touch()
            return os.open("/dev/full", os.O_WRONLY), str(tmp_path / "partial")

        monkeypatch.setattr(tempfile, "mkstemp", full)
        with pytest.raises(StorageError, match="No space left"):
            filled.snapshot(tmp_path / "x", now=NOW)
        assert names(tmp_path) == []

    def test_a_damaged_memory_is_named(self, tmp_path):
        with TierMemory.open(tmp_path / "store", now=NOW) as mem:
            ids = mem.add_many([f"number {place}" for place in range(10)], now=NOW)
        database = sqlite3.connect(tmp_path / "store" / "memory.db")
        with database:
            database.execute("update content set text = 'number x' where row = 4")
        database.close()
        with TierMemory.open(tmp_path / "store", now=NOW) as mem:
            with pytest.raises(CorruptStore, match=ids[4]):
                mem.snapshot(tmp_path / "x", now=NOW)
            assert names(tmp_path) == ["store"]

    def test_a_read_only_store(self, file, tmp_path):
        TierMemory.from_snapshot(file, tmp_path / "store", now=NOW).close()
        with TierMemory.open(tmp_path / "store", read_only=True, now=NOW) as mem:
            mem.snapshot(tmp_path / "again", now=NOW)
        assert parts_of(tmp_path / "again")[1:] == parts_of(file)[1:]

    def test_a_closed_store(self, tmp_path):
        mem = TierMemory.open()
        mem.close()
        with pytest.raises(StoreClosed):
            mem.snapshot(tmp_path / "y")
        assert not (tmp_path / "y").exists()

    def test_another_embedder_is_refused_before_anything_is_made(self, file, tmp_path):
        with pytest.raises(ModelMismatch):
            TierMemory.from_snapshot(file, tmp_path / "copy", embedder="lexical", now=NOW)
        assert not (tmp_path / "copy").exists()

    def test_the_same_embedder_goes_on(self, tmp_path):
        with TierMemory.open(tmp_path / "store", embedder="lexical", now=NOW) as mem:
            mem.add("Prefers tea", now=NOW)
            mem.snapshot(tmp_path / "x", now=NOW)
        with TierMemory.from_snapshot(tmp_path / "x", tmp_path / "copy", embedder="lexical", now=NOW) as copy:
            assert copy.search("tea", now=NOW)[0].vector_score is not None

    def test_configuration_and_durability_go_on(self, file, tmp_path):
        mem = TierMemory.from_snapshot(
            file, tmp_path / "copy", config={"working": {"capacity": 3}}, durability="normal", now=NOW
        )
        with mem:
            assert mem.stats(now=NOW).path == str(tmp_path / "copy")


def test_it_shows_one_commit_while_others_write(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "CHUNK_ROWS", 16)
    batch, stop = 7, threading.Event()
    with TierMemory.open(tmp_path / "store", durability="normal", now=NOW) as mem:
        commits: dict[int, int] = {}
        failures: list[BaseException] = []

        def write() -> None:
            try:
                place = 0
                while not stop.is_set() and place < 400:
                    ids = mem.add_many([f"batch {place} number {number}" for number in range(batch)], now=NOW)
                    mem.update(ids[0], importance=0.25, now=NOW)
                    place += 1
            except BaseException as error:  # noqa: BLE001  # told to the test's own thread
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        reports: list[Any] = []
        while len(reports) < 12 and writer.is_alive():
            reports.append(mem.snapshot(tmp_path / f"{len(reports)}", now=NOW))
        stop.set()
        writer.join()
        assert not failures
        commits = {
            row["row"]: row["commit_number"] for row in mem.sql("select row, commit_number from memory order by row")
        }
        texts = [row["text"] for row in mem.sql("select text from content order by row")]
    assert len(reports) > 2
    assert len({report.commit for report in reports}) > 1
    for place, report in enumerate(reports):
        with TierMemory.from_snapshot(tmp_path / f"{place}", now=NOW) as copy:
            rows = copy.sql("select text, importance, version from memory join content using (row) order by row")
        assert len(rows) % batch == 0, "a batch is one commit"
        assert [row["text"] for row in rows] == texts[: len(rows)]
        # The first of each batch was updated by a later commit, which is the one it has now.
        assert len(rows) == batch * sum(commits[row] <= report.commit for row in range(1, len(texts), batch))
        versions = [1 + (commits[row] <= report.commit) for row in range(0, len(rows), batch)]
        assert [row["version"] for row in rows[::batch]] == versions


def test_memory_is_bounded_by_the_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "CHUNK_ROWS", 128)
    vectors = np.random.default_rng(3).normal(size=(4_000, 1_024)).astype(np.float32)
    with TierMemory.open(tmp_path / "store", durability="normal", now=NOW) as mem:
        mem.add_many([f"memory {place}" for place in range(len(vectors))], vectors=vectors, now=NOW)
        del vectors
        peak = traced(lambda: mem.snapshot(tmp_path / "x", now=NOW))
    assert (tmp_path / "x").stat().st_size > 8_000_000
    assert peak < 2_000_000
    assert traced(lambda: TierMemory.from_snapshot(tmp_path / "x", tmp_path / "copy", now=NOW).close()) < 2_000_000


@pytest.mark.slow
def test_an_erasure_beside_an_export_says_so_and_is_completed(tmp_path):
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        ids = mem.add_many([f"canary {place} xyzzy" for place in range(20)], now=NOW)
        export = mem._engine.export(True, NOW)
        export.chunk(5)
        receipt = mem.erase(ids[7], now=NOW)
        assert not receipt.log_emptied
        assert receipt.residues
        export.close()
        mem.maintain(now=NOW)
        assert not any(b"canary 7 xyzzy" in path.read_bytes() for path in (tmp_path / "store").rglob("*.*"))


@pytest.mark.slow
def test_memory_is_bounded_with_fifty_thousand(tmp_path):
    vectors = np.random.default_rng(3).normal(size=(50_000, 384)).astype(np.float32)
    with TierMemory.open(tmp_path / "store", durability="normal", now=NOW) as mem:
        mem.add_many([f"memory {place} " + "x" * 300 for place in range(len(vectors))], vectors=vectors, now=NOW)
        del vectors
        resident = resident_bytes()
        peak = traced(lambda: mem.snapshot(tmp_path / "x", now=NOW))
        grown = resident_bytes() - resident
    assert (tmp_path / "x").stat().st_size > 50_000_000
    assert peak < 40_000_000
    assert grown < 64_000_000
    assert traced(lambda: TierMemory.from_snapshot(tmp_path / "x", tmp_path / "copy", now=NOW).close()) < 40_000_000


def traced(call: Any) -> int:
    """The most bytes that Python held during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resident_bytes() -> int:
    """The most bytes this process ever had in memory."""
    resource = pytest.importorskip("resource")
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1_024)
