"""How things are timed: contenders take turns, and what is compared was measured side by side.

Other work on the machine slows everybody in a round alike, so a ratio is the median over rounds of the ratio within
a round. Beside the wall clock stands the thread's own CPU time, which other work hardly touches.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Call = Callable[[int], Any]


@dataclass
class Figures:
    """What one contender took, in milliseconds a call."""

    wall: list[list[float]] = field(default_factory=list)
    """One list per round."""
    cpu: list[float] = field(default_factory=list)
    """Mean per call of each round: the thread's clock is too slow to be read around each call."""
    answers: list[Any] = field(default_factory=list)
    """Those of the first round."""

    def _all(self) -> np.ndarray[Any, Any]:
        return np.concatenate([np.asarray(each) for each in self.wall])

    @property
    def p50(self) -> float:
        """The median call."""
        return float(np.percentile(self._all(), 50))

    @property
    def p99(self) -> float:
        """The call that one in a hundred exceeds."""
        return float(np.percentile(self._all(), 99))

    @property
    def cpu_mean(self) -> float:
        """The thread's CPU time a call."""
        return statistics.median(self.cpu)

    def ratio(self, other: Figures) -> float:
        """Median over the rounds of this one's median to the other's."""
        return statistics.median(
            statistics.median(mine) / statistics.median(theirs)
            for mine, theirs in zip(self.wall, other.wall, strict=True)
        )

    def cpu_ratio(self, other: Figures) -> float:
        """The same by the thread's CPU time."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.cpu, other.cpu, strict=True) if theirs > 0)

    def as_json(self) -> dict[str, float]:
        """For the result's file."""
        calls = sum(map(len, self.wall))
        return {"p50_ms": self.p50, "p99_ms": self.p99, "cpu_ms": self.cpu_mean, "calls": calls}


def _block(call: Call, first: int, calls: int, seconds: float, figures: Figures, keep: bool) -> None:
    clock = time.perf_counter
    wall = []
    gc.collect()
    gc.disable()
    try:
        cpu, started = time.thread_time(), clock()
        for n in range(first, first + calls):
            begun = clock()
            answer = call(n)
            ended = clock()
            wall.append((ended - begun) * 1e3)
            if keep:
                figures.answers.append(answer)
            if ended - started > seconds and len(wall) >= 3:
                break
        cpu = time.thread_time() - cpu
    finally:
        gc.enable()
    figures.wall.append(wall)
    figures.cpu.append(cpu * 1e3 / len(wall))


def in_turns(
    contenders: Mapping[str, Call], *, calls: int, rounds: int = 5, seconds: float = 2.0, advance: bool = False
) -> dict[str, Figures]:
    """Times ``calls`` calls of each contender, then again, for some rounds; each round begins with another one.

    A contender is called with the number of the call, 0 to ``calls`` in each round, or ever further with ``advance``,
    as writing needs. A block that takes longer than ``seconds`` is cut short, but never below three calls.
    """
    figures = {name: Figures() for name in contenders}
    names = list(contenders)
    if not advance:
        for call in contenders.values():
            for n in range(min(10, calls)):
                call(n)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            first = turn * calls if advance else 0
            _block(contenders[name], first, calls, seconds, figures[name], keep=turn == 0 and not advance)
    return figures
