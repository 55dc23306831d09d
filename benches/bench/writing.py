"""Writing: one by one with a sync each, and in bulk, beside the same bytes in raw SQLite."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tiermem_fast import TierMemory

from .data import dataset
from .stores import WRITTEN
from .table import Table
from .timing import in_turns

CHUNK = 4_096
Record = tuple[bytes, str, str, bytes]


class RawSqlite:
    """One table with the same bytes, write-ahead log, synced at each commit; in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=full")
        self.db.execute("create table memory(id blob, text text, metadata text, vector blob)")

    def insert(self, records: list[Record]) -> None:
        """One transaction."""
        self.db.execute("begin immediate")
        self.db.executemany("insert into memory values (?, ?, ?, ?)", records)
        self.db.execute("commit")


def _records(count: int, cache: Path) -> tuple[list[dict[str, object]], np.ndarray, list[Record]]:
    data = dataset(count, cache)
    halves = data.vectors.astype(np.float16)
    records: list[Record] = [
        (n.to_bytes(16), text, f'{{"kind":{kind}}}', halves[n].tobytes())
        for n, (text, kind) in enumerate(zip(data.texts, data.kinds.tolist(), strict=True))
    ]
    return data.items(), data.vectors, records


def one_by_one(table: Table, work: Path, cache: Path) -> None:
    items, vectors, records = _records(10_000, cache)
    sqlite = RawSqlite(work / "raw-one.db")
    mem = TierMemory.open(work / "one", now=WRITTEN)
    quick = TierMemory.open(work / "one-normal", durability="normal", now=WRITTEN)
    in_ram = TierMemory.open(now=WRITTEN)

    def add(mem: TierMemory, n: int) -> None:
        mem.add(**items[n], vector=vectors[n], now=WRITTEN + n)  # type: ignore[arg-type]

    figures = in_turns(
        {
            "ours": lambda n: add(mem, n),
            "sqlite": lambda n: sqlite.insert(records[n : n + 1]),
            "normal": lambda n: add(quick, n),
            "ram": lambda n: add(in_ram, n),
        },
        calls=150,
        rounds=7,
        advance=True,
    )
    table.compare(
        "writing", "add one, full durability", figures["ours"], "raw SQLite insert and commit", figures["sqlite"],
        at_most=1.5,
    )  # fmt: skip
    for name, label in (("normal", "add one, normal durability"), ("ram", "add one, in RAM")):
        table.compare("writing", label, figures[name], "raw SQLite, full", figures["sqlite"])
    for each in (mem, quick, in_ram):
        each.close()
    sqlite.db.close()


def _rates(count: int, cache: Path, work: Path, rounds: int) -> Iterator[dict[str, float]]:
    items, vectors, records = _records(count, cache)
    for _ in range(rounds):
        folder = Path(tempfile.mkdtemp(dir=work))
        rates = {}
        with TierMemory.open(folder / "ours", now=WRITTEN) as mem:
            started, cpu = time.perf_counter(), time.thread_time()
            mem.add_many(items, vectors=vectors, now=WRITTEN)
            rates["ours"] = count / (time.perf_counter() - started)
            rates["ours, CPU"] = count / (time.thread_time() - cpu)
        sqlite = RawSqlite(folder / "raw.db")
        started, cpu = time.perf_counter(), time.thread_time()
        for start in range(0, count, CHUNK):
            sqlite.insert(records[start : start + CHUNK])
        rates["sqlite"] = count / (time.perf_counter() - started)
        rates["sqlite, CPU"] = count / (time.thread_time() - cpu)
        sqlite.db.close()
        with TierMemory.open(folder / "words", now=WRITTEN) as mem:
            started = time.perf_counter()
            mem.add_many([item["text"] for item in items], now=WRITTEN)  # type: ignore[misc]
            rates["texts alone"] = count / (time.perf_counter() - started)
        lancedb = _lancedb(folder / "lance", records, vectors)
        if lancedb is not None:
            rates["lancedb"] = lancedb
        shutil.rmtree(folder)
        yield rates


def _lancedb(folder: Path, records: list[Record], vectors: np.ndarray) -> float | None:
    try:
        import lancedb
        import pyarrow as pa
    except ImportError:
        return None
    schema = pa.schema(
        [("text", pa.string()), ("metadata", pa.string()), ("vector", pa.list_(pa.float32(), vectors.shape[1]))]
    )
    table = lancedb.connect(folder).create_table("memories", schema=schema)
    started = time.perf_counter()
    for start in range(0, len(records), CHUNK):
        part = records[start : start + CHUNK]
        matrix = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors[start : start + CHUNK].reshape(-1)), vectors.shape[1]
        )
        columns = [
            pa.array([text for _, text, _, _ in part]),
            pa.array([metadata for _, _, metadata, _ in part]),
            matrix,
        ]
        table.add(pa.table(columns, schema=schema))
    return len(records) / (time.perf_counter() - started)


def in_bulk(table: Table, work: Path, cache: Path, count: int, rounds: int = 3) -> None:
    measured = list(_rates(count, cache, work, rounds))
    median = {name: float(np.median([rates[name] for rates in measured])) for name in measured[0]}
    what = f"add_many of {count:,} with vectors, full durability"
    for name, label, at_least in (
        ("sqlite", "raw SQLite, the same commits", None),
        ("lancedb", "lancedb, not synced", 1.0),
    ):
        if name in median:
            table.value(
                "writing", what, median["ours"], "rows/s", beside=label, theirs=median[name], at_least=at_least,
                cpu_ratio=median["ours, CPU"] / median["sqlite, CPU"] if name == "sqlite" else None,
            )  # fmt: skip
    table.value("writing", f"add_many of {count:,} texts alone", median["texts alone"], "rows/s")
