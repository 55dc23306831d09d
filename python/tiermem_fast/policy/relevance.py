"""How near is near: what the cosine of an embedder means.

Owns the calibration of one embedder on texts that have nothing to do with one another. Calls only the embedder. Some
models give 0.8 to any two sentences, others 0.1; a floor in terms of cosine would be right for one of them at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..embedding import Embedder

__all__ = ["LEAST_RELEVANCE", "calibrate", "relevance_of"]

LEAST_RELEVANCE = 0.05
"""The relevance under which a memory has nothing to do with the question."""

# Questions and statements about different things, in both languages; no pair of the two lists belongs together.
_QUESTIONS = (
    "What did the doctor say about my knee?",
    "Which editor theme does she prefer?",
    "How much was the deposit for the flat?",
    "Who is coming to the concert on Saturday?",
    "Why did the nightly build fail?",
    "When does the ferry to the island leave?",
    "他妹妹在哪所大学念书？",
    "上次的报销单交了吗？",
    "猫为什么不吃东西？",
    "合同里的付款期限是多久？",
    "周末去哪里爬山比较好？",
    "这道菜要放多少盐？",
)
_STATEMENTS = (
    "The tomatoes on the balcony need water every evening.",
    "Our mail server moves to the new rack in March.",
    "Grandfather repaired clocks for forty years.",
    "The novel begins with a shipwreck off the coast.",
    "She plays the cello in an amateur orchestra.",
    "Invoices are numbered by year and month.",
    "博物馆每周一闭馆。",
    "他把旧自行车送给了邻居。",
    "新来的设计师喜欢用蓝色。",
    "火车晚点了四十分钟。",
    "这块地明年要种玉米。",
    "奶奶教我织过一条围巾。",
)


def calibrate(embedder: Embedder) -> float:
    """The cosine that unrelated texts do not reach with this embedder, 0 to 0.95.

    Parameters
    ----------
    embedder
        Asked once for two dozen short texts.

    Returns
    -------
    float
        The highest cosine of a dozen questions to a dozen statements that do not answer them.
    """
    questions = _unit(embedder.embed(_QUESTIONS, kind="query"))
    statements = _unit(embedder.embed(_STATEMENTS, kind="document"))
    return float(np.clip((questions @ statements.T).max(), 0.0, 0.95))


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)


def relevance_of(
    vector_scores: npt.NDArray[np.float32], keyword_scores: npt.NDArray[np.float32], *, floor: float
) -> npt.NDArray[np.float32]:
    """How well each answers, 0 to 1, comparable between embedders: the better of its two arms.

    Parameters
    ----------
    vector_scores
        Cosines; the floor of the embedder counts as 0 and 1 as 1, NaN as no vector.
    keyword_scores
        Shares of the best BM25 that any text could get; NaN as no words.
    floor
        What :func:`calibrate` gave.

    Examples
    --------
    >>> relevance_of(np.float32([0.8, np.nan, 0.1]), np.float32([0.1, 0.25, 0.0]), floor=0.6).round(3).tolist()
    [0.5, 0.25, 0.0]
    """
    by_vector = (vector_scores - np.float32(floor)) / np.float32(1.0 - floor)
    best = np.fmax(by_vector, keyword_scores)
    return np.asarray(np.nan_to_num(best, nan=0.0).clip(0.0, 1.0), dtype=np.float32)
