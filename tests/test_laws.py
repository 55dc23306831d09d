"""The laws of remembering, through the kernels and through a store whose time is given: nothing here waits or reads a clock."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import Tier, TierMemory, kernels

MINUTE, HOUR, DAY, WEEK, YEAR = 60.0, 3_600.0, 86_400.0, 604_800.0, 31_557_600.0
HALF_LIFE = {"working": 30 * MINUTE, "episodic": WEEK, "semantic": 180 * DAY, "procedural": math.inf}
LONGEST = 3_652.5 * DAY
START = 1_000_000_000.0

TIERS = st.sampled_from(["working", "episodic", "semantic", "procedural"])
SHARES = st.integers(0, 100).map(lambda percent: percent / 100)
SPANS = st.floats(0, 100 * YEAR) | st.sampled_from([0.0, 1e-6, MINUTE, DAY, YEAR])


def strength(elapsed: float, half_life: float, shape: float) -> float:
    """The law of decay, as the design writes it."""
    ratio = elapsed / half_life
    return math.pow(2.0, -ratio) if math.isinf(shape) else math.pow(1.0 + (2.0 ** (1.0 / shape) - 1.0) * ratio, -shape)


def shape_of(tier: str) -> float:
    return math.inf if tier in ("working", "procedural") else 1.0


def birth(tier: str, importance: float) -> float:
    """The law of birth."""
    return HALF_LIFE[tier] * math.pow(4.0, importance - 0.5)


def after_use(half_life: float, elapsed: float, tier: str, gain: float = 1.0) -> float:
    """The law of use."""
    return min(LONGEST, half_life * (1.0 + gain * (1.0 - strength(elapsed, half_life, shape_of(tier)))))


def strength_now(mem: TierMemory, id: str, now: float) -> float:
    """The strength of a memory as a search tells it."""
    item = mem.get(id, now=now)
    hits = mem.search(item.text, k=10_000, now=now)
    return float(hits.strength[hits.ids.index(id)])


@pytest.fixture
def mem():
    """An empty store in RAM."""
    with TierMemory.open(now=START) as opened:
        yield opened


def tables(mem: TierMemory) -> list[Any]:
    """What a store has in its tables, each row."""
    statements = ("select * from memory order by row", "select * from content order by row", "select * from vector order by row",
                  "select * from edge order by newer, older", "select * from event order by row, number")  # fmt: skip
    return [mem.sql(statement) for statement in statements]


# ---------------------------------------------------------------------- decay


class TestDecay:
    @given(TIERS, SHARES, SPANS)
    def test_a_memory_is_born_and_fades_by_the_law(self, tier, importance, elapsed):
        with TierMemory.open(now=START) as mem:
            id = mem.add("apple", tier=tier, importance=importance, now=START)
            assert mem.get(id, now=START).half_life == pytest.approx(birth(tier, importance), rel=1e-6)
            found = strength_now(mem, id, START + elapsed)
            assert found == pytest.approx(
                strength(elapsed, birth(tier, importance), shape_of(tier)), rel=1e-4, abs=1e-30
            )

    @given(TIERS, SHARES, SPANS, SPANS)
    def test_strength_falls_with_time(self, tier, importance, one, other):
        with TierMemory.open(now=START) as mem:
            id = mem.add("apple", tier=tier, importance=importance, now=START)
            sooner, later = sorted((one, other))
            assert strength_now(mem, id, START) == 1.0
            assert 1.0 >= strength_now(mem, id, START + sooner) >= strength_now(mem, id, START + later) >= 0.0

    @given(SHARES, SHARES, SPANS)
    def test_what_matters_more_fades_more_slowly(self, one, other, elapsed):
        low, high = sorted((one, other))
        with TierMemory.open(now=START) as mem:
            less, more = (
                mem.add("apple", importance=share, session=f"s{share}{n}", now=START)
                for n, share in enumerate((low, high))
            )
            assert strength_now(mem, less, START + elapsed) <= strength_now(mem, more, START + elapsed)

    @given(st.sampled_from([0.2, 0.5, 1.0, 3.0, math.inf]), st.floats(MINUTE, YEAR), SPANS)
    def test_the_shape_and_the_half_life_of_a_tier_are_configuration(self, shape, half_life, elapsed):
        with TierMemory.open(
            config={"laws": {"episodic_shape": shape, "episodic_half_life": half_life}}, now=START
        ) as mem:
            id = mem.add("apple", tier="episodic", now=START)
            assert strength_now(mem, id, START + half_life) == pytest.approx(0.5, rel=1e-5)
            assert strength_now(mem, id, START + elapsed) == pytest.approx(
                strength(elapsed, half_life, shape), rel=1e-3, abs=1e-30
            )

    @pytest.mark.parametrize("tier", ["working", "episodic", "semantic", "procedural"])
    @pytest.mark.parametrize("years", [1, 100, 5_000])
    def test_pinned_and_procedural_never_fade(self, mem, tier, years):
        end = START + years * YEAR
        born_pinned = mem.add("born pinned", tier=tier, pinned=True, importance=0.0, now=START)
        pinned_later = mem.add("pinned later", tier=tier, now=START)
        mem.update(pinned_later, pinned=True, now=START + DAY)
        ids = [born_pinned, pinned_later]
        if tier == "procedural":
            ids.append(mem.add("a rule", tier=tier, importance=0.0, now=START))
            ids.append(mem.add("became a rule", tier="semantic", now=START))
            mem.update(ids[-1], tier="procedural", now=START + DAY)
        for id in ids:
            assert strength_now(mem, id, end) == 1.0
        mem.used(ids, now=end)
        assert all(math.isinf(mem.get(id, now=end).half_life) for id in ids)
        mem.consolidate(now=end)
        assert all(mem.get(id, now=end).id == id for id in ids)

    @pytest.mark.parametrize("fields", [{"tier": "procedural"}, {"pinned": True}])
    def test_not_even_when_a_half_life_is_told(self, mem, fields):
        id = mem.add("a rule", half_life=60.0, now=START, **fields)
        assert strength_now(mem, id, START + YEAR) == 1.0

    def test_released_it_fades_again(self, mem):
        id = mem.add("apple", pinned=True, now=START)
        mem.update(id, pinned=False, now=START)
        assert strength_now(mem, id, START + 180 * DAY) == pytest.approx(0.5, rel=1e-5)

    def test_a_told_half_life_is_kept(self, mem):
        id = mem.add("apple", half_life=DAY, importance=1.0, now=START)
        forever = mem.add("banana", half_life=math.inf, now=START)
        assert strength_now(mem, id, START + DAY) == pytest.approx(0.5, rel=1e-6)
        assert strength_now(mem, forever, START + 1_000 * YEAR) == 1.0

    def test_a_use_in_the_future_is_as_good_as_now(self, mem):
        id = mem.add("apple", created_at=START + YEAR, now=START)
        assert strength_now(mem, id, START) == 1.0

    def test_fading_changes_nothing_that_is_kept(self, mem):
        mem.add_many(["apple", "banana"], vectors=np.eye(2, dtype=np.float32), now=START)
        before = tables(mem)
        for year in range(50):
            mem.search("apple", now=START + year * YEAR)
            mem.list(now=START + year * YEAR)
            mem.stats(now=START + year * YEAR)
        assert tables(mem) == before


# ---------------------------------------------------------------------- use


class TestUse:
    @given(TIERS, SHARES, st.lists(st.floats(0, 60 * DAY), min_size=1, max_size=8))
    def test_each_use_is_the_law(self, tier, importance, pauses):
        with TierMemory.open(now=START) as mem:
            id = mem.add("apple", tier=tier, importance=importance, now=START)
            wanted, now = birth(tier, importance), START
            for pause in pauses:
                now = now + pause
                mem.used(id, now=now)
                wanted = wanted if math.isinf(wanted) else after_use(wanted, pause, tier)
            item = mem.get(id, now=now)
            assert item.use_count == len(pauses)
            assert item.half_life == pytest.approx(wanted, rel=1e-4)
            assert item.last_used_at.timestamp() == pytest.approx(now, abs=1e-3)
            kernel = birth(tier, importance)
            if math.isfinite(kernel):
                for pause in pauses:
                    remembered = kernels.strength(pause, kernel, shape=shape_of(tier))
                    kernel = float(kernels.reinforce(kernel, remembered, max_half_life=LONGEST))
                assert kernel == pytest.approx(item.half_life, rel=1e-4)

    @pytest.mark.parametrize("tier", ["episodic", "semantic"])
    def test_a_hundred_uses_in_a_minute_and_ten_over_ten_weeks(self, mem, tier):
        crammed, spaced = (mem.add(name, tier=tier, now=START) for name in ("crammed", "spaced"))
        for second in range(100):
            mem.used(crammed, now=START + 0.6 * second)
        for week in range(1, 11):
            mem.used(spaced, now=START + week * WEEK)
        end = START + 10 * WEEK
        born = birth(tier, 0.5)
        assert born <= mem.get(crammed, now=end).half_life < born * 1.001
        assert mem.get(spaced, now=end).half_life > born * (5.0 if tier == "episodic" else 1.3)
        assert strength_now(mem, spaced, end + 26 * WEEK) > 1.2 * strength_now(mem, crammed, end + 26 * WEEK)

    @given(st.integers(1, 100), st.floats(0, MINUTE))
    def test_a_burst_adds_no_more_than_one_use_at_its_end_would(self, uses, length):
        with TierMemory.open(now=START) as mem:
            burst, once = (mem.add(name, tier="episodic", now=START) for name in ("burst", "once"))
            for place in range(uses):
                mem.used(burst, now=START + length * (place + 1) / uses)
            mem.used(once, now=START + length)
            now = START + length
            assert mem.get(burst, now=now).half_life <= mem.get(once, now=now).half_life * (1 + 1e-4)

    @given(st.floats(0, 1), st.floats(0, 100 * YEAR), st.floats(0, 3))
    def test_gain_and_the_longest_half_life_are_configuration(self, importance, elapsed, gain):
        laws = {"gain": gain, "max_half_life": YEAR}
        with TierMemory.open(config={"laws": laws}, now=START) as mem:
            id = mem.add("apple", importance=importance, now=START)
            mem.used(id, now=START + elapsed)
            born = birth("semantic", importance)
            grown = born * (1.0 + gain * (1.0 - strength(elapsed, born, 1.0)))
            assert mem.get(id, now=START + elapsed).half_life == pytest.approx(min(grown, YEAR), rel=1e-4)

    def test_use_is_bounded(self, mem):
        id = mem.add("apple", now=START)
        for decade in range(1, 40):
            mem.used(id, now=START + 10 * decade * YEAR)
        assert mem.get(id, now=START + 400 * YEAR).half_life == pytest.approx(LONGEST, rel=1e-6)

    def test_being_found_is_not_being_used(self, mem):
        id = mem.add("apple", now=START)
        before = tables(mem)
        for day in range(30):
            hits = mem.search("apple", now=START + day * DAY)
            assert hits[0].id == id
            mem.get(id, now=START + day * DAY)
            mem.brief("apple", now=START + day * DAY)
        mem.maintain(now=START + 30 * DAY)
        assert tables(mem) == before

    @given(st.lists(st.floats(0, 30 * DAY), min_size=1, max_size=6), SHARES, SHARES)
    def test_hearing_it_again_is_a_use_that_counts_as_repetition(self, pauses, first, again):
        with TierMemory.open(now=START) as mem:
            id = mem.add("apple", importance=first, now=START)
            wanted, now = birth("semantic", first), START
            for pause in pauses:
                now = now + pause
                added = mem.add("apple", importance=again, now=now)
                assert (added, added.created, added.reinforced) == (id, False, True)
                wanted = after_use(wanted, pause, "semantic")
            item = mem.get(id, now=now)
            assert (item.repeat_count, item.use_count) == (len(pauses), 0)
            assert item.importance == max(first, again)
            assert item.half_life == pytest.approx(wanted, rel=1e-4)
            assert mem.count(now=now) == 1


# ---------------------------------------------------------------------- score


class TestScore:
    @given(SHARES, SHARES, SPANS)
    def test_a_score_is_the_law(self, importance, a, elapsed):
        a, b = a / 2, (1 - a) / 2
        laws = {"strength_share": a, "importance_share": b}
        with TierMemory.open(config={"laws": laws}, now=START) as mem:
            mem.add("apple pie with cream", importance=importance, now=START)
            (hit,) = mem.search("apple tart", now=START + elapsed)
            assert hit.score == pytest.approx(hit.relevance * (1 - a - b + a * hit.strength + b * importance), rel=1e-4)
            assert 0.0 <= hit.score <= hit.relevance <= 1.0
            kernel = kernels.score(hit.relevance, hit.strength, importance, strength_share=a, importance_share=b)
            assert hit.score == pytest.approx(float(kernel), rel=1e-4)

    @given(st.lists(SHARES, min_size=1, max_size=10))
    def test_importance_lifts_nothing_that_is_irrelevant(self, importances):
        assert (kernels.score(0.0, 1.0, importances) == 0.0).all()
        with TierMemory.open(now=START) as mem:
            east, north = np.array([[1, 0], [0, 1]], np.float32)
            items = [{"text": f"apple {n}", "importance": share, "pinned": True} for n, share in enumerate(importances)]
            mem.add_many(items, vectors=np.tile(east, (len(items), 1)), now=START)
            wanted = mem.add("zebra", vector=north, importance=0.0, now=START - YEAR)
            assert mem.search("zebra", k=100, now=START).ids == [wanted]
            assert mem.search(vector=north, k=100, now=START).ids == [wanted]
            assert mem.search("zebra", vector=north, k=100, now=START).ids == [wanted]
            assert mem.search(vector=-east, k=100, now=START).ids == []

    @given(st.floats(0, 10 * YEAR), st.floats(0, 10 * YEAR), TIERS, SHARES)
    def test_the_newer_of_two_equals_never_scores_lower(self, one, other, tier, importance):
        older, newer = sorted((one, other))
        now = START + 10 * YEAR
        with TierMemory.open(now=START) as mem:
            vectors = np.ones((2, 3), np.float32)
            items = [
                {"text": "apple", "session": str(place), "created_at": START + at}
                for place, at in enumerate((older, newer))
            ]
            first, second = mem.add_many(items, tier=tier, importance=importance, vectors=vectors, now=now)
            for question in ({"query": "apple"}, {"vector": vectors[0]}, {"query": "apple", "vector": vectors[0]}):
                hits = mem.search(**question, now=now)
                scores = dict(zip(hits.ids, hits.scores, strict=True))
                assert scores[second] >= scores[first]

    @given(SHARES, SHARES)
    def test_of_two_equals_the_more_important_comes_first(self, one, other):
        with TierMemory.open(now=START) as mem:
            ids = [
                mem.add("apple", session=f"s{n}", importance=share, now=START) for n, share in enumerate((one, other))
            ]
            hits = mem.search("apple", now=START)
            if one != other:
                assert hits.ids[0] == ids[int(other > one)]


# ---------------------------------------------------------------------- consolidation


def named(report) -> tuple[set[str], set[str], set[str], set[str]]:
    """The ids of a report: promoted, folded into another, let go, ended."""
    return (
        {one.id for one in report.promoted},
        {id for one in report.merged for id in one.absorbed},
        {one.id for one in report.let_go},
        {one.id for one in report.expired},
    )


def is_empty(report) -> bool:
    return not (report.promoted or report.merged or report.let_go or report.expired)


class TestWorkingMemory:
    @given(
        st.integers(1, 60),
        st.randoms(use_true_random=False),
        st.integers(2, 30),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    )
    def test_what_overflows_is_kept_or_let_go_by_name(self, count, random, capacity, share):
        config = {"working": {"capacity": capacity, "keep_share": share}}
        with TierMemory.open(config=config, now=START) as mem:
            worth: dict[str, tuple[float, float]] = {}
            for place in range(count):
                at, importance = START + random.random() * 10 * MINUTE, random.randrange(101) / 100
                id = mem.add(f"note {place}", tier="working", session="s", importance=importance, now=at)
                worth[id] = (importance, at)
            now = START + 11 * MINUTE
            report = mem.consolidate(now=now)
            promoted, merged, let_go, expired = named(report)
            oldest_first = sorted(worth, key=lambda one: worth[one][1])
            staying = math.ceil(capacity / 2)
            leaving = set(oldest_first[: count - staying]) if count > capacity else set()
            assert promoted | let_go == leaving
            assert not promoted & let_go
            assert not merged
            assert not expired
            assert len(promoted) == math.ceil(len(leaving) * share)
            # The best by importance and strength stay in memory, judged at one time for all of them.
            then = max((worth[id][1] for id in leaving), default=0.0)

            def value(id: str) -> float:
                importance, at = worth[id]
                return importance * strength(then - at, birth("working", importance), math.inf)

            if promoted and let_go:
                assert min(map(value, promoted)) >= max(map(value, let_go)) - 1e-5
            assert mem.count(tiers="working", now=now) == count - len(leaving)
            assert mem.count(tiers="episodic", now=now) == len(promoted)
            assert mem.count(now=now) == count - len(let_go)
            for one in report.promoted:
                assert (one.from_tier, one.to_tier) == ("working", "episodic")
                assert "overflow" in one.reason
                assert mem.get(one.id, now=now).half_life >= birth("episodic", worth[one.id][0]) * (1 - 1e-6)
            for gone in report.let_go:
                assert gone.preview.startswith("note ")
                assert (gone.tier, "overflow" in gone.reason) == ("working", True)
            mem.restore(sorted(let_go), now=now)
            assert mem.count(now=now) == count

    def test_sessions_overflow_apart(self, mem):
        for session, count in (("a", 25), ("b", 20), (None, 21)):
            mem.add_many([f"note {n}" for n in range(count)], tier="working", session=session, now=START)
        promoted, _, let_go, _ = named(mem.consolidate(now=START + MINUTE))
        assert (len(promoted), len(let_go)) == (8 + 6, 7 + 5)
        assert mem.count(tiers="working", session="a", now=START) == 10
        assert mem.count(tiers="working", session="b", now=START) == 20

    def test_what_lies_idle_leaves(self, mem):
        idle = mem.add_many([f"old {n}" for n in range(4)], tier="working", session="s", importance=0.5, now=START)
        fresh = mem.add("new", tier="working", session="s", now=START + 20 * MINUTE)
        mem.used(idle[3], now=START + 20 * MINUTE)
        promoted, _, let_go, _ = named(mem.consolidate(now=START + 31 * MINUTE))
        assert (len(promoted), len(let_go)) == (2, 1)
        assert promoted | let_go == set(idle[:3])
        assert [item.id for item in mem.list(tiers="working", now=START + 31 * MINUTE)] == [idle[3], fresh]

    def test_the_pinned_stay(self, mem):
        pinned = mem.add_many([f"rule {n}" for n in range(30)], tier="working", session="s", pinned=True, now=START)
        assert is_empty(mem.consolidate(now=START + YEAR))
        assert mem.count(tiers="working", now=START + YEAR) == len(pinned)

    def test_what_has_ended_is_let_go_and_named(self, mem):
        ends = {tier: mem.add(f"{tier} ends", tier=tier, expires_at=START + DAY, now=START) for tier in HALF_LIFE}
        stays = mem.add("stays", expires_at=START + 3 * DAY, now=START)
        report = mem.consolidate(now=START + 2 * DAY)
        assert named(report) == (set(), set(), set(), set(ends.values()))
        assert {one.preview for one in report.expired} == {f"{tier} ends" for tier in HALF_LIFE}
        assert [item.id for item in mem.list(now=START + 2 * DAY)] == [stays]


class TestPromotion:
    def test_three_spaced_uses_of_what_matters(self, mem):
        cases: dict[str, tuple[float, list[float]]] = {
            "proven": (0.7, [1, 2, 3]), "not enough": (0.7, [1, 2]), "no matter": (0.69, [1, 2, 3, 4]),
            "crammed": (0.9, [1.0, 1.01, 1.02, 1.03]), "never used": (1.0, []), "too soon": (0.9, [0.5, 1.2, 1.9, 2.6]),
        }  # fmt: skip
        ids = {name: mem.add(name, tier="episodic", importance=share, now=START) for name, (share, _) in cases.items()}
        for at, name in sorted((at, name) for name, (_, uses) in cases.items() for at in uses):
            mem.used(ids[name], now=START + at * HOUR)
        before = {name: mem.get(id, now=START + 5 * HOUR).half_life for name, id in ids.items()}
        report = mem.consolidate(now=START + 5 * HOUR)
        assert named(report) == ({ids["proven"]}, set(), set(), set())
        (one,) = report.promoted
        assert (one.from_tier, one.to_tier) == ("episodic", "semantic")
        promoted = mem.get(ids["proven"], now=START + 5 * HOUR)
        assert promoted.tier == "semantic"
        assert promoted.half_life == pytest.approx(max(before["proven"], birth("semantic", 0.7)), rel=1e-6)
        assert [event["kind"] for event in mem.history(promoted.id)][-1] == "promote"

    def test_its_numbers_are_configuration(self):
        settings_ = {"promote_uses": 1, "promote_importance": 0.2, "use_spacing": 10.0, "promote_sessions": 2}
        with TierMemory.open(config={"consolidation": settings_}, now=START) as mem:
            used = mem.add("used once", tier="episodic", importance=0.2, now=START)
            mem.used(used, now=START + 11)
            twice = [mem.add("said twice", tier="episodic", session=session, now=START) for session in ("a", "b")]
            assert named(mem.consolidate(now=START + MINUTE)) == ({used, twice[0]}, {twice[1]}, set(), set())

    @pytest.mark.parametrize("sessions", [1, 2, 3, 5])
    def test_said_in_enough_sessions(self, mem, sessions):
        ids = [
            mem.add("Prefers tea", tier="episodic", session=f"s{n}", about="Anna", now=START + n * DAY)
            for n in range(sessions)
        ]
        for _ in range(4):
            mem.add("Prefers tea", tier="episodic", session="s0", about="Anna", now=START + 9 * DAY)
        now = START + 10 * DAY
        report = mem.consolidate(now=now)
        if sessions < 3:
            assert is_empty(report)
            return
        assert named(report) == ({ids[0]}, set(ids[1:]), set(), set())
        assert mem.count(now=now) == 1
        survivor = mem.get(ids[0], now=now)
        assert survivor.tier == "semantic"
        assert set(survivor.derived_from) == set(ids[1:])
        assert survivor.last_used_at.timestamp() == START + 9 * DAY
        for id in ids[1:]:
            assert mem.get(id, now=now).text == "Prefers tea", "what was folded in is still read by its id"

    @pytest.mark.parametrize(
        "differs",
        [
            {"about": ["Anna", "Otto", "Eva"]},
            {"labels": [["a"], ["b"], ["c"]]},
            {"tier": ["episodic", "semantic", "working"]},
        ],
    )
    def test_about_others_or_under_other_labels_it_is_not_the_same(self, mem, differs):
        ((name, values),) = differs.items()
        for place, value in enumerate(values):
            mem.add("Prefers tea", **{"tier": "episodic", "session": f"s{place}", name: value}, now=START)
        assert is_empty(mem.consolidate(now=START + MINUTE))

    def test_told_explicitly(self, mem):
        id = mem.add("Prefers tea", tier="episodic", now=START)
        mem.update(id, tier="semantic", now=START)
        item = mem.get(id, now=START)
        assert (item.tier, item.half_life) == ("semantic", pytest.approx(birth("semantic", 0.5), rel=1e-6))


SAME = ("The report is due on Friday, please remember it", "The report is due on Friday; please remember it!")


class TestMerging:
    def pair(
        self, mem: TierMemory, first: dict[str, Any], second: dict[str, Any], *, texts=SAME, angle: float = 0.0
    ) -> list[str]:
        """Two memories that say nearly the same, an angle apart."""
        vectors = np.array([[1, 0], [math.cos(angle), math.sin(angle)]], np.float32)
        items = [{"text": texts[0], **first}, {"text": texts[1], **second}]
        return list(mem.add_many(items, vectors=vectors, now=START))

    def test_the_survivor_keeps_what_both_had(self, mem):
        old, new = self.pair(mem, {"importance": 0.4, "trust": 0.9}, {"importance": 0.8, "trust": 0.6, "tags": ["x"]})
        mem.used([old, new], now=START + 30 * DAY)
        mem.used(new, now=START + 60 * DAY)
        longest = max(mem.get(id, now=START).half_life for id in (old, new))
        now = START + 61 * DAY
        report = mem.consolidate(now=now)
        assert named(report) == (set(), {new}, set(), set())
        (merged,) = report.merged
        assert (merged.id, merged.absorbed) == (old, (new,))
        item = mem.get(old, now=now)
        assert (item.use_count, item.repeat_count) == (3, 1)
        assert item.half_life == longest
        assert (item.importance, item.derived_from) == (0.8, (new,))
        assert item.trust == 0.6, "no more trusted than the less trusted of both"
        assert item.last_used_at.timestamp() == START + 60 * DAY
        assert mem.get(new, now=now).text == SAME[1]
        assert mem.search(SAME[1], now=now).ids == [old]
        stats = mem.stats(now=now)
        assert (stats.alive, stats.merged) == (1, 1)

    def test_merging_is_idempotent(self, mem):
        self.pair(mem, {}, {})
        mem.add(SAME[0] + ".", vector=np.array([1, 0], np.float32), now=START)
        assert len(named(mem.consolidate(now=START))[1]) == 2
        before = tables(mem)
        for _ in range(3):
            assert is_empty(mem.consolidate(now=START))
        assert tables(mem) == before

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"about": "Anna"}, {"about": "Otto"}), ({}, {"about": "Otto"}), ({"tier": "episodic"}, {"tier": "semantic"}),
            ({"labels": ["health"]}, {}), ({"labels": ["health"]}, {"labels": ["finance"]}),
        ],
    )  # fmt: skip
    def test_another_subject_tier_or_label_forbids_it(self, mem, first, second):
        self.pair(mem, first, second)
        assert is_empty(mem.consolidate(now=START))

    @pytest.mark.parametrize(
        "texts",
        [
            ("The flight to Oslo leaves at 10:35 from gate B", "The flight to Oslo leaves at 10:45 from gate B"),
            ("Please send the weekly report to Anna by mail", "Please send the weekly report to Otto by mail"),
            ("He does like the new plan for the office move", "He does not like the new plan for the office move"),
            ("会议改到5月3日下午三点在二楼会议室", "会议改到5月4日下午三点在二楼会议室"),
            ("张主任喜欢正式的邮件语气，请注意格式", "李主任喜欢正式的邮件语气，请注意格式"),
        ],
    )
    def test_numbers_dates_and_names_that_differ_forbid_it(self, mem, texts):
        self.pair(mem, {}, {}, texts=texts)
        assert is_empty(mem.consolidate(now=START))

    def test_both_gates_are_needed(self, mem):
        self.pair(mem, {}, {}, angle=math.acos(0.96))
        assert is_empty(mem.consolidate(now=START))
        self.pair(mem, {"about": "x"}, {"about": "x"}, texts=("I like green tea", "She plays the piano"))
        assert is_empty(mem.consolidate(now=START))
        mem.add_many([{"text": text, "about": "no vectors"} for text in SAME], now=START)
        assert is_empty(mem.consolidate(now=START))

    def test_just_within_both_gates(self, mem):
        self.pair(mem, {}, {}, angle=math.acos(0.98))
        assert len(named(mem.consolidate(now=START))[1]) == 1

    def test_what_came_up_from_working_memory_is_merged_too(self, mem):
        """A promoted memory is as new to its tier as one that was added to it."""
        vector = np.array([1, 0], np.float32)
        known = mem.add(SAME[0], tier="episodic", vector=vector, now=START)
        mem.consolidate(now=START)
        told = mem.add(SAME[1], tier="working", vector=vector, now=START)
        now = START + HOUR
        mem.consolidate(now=now)
        assert [item.id for item in mem.list(now=now)] == [known]
        assert mem.get(told, now=now).text == SAME[1]
        assert mem.get(known, now=now).derived_from == (told,)


WORDING = ["The report is due on Friday, please remember it", "The report is due on Friday; please remember it!", "I like green tea", "I like green tea.",
           "茶比咖啡好喝很多", "茶比咖啡好喝很多。", "She plays the piano"]  # fmt: skip


class TestConsolidationAsAWhole:
    ITEMS = st.lists(
        st.tuples(
            st.sampled_from(WORDING), st.sampled_from(["working", "episodic", "semantic", "procedural"]), st.sampled_from([None, "a", "b", "c"]),
            st.sampled_from([None, "Li"]), st.sampled_from([0.2, 0.7, 1.0]), st.integers(0, 5), st.sampled_from([None, 2 * HOUR]), st.booleans(),
        ),
        max_size=25,
    )  # fmt: skip

    def filled(self, mem: TierMemory, drawn) -> float:
        """Adds and uses what was drawn; gives the time after it."""
        vectors = {text: np.eye(4, dtype=np.float32)[place // 2] for place, text in enumerate(WORDING)}
        ids = []
        for place, (text, tier, session, about, importance, uses, ends, pinned) in enumerate(drawn):
            at = START + place * MINUTE
            id = mem.add(text, tier=tier, session=session, about=about, importance=importance, pinned=pinned,
                         expires_at=None if ends is None else at + ends, vector=vectors[text], now=at)  # fmt: skip
            ids += [(id, math.inf if ends is None else at + ends)] * uses
        for round_, (id, end) in enumerate(ids):
            used_at = START + (1 + round_ % 3) * HOUR
            if used_at < end:
                mem.used(id, now=used_at)
        return START + 5 * HOUR

    @settings(max_examples=60)
    @given(ITEMS)
    def test_done_twice_it_does_nothing_the_second_time(self, drawn):
        with TierMemory.open(config={"working": {"capacity": 3}}, now=START) as mem:
            now = self.filled(mem, drawn)
            mem.consolidate(now=now)
            before = tables(mem)
            again = mem.consolidate(now=now)
            assert is_empty(again), again
            assert tables(mem) == before

    def test_from_working_memory_it_may_climb_two_tiers_at_once(self, mem):
        id = mem.add("Prefers tea", tier="working", importance=0.9, now=START)
        for hour in (1, 2, 3):
            mem.used(id, now=START + hour * HOUR)
        mem.consolidate(now=START + 5 * HOUR)
        assert mem.get(id, now=START + 5 * HOUR).tier == "semantic"
        assert is_empty(mem.consolidate(now=START + 5 * HOUR))

    @settings(max_examples=60)
    @given(ITEMS)
    def test_nothing_moves_or_goes_without_being_named(self, drawn):
        with TierMemory.open(config={"working": {"capacity": 3}}, now=START) as mem:
            now = self.filled(mem, drawn)
            living = {item.id: item for item in mem.list(limit=100, now=now)}
            rows = {row["id"]: row for row in mem.sql("select id, state, tier from memories")}
            foreseen = mem.consolidate(dry_run=True, now=now)
            assert {row["id"]: row for row in mem.sql("select id, state, tier from memories")} == rows
            report = mem.consolidate(now=now)
            assert report == foreseen
            promoted, merged, let_go, expired = named(report)
            assert sum(map(len, (promoted, merged, let_go, expired))) == len(promoted | merged | let_go | expired)
            after = {row["id"]: row for row in mem.sql("select id, state, tier from memories")}
            changed = {id for id in rows if after[id] != rows[id]}
            assert changed == promoted | merged | let_go | expired
            assert {item.id for item in mem.list(limit=100, now=now)} == living.keys() - merged - let_go
            for one in report.merged:
                assert one.id not in let_go | expired
                assert set(one.absorbed) <= set(mem.get(one.id, now=now).derived_from)
            assert not any(item.pinned and id in let_go for id, item in living.items())


# ---------------------------------------------------------------------- a year


def a_year(path: str | None) -> tuple[list[Any], dict[str, str], list[str]]:
    """A year of an agent's life, one turn a day and what follows from it: its tables, who is who, and what happened."""
    happened: list[str] = []
    with TierMemory.open(path, config={"id_seed": 7}, now=START) as mem:
        who: dict[str, str] = {
            "weekly": mem.add("the weekly report has three sections", tier="episodic", importance=0.8, now=START),
            "unused": mem.add("the visitor wore a green hat", tier="episodic", importance=0.8, now=START),
            "rule": mem.add("never send mail on Sunday", tier="procedural", now=START),
        }
        for day in range(1, 366):
            now = START + day * DAY
            for turn in range(3):
                mem.add(
                    f"turn {turn} of day {day}",
                    tier="working",
                    session=f"day {day}",
                    importance=(day + turn) % 10 / 10,
                    now=now + turn,
                )
            if day % 7 == 0:
                mem.used(who["weekly"], now=now)
            if day % 50 == 0:
                who["weekly"] = mem.supersede(who["weekly"], f"the weekly report has {day} sections", now=now)
            report = mem.consolidate(now=now + 2 * HOUR)
            happened.append(str(report))
        end = START + 366 * DAY
        hits = mem.search("weekly report sections", k=3, now=end)
        happened += [f"{id} {score:.6f}" for id, score in zip(hits.ids, hits.scores, strict=True)]
        assert hits.ids == [who["weekly"]]
        assert strength_now(mem, who["rule"], end) == 1.0
        assert strength_now(mem, who["unused"], end) == pytest.approx(
            strength(366 * DAY, birth("episodic", 0.8), 1.0), rel=1e-4
        )
        counts = mem.stats(now=end).tiers
        assert counts[Tier.WORKING] == 0
        # Of three turns a day the better two become episodes.
        assert counts[Tier.EPISODIC] == 365 * 2 + 1 + (mem.get(who["weekly"], now=end).tier == "episodic")
        assert mem.stats(now=end).superseded == 7
        return tables(mem), who, happened


class TestAYear:
    def test_comes_out_the_same_each_time(self, tmp_path):
        first, second, on_disk = a_year(None), a_year(None), a_year(str(tmp_path / "year"))
        assert first == second
        assert first == on_disk

    @settings(max_examples=20)
    @given(st.lists(st.integers(1, 365), max_size=12, unique=True))
    def test_used_on_more_days_it_is_stronger_at_the_end(self, days):
        """Each use more, wherever it falls before the last, never leaves a memory weaker."""
        days = sorted(days)
        end = START + 400 * DAY
        with TierMemory.open(now=START) as mem:
            ids = [mem.add(f"memory {n}", tier="episodic", now=START) for n in range(len(days) + 1)]
            for place, id in enumerate(ids):
                for day in days[len(days) - place :]:
                    mem.used(id, now=START + day * DAY)
            strengths = [strength_now(mem, id, end) for id in ids]
            assert all(weaker <= stronger + 1e-6 for weaker, stronger in itertools.pairwise(strengths))
