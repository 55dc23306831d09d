"""The laws on plain numpy arrays, for people who keep their memories elsewhere.

Owns shapes, ranges and broadcasting; the arithmetic is the native module's. Times are in seconds. Inputs broadcast
against each other; NaN is refused. Scalars give a zero-dimensional array, as numpy's own functions do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .errors import InvalidInput, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["near_duplicates", "reinforce", "score", "strength", "top_k"]

Floats = Any
"""Anything numpy makes a float array of."""


def _numbers(argument: str, values: Any, low: float, high: float) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput.of(argument, f"{shown(values)} is not an array of numbers: {error}") from None
    # Two passes without a temporary; a NaN comes through both and compares with nothing.
    if array.size and not (array.min() >= low and array.max() <= high):
        wrong = array[~((array >= low) & (array <= high))].flat[0]
        raise InvalidInput.of(argument, f"{wrong} is not between {low:g} and {high:g}")
    return array


def _aligned(**arrays: npt.NDArray[np.float64]) -> tuple[tuple[int, ...], list[npt.NDArray[np.float64]]]:
    try:
        together = np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidInput.of(next(iter(arrays)), f"the shapes do not broadcast: {shapes}") from None
    return together[0].shape, [np.ascontiguousarray(array).reshape(-1) for array in together]


def strength(elapsed: Floats, half_life: Floats, *, shape: float = 1.0) -> npt.NDArray[np.float64]:
    """How strongly something is remembered, 0 to 1.

    ``S = (1 + (2**(1/d) - 1) * elapsed / half_life) ** -d``, the power law of forgetting (Wixted and Ebbesen 1991),
    scaled so that S is 1 at once and ½ after one half-life whatever the shape; for d = infinity it is the exponential
    ``2 ** (-elapsed / half_life)`` (Ebbinghaus 1885).

    Parameters
    ----------
    elapsed
        Seconds since the last use, 0 or more.
    half_life
        Seconds until half is forgotten, above 0; infinity never forgets.
    shape
        d: small forgets like people do, infinity exponentially.

    Raises
    ------
    InvalidInput
        On NaN or a value out of its range, naming it.

    Examples
    --------
    >>> strength([0.0, 60.0, 120.0], 60.0).round(3)
    array([1.   , 0.5  , 0.333])
    >>> strength(120.0, 60.0, shape=float("inf"))
    array(0.25)
    """
    if not shape > 0:
        raise InvalidInput.of("shape", f"{shown(shape)} is not above 0")
    elapsed = _numbers("elapsed", elapsed, 0.0, math.inf)
    half_life = _numbers("half_life", half_life, math.ulp(0.0), math.inf)
    form, (elapsed, half_life) = _aligned(elapsed=elapsed, half_life=half_life)
    return _core.strength(elapsed, half_life, float(shape)).reshape(form)


def reinforce(
    half_life: Floats, strength: Floats, *, gain: float = 1.0, max_half_life: float = math.inf
) -> npt.NDArray[np.float64]:
    """The half-life after a use: ``min(max_half_life, half_life * (1 + gain * (1 - strength)))``.

    A hundred uses in one minute add almost nothing, ten uses over ten weeks add a lot: the spacing effect.

    Parameters
    ----------
    half_life
        Seconds, above 0.
    strength
        Strength just before the use, 0 to 1.
    gain
        What a use at strength 0 adds, in half-lives.
    max_half_life
        Seconds that no use lengthens it beyond.

    Raises
    ------
    InvalidInput
        On NaN or a value out of its range, naming it.

    Examples
    --------
    >>> reinforce(60.0, [1.0, 0.5, 0.0])
    array([ 60.,  90., 120.])
    """
    if not 0.0 <= gain < math.inf:
        raise InvalidInput.of("gain", f"{shown(gain)} is not a number from 0")
    if not max_half_life > 0:
        raise InvalidInput.of("max_half_life", f"{shown(max_half_life)} is not above 0")
    half_life = _numbers("half_life", half_life, math.ulp(0.0), math.inf)
    strength = _numbers("strength", strength, 0.0, 1.0)
    form, (half_life, strength) = _aligned(half_life=half_life, strength=strength)
    return _core.reinforce(half_life, strength, float(gain), float(max_half_life)).reshape(form)


def score(
    relevance: Floats,
    strength: Floats,
    importance: Floats,
    *,
    strength_share: float = 0.2,
    importance_share: float = 0.1,
) -> npt.NDArray[np.float64]:
    """``relevance * (1 - a - b + a * strength + b * importance)``: relevance gates, the others order.

    Parameters
    ----------
    relevance, strength, importance
        Each 0 to 1.
    strength_share, importance_share
        a and b; each 0 to 1, together at most 1.

    Raises
    ------
    InvalidInput
        On NaN or a value out of its range, naming it.

    Examples
    --------
    >>> score([1.0, 0.5, 0.0], 1.0, 1.0)
    array([1. , 0.5, 0. ])
    """
    for name, share in (("strength_share", strength_share), ("importance_share", importance_share)):
        if not 0.0 <= share <= 1.0:
            raise InvalidInput.of(name, f"{shown(share)} is not between 0 and 1")
    if strength_share + importance_share > 1.0:
        raise InvalidInput.of(
            "strength_share", f"{strength_share} + importance_share {importance_share} is more than 1"
        )
    given = {"relevance": relevance, "strength": strength, "importance": importance}
    arrays = {name: _numbers(name, values, 0.0, 1.0) for name, values in given.items()}
    form, (relevance, strength, importance) = _aligned(**arrays)
    return _core.score(relevance, strength, importance, float(strength_share), float(importance_share)).reshape(form)


def top_k(scores: Floats, k: int) -> npt.NDArray[np.int64]:
    """Places of the k highest scores, best first; equal scores in the order they stand.

    Parameters
    ----------
    scores
        One dimension; finite or infinite, not NaN.
    k
        From 0; more than there are gives all.

    Raises
    ------
    InvalidInput
        On NaN, more than one dimension, or a negative k.

    Examples
    --------
    >>> top_k([0.1, 0.9, 0.5, 0.9], 3)
    array([1, 3, 2])
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0:
        raise InvalidInput.of("k", f"{shown(k)} is not a whole number from 0")
    array = _numbers("scores", scores, -math.inf, math.inf)
    if array.ndim != 1:
        raise InvalidInput.of("scores", f"has {array.ndim} dimensions, not 1")
    # Adding 0 makes minus zero zero: the two are equal, but not in the total order of floats.
    return _core.top_k(np.ascontiguousarray(array) + 0.0, min(int(k), array.size))


def near_duplicates(
    vectors: npt.NDArray[np.float32], texts: Sequence[str], *, min_cosine: float = 0.97, min_jaccard: float = 0.85
) -> npt.NDArray[np.int64]:
    """Pairs that say the same in nearly the same words.

    Two gates, both needed: the cosine of the vectors, and the Jaccard similarity of the words. Numbers, dates, names
    and negations that differ forbid a pair.

    Parameters
    ----------
    vectors
        float32, C-contiguous, (n, d); need not be normalised.
    texts
        n texts.
    min_cosine, min_jaccard
        The gates, 0 to 1.

    Returns
    -------
    numpy.ndarray
        (pairs, 2) places, the smaller first, in ascending order.

    Raises
    ------
    InvalidInput
        On another dtype, NaN, a zero vector, or another number of texts.

    Examples
    --------
    >>> vectors = np.eye(2, dtype=np.float32)[[0, 0, 1]]
    >>> near_duplicates(vectors, ["I like green tea.", "I like green tea", "I like green tea"])
    array([[0, 1]])
    """
    for name, gate in (("min_cosine", min_cosine), ("min_jaccard", min_jaccard)):
        if not 0.0 <= gate <= 1.0:
            raise InvalidInput.of(name, f"{shown(gate)} is not between 0 and 1")
    return _core.near_duplicates(vectors, list(texts), float(min_cosine), float(min_jaccard))
