"""What a fresh process pays: importing, opening, and what stays resident."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from .stores import NOW, Stores
from .table import Table

_IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"

# Memory is what /proc says; elsewhere only the times are told.
_OPEN = """
import json, sys, time
import numpy as np
from pathlib import Path
sys.path.insert(0, sys.argv[5])
from bench.stores import Lookup
from tiermem_fast import TierMemory
def resident():
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return int(next(l for l in status.read_text().splitlines() if l.startswith("VmRSS")).split()[1]) * 1024
path, question, now = sys.argv[1], np.load(sys.argv[2]), float(sys.argv[3])
maintain = sys.argv[4] == "graph"
import tiermem_fast.models
before, t = resident(), time.perf_counter()
mem = TierMemory.open(path, embedder=Lookup())
opened = time.perf_counter() - t
mem.search(vector=question, k=10, tiers=["semantic"], now=now).ids
answered = time.perf_counter() - t
after = resident()
if maintain:
    mem.maintain(now=now)
stats = mem.stats(now=now)
print(json.dumps({"open": opened, "answer": answered, "resident": after - before, "with_graph": resident() - before,
                  "told": stats.ram_bytes, "graph": stats.graph}))
mem.close()
"""


def _python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return done.stdout.strip().splitlines()[-1]


def imports(table: Table, rounds: int = 9) -> None:
    """Each in a bare interpreter, in turns; our own import brings numpy along."""
    times: dict[str, list[float]] = {"numpy": [], "tiermem_fast": []}
    for _ in range(rounds + 1):
        for module, taken in times.items():
            taken.append(float(_python(_IMPORT.format(module=module))) * 1e3)
    ours, theirs = (statistics.median(times[name][1:]) for name in ("tiermem_fast", "numpy"))
    more = statistics.median(
        ours - theirs for ours, theirs in zip(times["tiermem_fast"][1:], times["numpy"][1:], strict=True)
    )
    table.value("process", "import tiermem_fast", ours, "ms", beside="import numpy", theirs=theirs)
    table.value("process", "import tiermem_fast, beyond numpy's", more, "ms", at_most=60)


def opening(table: Table, stores: Stores, size: int, rounds: int = 5) -> None:
    """From open to the first answer, files in the page cache; then the bytes resident."""
    store = stores.get(size)
    question = store.path.with_suffix(".npy")
    np.save(question, store.data.queries[0])
    store.mem.close()
    runs = []
    for n in range(rounds):
        last = "graph" if n == rounds - 1 else "plain"
        told = _python(_OPEN, str(store.path), str(question), repr(NOW), last, str(Path(__file__).parents[1]))
        runs.append(json.loads(told))
    answer = statistics.median(run["answer"] for run in runs) * 1e3
    at_most = {10_000: 30, 1_000_000: 1_500}.get(size)
    table.value("process", f"open to first answer, {size:,}", answer, "ms", at_most=at_most)
    last = runs[-1]
    if size >= 100_000 and last["with_graph"]:
        at_most = 1_300 if size >= 1_000_000 else None
        for label, key in (
            ("resident bytes per memory, before the graph", "resident"),
            ("resident bytes per memory, with the graph", "with_graph"),
            ("bytes per memory that stats() tells of", "told"),
        ):
            limit = at_most if key == "with_graph" else None
            table.value("process", f"{size:,}: {label}", last[key] / size, "B", at_most=limit)
    store.reopen()
