"""Search by vector: beside raw usearch at equal recall, numpy and faiss; with filters; with its texts; as a briefing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .data import Dataset, Floats
from .stores import NOW, K, Store, Stores
from .table import Table
from .timing import Figures, in_turns

TIERS = ["semantic"]
EXPANSIONS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
Truth = list[set[int]]


def exact(data: Dataset, mask: npt.NDArray[np.bool_] | None = None) -> Truth:
    """The true k nearest of each question, by numpy."""
    truth: Truth = []
    chosen = np.arange(len(data.vectors)) if mask is None else np.flatnonzero(mask)
    matrix = data.vectors if mask is None else data.vectors[chosen]
    for start in range(0, len(data.queries), 50):
        scores = data.queries[start : start + 50] @ matrix.T
        k = min(K, matrix.shape[0])
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        truth += [set(chosen[row].tolist()) for row in best]
    return truth


def recall(truth: Truth, answers: Sequence[Any], place: Callable[[Any], int] = int) -> float:
    """Mean share of the true nearest among the answers."""
    shares = [len(true & {place(id) for id in got}) / len(true) for true, got in zip(truth, answers, strict=False)]
    return float(np.mean(shares))


def ours(store: Store, **filters: Any) -> Callable[[int], list[str]]:
    """A search by vector, decay-scored, tier filter on; the ids are taken out."""
    mem, queries = store.mem, store.data.queries
    return lambda n: mem.search(vector=queries[n], k=K, tiers=TIERS, now=NOW, **filters).ids


class Usearch:
    """Raw usearch: f16 and the parameters that our own graph has."""

    def __init__(self, data: Dataset, threads: int) -> None:
        from usearch.index import Index

        self.queries = data.queries
        self.index = Index(ndim=data.vectors.shape[1], metric="cos", dtype="f16", connectivity=16, expansion_add=128)
        self.index.add(np.arange(len(data.vectors), dtype=np.uint64), data.vectors, threads=threads)

    def __call__(self, n: int) -> Any:
        """The keys nearest to a question."""
        return self.index.search(self.queries[n], K, threads=1).keys

    def reach(self, truth: Truth, wanted: float) -> float:
        """Sets the least expansion that reaches a recall; gives the recall reached."""
        reached = 0.0
        for expansion in EXPANSIONS:
            self.index.expansion_search = expansion
            reached = recall(truth, [self(n) for n in range(len(self.queries))])
            if reached >= wanted:
                break
        return reached

    def matching(self, mask: npt.NDArray[np.bool_]) -> Callable[[int], list[int]]:
        """A filter by fetching more and more, as a user of the wheel has to."""

        def search(n: int) -> list[int]:
            fetch = min(len(mask), int(2 * K / max(mask.mean(), 1e-6)))
            while True:
                keys = self.index.search(self.queries[n], fetch, threads=1).keys
                found = [int(key) for key in keys if mask[key]]
                if len(found) >= K or fetch >= len(mask):
                    return found[:K]
                fetch = min(len(mask), fetch * 4)

        return search


def numpy_scan(matrix: Floats, queries: Floats, places: npt.NDArray[np.int64] | None = None) -> Callable[[int], Any]:
    """The k largest dot products; with ``places`` those of a filter's rows, which are gathered in the call."""

    def search(n: int) -> Any:
        rows = matrix if places is None else matrix[places]
        scores = rows @ queries[n]
        best = np.argpartition(-scores, K - 1)[:K]
        best = best[np.argsort(-scores[best])]
        return best if places is None else places[best]

    return search


def faiss_scan(data: Dataset) -> Callable[[int], Any] | None:
    """The scan of faiss over f16, where it is installed."""
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(1)
    index = faiss.IndexScalarQuantizer(data.vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.train(data.vectors[:1_000])
    index.add(data.vectors)
    return lambda n: index.search(data.queries[n : n + 1], K)[1][0]


def measure(table: Table, stores: Stores, sizes: Sequence[int], threads: int) -> dict[int, Figures]:
    """Rows for every size; gives our figures for the growth between sizes."""
    grown = {}
    for size in sizes:
        grown[size] = _size(table, stores.get(size), size, threads)
    for small, large in ((100_000, 1_000_000),):
        if small in grown and large in grown:
            table.value(
                "search", f"p50 at {large:,} to p50 at {small:,}", grown[large].p50, "ms p50",
                beside=f"ours at {small:,}", theirs=grown[small].p50, at_most=2.0,
            )  # fmt: skip
    return grown


def _size(table: Table, store: Store, size: int, threads: int) -> Figures:
    data = store.data
    calls = len(data.queries)
    truth = exact(data)
    place = store.ids.__getitem__
    mine = recall(truth, [ours(store)(n) for n in range(calls)], place)
    usearch = Usearch(data, threads)
    equal = usearch.reach(truth, min(mine, 0.9995) - 0.0005)
    contenders: dict[str, Callable[[int], Any]] = {
        "ours": ours(store),
        "usearch": usearch,
        "numpy": numpy_scan(data.vectors, data.queries),
    }
    faiss = faiss_scan(data)
    if faiss is not None:
        contenders["faiss"] = faiss
    figures = in_turns(contenders, calls=calls)
    what = f"{size:,} × {data.vectors.shape[1]}, k = {K}"
    plan = store.mem.search(vector=data.queries[0], k=K, tiers=TIERS, now=NOW).plan
    for name, at_most, reached, label in (
        ("usearch", 1.25 if size >= 100_000 else None, equal, f"usearch f16, ef {usearch.index.expansion_search}"),
        ("numpy", None, 1.0, "numpy float32, exact"),
        ("faiss", 0.4 if size == 10_000 else None, None, "faiss f16 flat"),
    ):
        if name in figures:
            shown = recall(truth, figures[name].answers) if reached is None else reached
            table.compare(
                "search", f"{what} ({plan})", figures["ours"], label, figures[name],
                at_most=at_most, quality=f"{mine:.4f} / {shown:.4f}",
            )  # fmt: skip
    _filtered(table, store, size, usearch)
    _with_texts(table, store, size)
    return figures["ours"]


def _filtered(table: Table, store: Store, size: int, usearch: Usearch) -> None:
    """Filters that half, a tenth and a hundredth of the memories pass."""
    data, place = store.data, store.ids.__getitem__
    filters: list[tuple[str, dict[str, Any], npt.NDArray[np.bool_]]] = [
        ("50 % by metadata", {"kind": [0, 1, 2, 3, 4]}, data.kinds < 5),
        ("10 % by metadata", {"kind": 3}, data.kinds == 3),
        ("1 % by tag", {"tags": "t42"}, data.tags == 42),
    ]
    for label, where, mask in filters:
        if mask.sum() < K:
            continue
        calls = 100
        truth = exact(data, mask)
        figures = in_turns(
            {
                "ours": ours(store, where=where),
                "unfiltered": ours(store),
                "numpy": numpy_scan(data.vectors, data.queries, np.flatnonzero(mask)),
                "usearch": usearch.matching(mask),
            },
            calls=calls,
            rounds=3,
        )
        mine = recall(truth, figures["ours"].answers, place)
        what = f"{size:,}, filter {label}"
        table.compare(
            "filters", what, figures["ours"], "ours, unfiltered", figures["unfiltered"],
            at_most=3.0 if size >= 100_000 else None, quality=f"{mine:.4f} / –",
        )  # fmt: skip
        table.compare(
            "filters", what, figures["ours"], "numpy on its rows", figures["numpy"], quality=f"{mine:.4f} / 1"
        )
        reached = recall(truth, figures["usearch"].answers)
        table.compare(
            "filters", what, figures["ours"], "usearch, fetching more", figures["usearch"],
            quality=f"{mine:.4f} / {reached:.4f}",
        )  # fmt: skip


def _with_texts(table: Table, store: Store, size: int) -> None:
    """What it costs to look at the answer."""
    mem, queries = store.mem, store.data.queries

    def search(n: int) -> Any:
        return mem.search(vector=queries[n], k=K, tiers=TIERS, now=NOW)

    figures = in_turns(
        {"ids": ours(store), "texts": lambda n: search(n).texts, "items": lambda n: list(search(n))},
        calls=200,
        rounds=3,
    )
    table.compare("search", f"{size:,}, with the {K} texts", figures["texts"], "ours, ids alone", figures["ids"])
    table.compare("search", f"{size:,}, with {K} whole memories", figures["items"], "ours, ids alone", figures["ids"])


def brief(table: Table, stores: Stores, size: int) -> None:
    """A briefing beside a search for the same question; both by words and by vector."""
    store = stores.get(size)
    store.embedder.known = dict(zip(store.data.texts[:200], store.data.queries[:200], strict=True))
    questions = store.data.texts[:200]
    mem = store.mem
    figures = in_turns(
        {
            "brief": lambda n: mem.brief(questions[n], now=NOW).text,
            "search": lambda n: mem.search(questions[n], k=K, tiers=TIERS, now=NOW).ids,
        },
        calls=100,
        rounds=3,
    )
    table.compare(
        "brief", f"{size:,}, words and vector", figures["brief"], "ours, search", figures["search"], at_most=5
    )
