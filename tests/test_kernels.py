"""The kernels against the same formulas in numpy, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tiermem_fast import InvalidInput, kernels

SHAPES = st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.5, math.inf])
ELAPSED = st.floats(0, 1e10)
HALF_LIFE = st.floats(1e-3, 1e10) | st.just(math.inf)
SHARE = st.floats(0, 1)


def column(values: st.SearchStrategy[float], length: int = 20) -> st.SearchStrategy[np.ndarray]:
    """Float64 arrays of one length."""
    return arrays.arrays(np.float64, length, elements=values)


def strength(elapsed: Any, half_life: Any, shape: float) -> Any:
    """The law as DESIGN writes it."""
    ratio = elapsed / half_life
    if math.isinf(shape):
        return 2.0**-ratio
    return (1.0 + (2.0 ** (1.0 / shape) - 1.0) * ratio) ** -shape


@given(column(ELAPSED), column(HALF_LIFE), SHAPES)
def test_strength_is_the_formula(elapsed, half_life, shape):
    found = kernels.strength(elapsed, half_life, shape=shape)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, strength(elapsed, half_life, shape), rtol=1e-9, atol=1e-300)
    assert ((found >= 0) & (found <= 1)).all()


@given(column(HALF_LIFE), column(SHARE), st.floats(0, 100), st.floats(1, 1e12) | st.just(math.inf))
def test_reinforce_is_the_formula(half_life, before, gain, longest):
    found = kernels.reinforce(half_life, before, gain=gain, max_half_life=longest)
    finite = np.isfinite(half_life)
    wanted = np.minimum(longest, half_life[finite] * (1 + gain * (1 - before[finite])))
    np.testing.assert_allclose(found[finite], wanted, rtol=1e-12)
    assert np.isinf(found[~finite]).all(), "what never fades stays so"


@given(column(SHARE), column(SHARE), column(SHARE), SHARE, SHARE)
def test_score_is_the_formula(relevance, remembered, importance, a, b):
    a, b = a / 2, b / 2
    found = kernels.score(relevance, remembered, importance, strength_share=a, importance_share=b)
    np.testing.assert_allclose(found, relevance * (1 - a - b + a * remembered + b * importance), rtol=1e-12, atol=1e-15)


@given(
    arrays.arrays(
        np.float64,
        st.integers(0, 60),
        elements=st.integers(-4, 4).map(float) | st.sampled_from([math.inf, -math.inf, -0.0]),
    ),
    st.integers(0, 80),
)
def test_top_k_is_a_stable_sort(scores, k):
    found = kernels.top_k(scores, k)
    assert found.dtype == np.int64
    assert found.tolist() == sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:k]


class TestForms:
    def test_scalars_give_arrays_without_dimension(self):
        for found in (kernels.strength(1, 1), kernels.reinforce(60, 0), kernels.score(1, 1, 1)):
            assert isinstance(found, np.ndarray)
            assert found.shape == ()
        assert float(kernels.strength(60, 60)) == 0.5
        assert float(kernels.reinforce(60, 0.0)) == 120.0
        assert float(kernels.score(1.0, 1.0, 1.0)) == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("left", "right", "shape"),
        [
            ((3,), (), (3,)),
            ((3, 1), (4,), (3, 4)),
            ((2, 3, 4), (1, 4), (2, 3, 4)),
            ((0,), (1,), (0,)),
            ((1, 0), (5, 1), (5, 0)),
        ],
    )
    def test_arrays_broadcast(self, left, right, shape):
        elapsed = np.arange(math.prod(left), dtype=float).reshape(left)
        half_life = np.arange(1.0, math.prod(right) + 1).reshape(right)
        found = kernels.strength(elapsed, half_life)
        assert found.shape == shape
        np.testing.assert_allclose(found, strength(elapsed, half_life, 1.0))
        assert kernels.reinforce(half_life, np.zeros(left)).shape == shape
        assert kernels.score(np.zeros(left), np.zeros(right), 1.0).shape == shape

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64, np.bool_])
    def test_any_numbers_are_read(self, dtype):
        np.testing.assert_allclose(kernels.strength(np.ones(3, dtype), np.ones(3, dtype)), 0.5)

    def test_neither_order_nor_stride_matters(self):
        elapsed = np.arange(24.0).reshape(4, 6)
        wanted = strength(elapsed, np.float64(7.0), 1.0)
        for given_form in (np.asfortranarray(elapsed), elapsed.tolist()):
            np.testing.assert_allclose(kernels.strength(given_form, 7.0), wanted)
        np.testing.assert_allclose(kernels.strength(elapsed[::-1, ::2], 7.0), wanted[::-1, ::2])
        np.testing.assert_allclose(kernels.strength(elapsed.T, 7.0), wanted.T)

    def test_the_input_is_not_written_to(self):
        elapsed = np.arange(5.0)
        elapsed.flags.writeable = False
        assert kernels.strength(elapsed, 1.0).flags.writeable


REFUSED = [
    (kernels.strength, (math.nan, 1.0), {}, "elapsed"),
    (kernels.strength, (-1.0, 1.0), {}, "elapsed"),
    (kernels.strength, ("x", 1.0), {}, "elapsed"),
    (kernels.strength, (None, 1.0), {}, "elapsed"),
    (kernels.strength, ([1.0, [2.0]], 1.0), {}, "elapsed"),
    (kernels.strength, (1.0, 0.0), {}, "half_life"),
    (kernels.strength, (1.0, -5.0), {}, "half_life"),
    (kernels.strength, (1.0, [1.0, math.nan]), {}, "half_life"),
    (kernels.strength, (1.0, 1.0), {"shape": 0.0}, "shape"),
    (kernels.strength, (1.0, 1.0), {"shape": -1.0}, "shape"),
    (kernels.strength, (1.0, 1.0), {"shape": math.nan}, "shape"),
    (kernels.strength, ([1.0, 2.0], [1.0, 2.0, 3.0]), {}, "elapsed"),
    (kernels.reinforce, (0.0, 0.5), {}, "half_life"),
    (kernels.reinforce, (1.0, 1.5), {}, "strength"),
    (kernels.reinforce, (1.0, -0.1), {}, "strength"),
    (kernels.reinforce, (1.0, math.nan), {}, "strength"),
    (kernels.reinforce, (1.0, 0.5), {"gain": -1.0}, "gain"),
    (kernels.reinforce, (1.0, 0.5), {"gain": math.nan}, "gain"),
    (kernels.reinforce, (1.0, 0.5), {"gain": math.inf}, "gain"),
    (kernels.reinforce, (1.0, 0.5), {"max_half_life": 0.0}, "max_half_life"),
    (kernels.reinforce, (1.0, 0.5), {"max_half_life": math.nan}, "max_half_life"),
    (kernels.score, (1.1, 0.5, 0.5), {}, "relevance"),
    (kernels.score, (0.5, math.nan, 0.5), {}, "strength"),
    (kernels.score, (0.5, 0.5, -0.5), {}, "importance"),
    (kernels.score, (0.5, 0.5, 0.5), {"strength_share": 1.5}, "strength_share"),
    (kernels.score, (0.5, 0.5, 0.5), {"importance_share": math.nan}, "importance_share"),
    (kernels.score, (0.5, 0.5, 0.5), {"strength_share": 0.6, "importance_share": 0.6}, "strength_share"),
    (kernels.top_k, ([1.0, math.nan], 1), {}, "scores"),
    (kernels.top_k, ([[1.0]], 1), {}, "scores"),
    (kernels.top_k, (1.0, 1), {}, "scores"),
    (kernels.top_k, ([1.0], -1), {}, "k"),
    (kernels.top_k, ([1.0], True), {}, "k"),
    (kernels.top_k, ([1.0], 1.0), {}, "k"),
    (kernels.top_k, ([1.0], None), {}, "k"),
]


@pytest.mark.parametrize(("kernel", "given_values", "options", "argument"), REFUSED)
def test_what_has_no_meaning_is_refused_by_name(kernel, given_values, options, argument):
    with pytest.raises(InvalidInput) as caught:
        kernel(*given_values, **options)
    assert caught.value.argument == argument


@given(ELAPSED, ELAPSED, HALF_LIFE, HALF_LIFE, SHAPES)
def test_strength_falls_with_time_and_rises_with_half_life(one, other, short, long, shape):
    sooner, later = sorted((one, other))
    short, long = sorted((short, long))
    assert kernels.strength(sooner, short, shape=shape) >= kernels.strength(later, short, shape=shape)
    assert kernels.strength(later, short, shape=shape) <= kernels.strength(later, long, shape=shape)
    assert kernels.strength(0.0, short, shape=shape) == 1.0
    if math.isfinite(short):
        assert kernels.strength(short, short, shape=shape) == pytest.approx(0.5, rel=1e-12)


class TestNearDuplicates:
    TEXTS = (
        "The report is due on Friday, please remember it",
        "The report is due on Friday; please remember it!",
        "The report is due on Monday, please remember it",
        "I like green tea in the morning",
        "I like green tea in the morning.",
        "She plays the piano",
    )

    def test_both_gates_are_needed(self):
        same = np.ones((6, 8), np.float32)
        assert kernels.near_duplicates(same, self.TEXTS).tolist() == [[0, 1], [3, 4]]
        apart = np.eye(6, 8, dtype=np.float32)
        assert kernels.near_duplicates(apart, self.TEXTS).shape == (0, 2)
        assert kernels.near_duplicates(apart, self.TEXTS, min_cosine=0.0).tolist() == [[0, 1], [3, 4]]

    def test_the_cosine_gate_is_numpys(self):
        """With one text for all, the pairs are those of a plain matrix product, but for the width of a float16."""
        random = np.random.default_rng(7)
        centres = random.normal(size=(12, 32))
        vectors = (centres[random.integers(0, 12, 150)] + 0.12 * random.normal(size=(150, 32))).astype(np.float32)
        units = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = units @ units.T
        pairs = {
            tuple(pair) for pair in kernels.near_duplicates(vectors, ["the same words"] * 150, min_cosine=0.97).tolist()
        }
        places = np.triu_indices(150, 1)
        certain = {(int(i), int(j)) for i, j in zip(*places, strict=True) if cosines[i, j] >= 0.971}
        possible = {(int(i), int(j)) for i, j in zip(*places, strict=True) if cosines[i, j] >= 0.969}
        assert len(certain) > 100
        assert certain <= pairs <= possible

    def test_length_does_not_matter(self):
        vectors = np.array([[1, 0], [1000, 0], [1e-3, 0]], np.float32)
        assert kernels.near_duplicates(vectors, ["same"] * 3).tolist() == [[0, 1], [0, 2], [1, 2]]

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ("The flight leaves at 10:35 from gate B", "The flight leaves at 10:45 from gate B"),
            ("Send the weekly report to Anna by mail please", "Send the weekly report to Otto by mail please"),
            ("He does like the new plan for the office", "He does not like the new plan for the office"),
            ("会议改到5月3日下午三点在二楼会议室", "会议改到5月4日下午三点在二楼会议室"),
            ("张主任喜欢正式的邮件语气，请注意格式", "李主任喜欢正式的邮件语气，请注意格式"),
        ],
    )
    def test_numbers_names_and_negations_that_differ_forbid_it(self, left, right):
        vectors = np.ones((2, 4), np.float32)
        assert kernels.near_duplicates(vectors, [left, right], min_jaccard=0.0).shape == (0, 2)
        assert kernels.near_duplicates(vectors, [left, left]).tolist() == [[0, 1]]

    def test_nothing_gives_nothing(self):
        found = kernels.near_duplicates(np.zeros((0, 3), np.float32), [])
        assert found.shape == (0, 2)
        assert found.dtype == np.int64
        assert kernels.near_duplicates(np.ones((1, 3), np.float32), ["x"]).shape == (0, 2)

    @pytest.mark.parametrize(
        ("vectors", "texts", "options", "argument"),
        [
            (np.ones((2, 2)), ["a", "b"], {}, "vectors"),
            (np.ones((2, 2), np.float32), ["a"], {}, "texts"),
            (np.ones((2, 2), np.float32), ["a", 3], {}, "texts"),
            (np.ones((2, 2), np.float32), ["a", "\ud800"], {}, "texts"),
            (np.zeros((2, 2), np.float32), ["a", "b"], {}, "vectors"),
            (np.full((2, 2), np.nan, np.float32), ["a", "b"], {}, "vectors"),
            (np.ones(2, np.float32), ["a", "b"], {}, "vectors"),
            (np.ones((4, 2), np.float32)[::2], ["a", "b"], {}, "vectors"),
            ([[1.0]], ["a"], {}, "vectors"),
            (np.ones((1, 1), np.float32), ["a"], {"min_cosine": 1.5}, "min_cosine"),
            (np.ones((1, 1), np.float32), ["a"], {"min_jaccard": math.nan}, "min_jaccard"),
        ],
    )
    def test_bad_input_is_refused(self, vectors, texts, options, argument):
        with pytest.raises(InvalidInput) as caught:
            kernels.near_duplicates(vectors, texts, **options)
        assert caught.value.argument == argument
