"""The laws on plain arrays, beside numpy and beside a copy of the same bytes."""

from __future__ import annotations

import numpy as np

from tiermem_fast import kernels

from .data import SEED
from .table import Table
from .timing import in_turns

ROWS = 1_000_000


def measure(table: Table) -> None:
    rng = np.random.default_rng(SEED)
    elapsed = rng.random(ROWS) * 365 * 86_400.0
    half_life = rng.random(ROWS) * 30 * 86_400.0 + 900.0
    relevance, importance = rng.random(ROWS), rng.random(ROWS)

    def ours(_: int) -> np.ndarray:
        return kernels.score(relevance, kernels.strength(elapsed, half_life), importance)

    def by_numpy(_: int) -> np.ndarray:
        strength = 1.0 / (1.0 + elapsed / half_life)
        return relevance * (0.7 + 0.2 * strength + 0.1 * importance)  # type: ignore[no-any-return]

    def by_numpy_power(_: int) -> np.ndarray:
        strength = (1.0 + (2.0 ** (1.0 / 0.5) - 1.0) * elapsed / half_life) ** -0.5
        return relevance * (0.7 + 0.2 * strength + 0.1 * importance)  # type: ignore[no-any-return]

    def ours_power(_: int) -> np.ndarray:
        return kernels.score(relevance, kernels.strength(elapsed, half_life, shape=0.5), importance)

    # Two calls read five columns and write two, of eight bytes each; a copy reads and writes half as many.
    source, target = np.ones(ROWS * 7 // 2), np.ones(ROWS * 7 // 2)
    assert np.allclose(ours(0), by_numpy(0))
    assert np.allclose(ours_power(0), by_numpy_power(0))
    figures = in_turns(
        {
            "ours": ours, "numpy": by_numpy, "ours power": ours_power, "numpy power": by_numpy_power,
            "copy": lambda _: np.copyto(target, source),
        },
        calls=10, rounds=9,
    )  # fmt: skip
    what = "strength and score of 1M rows, arrays in and out, checked"
    table.compare("kernels", what, figures["ours"], "numpy, unchecked", figures["numpy"])
    table.compare("kernels", f"{what}, shape ½", figures["ours power"], "numpy, unchecked", figures["numpy power"])
    table.compare("kernels", what, figures["ours"], "copy of the same bytes", figures["copy"])
