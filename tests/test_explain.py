"""Explaining: the parts of a score add up to it, every absence has its reason, and curves follow the laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import Grant, InvalidInput, MemoryNotFound, TierMemory

NOW = 1_700_000_000.0
DAY = 86_400.0


@pytest.fixture(params=[None, "lexical"], ids=["keywords", "lexical"])
def mem(request):
    with TierMemory.open(embedder=request.param, now=NOW) as opened:
        yield opened


class TestRank:
    def test_the_parts_make_the_score(self, mem):
        texts = ["green tea in the morning", "tea at noon", "coffee at night", "the train to Ghent"]
        ids = [mem.add(text, importance=0.2 * place + 0.1, now=NOW) for place, text in enumerate(texts)]
        hits = mem.search("tea in the morning", k=10, now=NOW + 30 * DAY)
        for place, id in enumerate(hits.ids):
            found = mem.explain(id, query="tea in the morning", now=NOW + 30 * DAY)
            assert (found.rank, found.found) == (place + 1, len(hits))
            assert found.score == pytest.approx(hits.scores[place], rel=1e-6)
            parts = (
                found.relevance_share
                + found.strength_share * found.strength
                + found.importance_share * found.importance
            )
            assert found.score == pytest.approx(found.relevance * parts, rel=1e-5)
        assert set(hits.ids) <= set(ids)

    def test_it_agrees_with_the_briefing(self, mem):
        for number in range(12):
            mem.add(
                f"note {number} on the harbour and its cranes {number % 3}",
                about="Anna" if number % 2 else None,
                now=NOW,
            )
        briefing = mem.brief("the cranes of the harbour", now=NOW, budget=1_200)
        inside = {item.id for item in briefing}
        for item in mem.list(now=NOW):
            found = mem.explain(item.id, query="the cranes of the harbour", now=NOW)
            assert found.in_briefing == (item.id in inside), found


class TestWhyNot:
    def test_no_word_in_common(self):
        with TierMemory.open(now=NOW) as mem:
            id = mem.add("the train to Ghent", now=NOW)
            found = mem.explain(id, query="tea", now=NOW)
            assert (found.rank, found.score, found.in_briefing) == (None, None, False)
            assert "no word of the question" in found.reasons[0]

    def test_about_somebody_else(self, mem):
        id = mem.add("Prefers green tea in the morning", about="Director Li", now=NOW)
        mem.add("Prefers green coffee in the morning", about="Director Zhang", now=NOW)
        found = mem.explain(id, query="green tea in the morning", about="Director Zhang", now=NOW)
        assert found.rank is None
        assert not found.in_briefing
        assert any("other_about" in reason for reason in found.reasons)

    def test_too_faint(self, mem):
        faint = mem.add("tea is served in the small room behind the hall by the old waiter", now=NOW)
        mem.add("which tea do I drink in the morning? green tea with lemon", now=NOW)
        found = mem.explain(faint, query="which tea do I drink in the morning", now=NOW)
        assert not found.in_briefing
        assert any("below_threshold" in reason for reason in found.reasons)

    def test_fates(self, mem):
        forgotten, old, ended = (mem.add(text, now=NOW) for text in ("tea one", "tea two", "tea three"))
        mem.forget([forgotten], now=NOW)
        new = mem.supersede(old, "tea four", now=NOW)
        mem.update(ended, expires_at=NOW + 1, now=NOW)
        later = NOW + 10
        states = {id: mem.explain(id, query="tea", now=later) for id in (forgotten, old, new, ended)}
        assert [found.state for found in states.values()] == ["forgotten", "superseded", "alive", "expired"]
        assert f"restore('{forgotten}')" in states[forgotten].reasons[0]
        assert new in states[old].reasons[0]
        assert states[new].rank == 1

    def test_hidden_without_a_grant(self, mem):
        id = mem.add("tea for the heart", labels=["health"], now=NOW)
        found = mem.explain(id, query="tea", now=NOW)
        assert (found.state, found.tier, found.importance) == ("hidden", None, None)
        assert "health" in found.reasons[0]
        assert mem.explain(id, query="tea", grant=Grant(labels=["health"]), now=NOW).rank == 1

    @pytest.mark.parametrize("id", ["x", "", "00000000-0000-7000-8000-000000000000", "' or 1=1 --", 3, None])
    def test_unknown(self, mem, id):
        with pytest.raises(MemoryNotFound):
            mem.explain(id, query="tea", now=NOW)

    def test_explaining_leaves_no_trace(self, mem):
        id = mem.add("Prefers green tea in the morning", now=NOW)
        before = mem.get(id, now=NOW)
        mem.explain(id, query="green tea", now=NOW)
        assert mem.get(id, now=NOW) == before
        assert mem.observe("You prefer green tea in the morning.", role="assistant", now=NOW).stored


class TestCurve:
    def test_half_is_left_after_a_half_life(self, mem):
        for tier, expected in (
            ("episodic", [1.0, 0.5, 1 / 3]),
            ("working", [1.0, 0.5, 0.25]),
            ("procedural", [1.0] * 3),
        ):
            fields = {} if tier == "procedural" else {"half_life": DAY}
            id = mem.add(f"tea {tier}", tier=tier, now=NOW, **fields)
            curve = mem.strength_curve(id, days=2, now=NOW)
            assert [day for day, _ in curve] == [0.0, 1.0, 2.0]
            assert [value for _, value in curve] == pytest.approx(expected)

    @given(st.floats(0, 400), st.lists(st.floats(0, 3_000), min_size=2, max_size=10))
    @settings(max_examples=30)
    def test_it_falls_and_agrees_with_the_search(self, idle, days):
        with TierMemory.open(now=NOW) as mem:
            id = mem.add("tea", now=NOW)
            now = NOW + idle * DAY
            curve = mem.strength_curve(id, days=sorted(days), now=now)
            values = [value for _, value in curve]
            assert values == sorted(values, reverse=True)
            seen = mem.search("tea", now=now + curve[0][0] * DAY)
            assert float(seen.strength[0]) == pytest.approx(values[0], rel=1e-4)

    def test_pinned_never_fades(self, mem):
        id = mem.add("tea", pinned=True, now=NOW)
        assert {value for _, value in mem.strength_curve(id, days=1_000, now=NOW)} == {1.0}

    @pytest.mark.parametrize("days", [-1, float("nan"), 10_000, "7", [], [-1], [float("nan")], ["x"], None, True])
    def test_bad_days(self, mem, days):
        id = mem.add("tea", now=NOW)
        with pytest.raises(InvalidInput) as caught:
            mem.strength_curve(id, days=days, now=NOW)
        assert caught.value.argument == "days"
