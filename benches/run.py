"""Measures this package beside what people would use instead, in one run, and prints a table.

    python benches/run.py                     the short set, some minutes
    python benches/run.py --full              with a million memories too
    python benches/run.py --only search add   some subjects

Results go to benches/results/ as JSON and Markdown. Nothing is asserted: rows that lose are shown as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

# One thread each, before numpy is imported: what is compared is work, not the number of cores.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# Settings that pin numpy's BLAS to older kernels would flatter us.
for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)

sys.path.insert(0, str(Path(__file__).parent))

RESULTS = Path(__file__).parent / "results"
MILLION = 1_000_000
BYTES_FOR_A_MILLION = 12 << 30


def _subjects(table, stores, work: Path, arguments: argparse.Namespace) -> dict:  # noqa: ANN001  # imported late
    from bench import kernels, keywords, load, machine, processes, vectors, writing

    cache = stores.cache
    sizes = [size for size in (1_000, 10_000, 100_000) if size <= arguments.largest]
    largest = sizes[-1]

    def million() -> None:
        if machine.free_memory() < BYTES_FOR_A_MILLION:
            print(f"a million memories left out: less than {BYTES_FOR_A_MILLION >> 30} GiB are free", flush=True)
            return
        for size in sizes[:-1]:
            stores.drop(size)
        vectors.measure(table, stores, [largest, MILLION], os.cpu_count() or 1)
        processes.opening(table, stores, MILLION, rounds=3)
        vectors.brief(table, stores, MILLION)
        stores.drop(MILLION)

    subjects = {
        "import": lambda: processes.imports(table),
        "kernels": lambda: kernels.measure(table),
        "add": lambda: (
            writing.one_by_one(table, work, cache),
            writing.in_bulk(table, work, cache, min(largest, 10_000)),
            arguments.full and writing.in_bulk(table, work, cache, largest),
        ),
        "keywords": lambda: keywords.measure(table, work, cache, [size for size in sizes if size >= 10_000] or sizes),
        "search": lambda: vectors.measure(table, stores, sizes, os.cpu_count() or 1),
        "open": lambda: [processes.opening(table, stores, size) for size in sizes if size >= 10_000],
        "brief": lambda: vectors.brief(table, stores, largest),
        "threads": lambda: (
            load.readers(table, stores, largest),
            load.beside_writer(table, stores, largest),
        ),
    }
    if arguments.full:
        subjects["million"] = million
    return subjects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="add a million memories and the other libraries")
    parser.add_argument(
        "--only", nargs="*", metavar="SUBJECT", help="import kernels add keywords search open brief threads"
    )
    parser.add_argument("--largest", type=int, default=100_000, help="the largest size of the short set")
    parser.add_argument("--work", type=Path, help="where stores are made; the disk under it is measured")
    parser.add_argument("--name", default="short", help="the name of the result's files")
    arguments = parser.parse_args()
    if arguments.full and arguments.name == "short":
        arguments.name = "full"

    from bench import machine
    from bench.stores import Stores
    from bench.table import Table

    table = Table(machine.describe())
    for name, value in table.machine.items():
        print(f"{name}: {value}", flush=True)
    work = Path(tempfile.mkdtemp(prefix="tiermem-bench-", dir=arguments.work))
    started = time.perf_counter()
    try:
        stores = Stores(work, RESULTS / "data")
        subjects = _subjects(table, stores, work, arguments)
        for name in arguments.only or subjects:
            if name not in subjects:
                parser.error(f"unknown subject {name!r}; there are {', '.join(subjects)}")
            subjects[name]()
            table.save(RESULTS, arguments.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"\n{time.perf_counter() - started:.0f} s; {RESULTS / arguments.name}.json and .md", flush=True)


if __name__ == "__main__":
    main()
