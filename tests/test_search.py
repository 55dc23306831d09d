"""Searching: exact against numpy, words in every script, every filter against a naive one, rights, and the answer's form."""

from __future__ import annotations

import inspect
import io
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import AccessDenied, Hit, Hits, MemoryItem, TierMemory

NOW = 1_700_000_000.0
DAY = 86_400.0
ROWS = 1_500


@pytest.fixture
def mem():
    """An empty store in RAM."""
    with TierMemory.open(now=NOW) as opened:
        yield opened


def as_kept(vectors: np.ndarray) -> Any:
    """Vectors as the store keeps them: of length one, in float16."""
    wide = vectors.astype(np.float64)
    units = wide * (1.0 / np.linalg.norm(wide, axis=1, keepdims=True))
    return units.astype(np.float32).astype(np.float16).astype(np.float64)


def cosines(query: np.ndarray, kept: np.ndarray) -> Any:
    """Of one question to every vector."""
    return kept @ (query / np.linalg.norm(query)) / np.linalg.norm(kept, axis=1)


@pytest.fixture(scope="module")
def big():
    """A store of clustered vectors, its ids, the vectors as kept, and questions."""
    random = np.random.default_rng(20_240_503)
    centres = random.normal(size=(30, 40))
    vectors = (centres[random.integers(0, 30, ROWS)] + 0.7 * random.normal(size=(ROWS, 40))).astype(np.float32)
    questions = (centres[random.integers(0, 30, 25)] + 0.7 * random.normal(size=(25, 40))).astype(np.float32)
    with TierMemory.open(now=NOW) as mem:
        items = [{"text": f"memory number {n}", "metadata": {"part": n % 100}} for n in range(ROWS)]
        ids = mem.add_many(items, vectors=vectors, now=NOW)
        yield mem, ids, as_kept(vectors), questions


class TestVectorsAgainstNumpy:
    @pytest.mark.parametrize("k", [1, 10, 100])
    def test_the_nearest_are_those_of_a_matrix_product(self, big, k):
        mem, ids, kept, questions = big
        place_of = {id: place for place, id in enumerate(ids)}
        for question in questions:
            wanted = cosines(question, kept)
            order = np.argsort(-wanted, kind="stable")
            hits = mem.search(vector=question, k=k, now=NOW)
            assert len(hits) == k
            found = np.array([place_of[id] for id in hits.ids])
            np.testing.assert_allclose(hits.vector_scores, wanted[found], atol=2e-6)
            # Where two are as near as rounding can tell, either may come first.
            np.testing.assert_allclose(wanted[found], wanted[order[:k]], atol=2e-6)
            np.testing.assert_allclose(hits.relevance, hits.vector_scores.clip(0, 1), atol=1e-6)
            np.testing.assert_allclose(hits.scores, hits.relevance * (0.7 + 0.2 + 0.05), rtol=1e-5)

    def test_so_they_are_among_few(self, big):
        mem, ids, kept, questions = big
        for part, question in enumerate(questions):
            rows = np.arange(part, ROWS, 100)
            wanted = rows[np.argsort(-cosines(question, kept[rows]), kind="stable")][:5]
            hits = mem.search(vector=question, k=5, where={"part": part}, now=NOW)
            assert hits.searched == len(rows)
            relevant = [ids[row] for row in wanted if cosines(question, kept[[row]])[0] > 0]
            assert hits.ids == relevant

    def test_the_length_of_a_question_does_not_matter(self, big):
        mem, _, _, questions = big
        one, other = (mem.search(vector=questions[0] * size, k=20, now=NOW) for size in (1e-3, 1e3))
        assert one.ids == other.ids
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)

    def test_after_forgetting_the_best_the_next_ones_move_up(self, big):
        mem, _, _, questions = big
        before = mem.search(vector=questions[1], k=20, now=NOW).ids
        mem.forget(before[:5], now=NOW)
        assert mem.search(vector=questions[1], k=15, now=NOW).ids == before[5:]
        mem.restore(before[:5], now=NOW)
        assert mem.search(vector=questions[1], k=20, now=NOW).ids == before


LIBRARY = {
    "zh": ["李主任喜欢正式的邮件语气", "每周五下午提交周报", "报销单要在月底之前交给财务", "会议改到三楼的会议室", "喝茶不喝咖啡"],
    "ja": ["会議は金曜日の午後三時に始まります", "彼女はコーヒーより緑茶が好きです", "東京タワーの近くに住んでいる", "犬を二匹飼っています"],
    "ko": ["회의는 금요일 오후에 시작합니다", "그녀는 커피보다 녹차를 좋아합니다", "서울역 근처에 살고 있습니다"],
    "en": ["Replies to Director Li stay formal", "Allergic to peanuts", "The nightly build failed on Tuesday", "Prefers trains over flying"],
    "mixed": ["把 PR #482 合并到 release-2.1 分支", "用 Python 3.12 写脚本，不要用 Perl", "季度KPI按照OKR模板填写", "Bonjour, le café ferme à 18h"],
    "ids": ["Ticket INC-2024-0017 is about the printer", "订单号 SO20240503-88 已发货", "Flight LH 404 leaves at 10:35", "MAC 00:1B:44:11:3A:B7 is the scanner"],
    "numbers": ["The deposit was 12,000 euros", "Pi is about 3.14159", "房租每月4500元", "Version 1.10.2 is broken"],
    "addresses": ["Write to li.wei@example.com", "The wiki is at https://wiki.example.org/pages/42", "Logs lie in /var/log/nginx/error.log"],
    "code": ["getUserName returns null", "rename user_id to account_id", "HTTPServer hangs in handle_request", "std::vector<int> in C++ grows", "npm run build:prod"],
    "wide": ["型号ＡＢＣ１２３已停产", "ﾊﾝｶｸ カタカナ", "Ｆｕｌｌ width"],
}  # fmt: skip
QUESTIONS = [
    ("zh", "给李主任写邮件用什么语气", 0), ("zh", "周报", 1), ("zh", "周五交什么", 1), ("zh", "怎么报销", 2), ("zh", "财务", 2), ("zh", "会议室在哪", 3), ("zh", "茶", 4),
    ("ja", "緑茶", 1), ("ja", "会議は金曜日ですか", 0), ("ja", "東京タワー", 2), ("ja", "コーヒー", 1), ("ja", "犬", 3),
    ("ko", "녹차", 1), ("ko", "금요일 회의", 0), ("ko", "서울역", 2),
    ("en", "formal reply", 0), ("en", "PEANUT allergies", 1), ("en", "why did the build fail", 2), ("en", "train", 3), ("en", "flight or trains?", 3),
    ("mixed", "482", 0), ("mixed", "release-2.1", 0), ("mixed", "合并分支", 0), ("mixed", "python脚本", 1), ("mixed", "perl", 1), ("mixed", "okr", 2), ("mixed", "kpi模板", 2), ("mixed", "cafe", 3),
    ("ids", "INC-2024-0017", 0), ("ids", "inc-2024-0017?", 0), ("ids", "SO20240503-88", 1), ("ids", "订单 20240503", 1), ("ids", "LH 404", 2), ("ids", "10:35", 2), ("ids", "00:1b:44:11:3a:b7", 3),
    ("numbers", "12000", 0), ("numbers", "12,000", 0), ("numbers", "3.14159", 1), ("numbers", "4500", 2), ("numbers", "房租 4500元", 2), ("numbers", "1.10.2", 3),
    ("addresses", "li.wei@example.com", 0), ("addresses", "LI.WEI@EXAMPLE.COM", 0), ("addresses", "https://wiki.example.org/pages/42", 1), ("addresses", "error.log", 2), ("addresses", "/var/log/nginx", 2),
    ("code", "getUserName", 0), ("code", "user name", 0), ("code", "user_id", 1), ("code", "account", 1), ("code", "http server", 2), ("code", "handle_request()", 2), ("code", "C++", 3), ("code", "std::vector", 3), ("code", "build:prod", 4),
    ("wide", "abc123", 0), ("wide", "ハンカク", 1), ("wide", "full", 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def library():
    """Every text in one store."""
    with TierMemory.open(now=NOW) as mem:
        ids = {shelf: mem.add_many(texts, now=NOW) for shelf, texts in LIBRARY.items()}
        yield mem, ids


class TestWords:
    @pytest.mark.parametrize(("shelf", "question", "place"), QUESTIONS)
    def test_the_answer_comes_first(self, library, shelf, question, place):
        mem, ids = library
        hits = mem.search(question, k=3, now=NOW)
        assert hits.ids[:1] == [ids[shelf][place]], hits.texts
        assert 0 < hits.keyword_scores[0] <= 1
        assert math.isnan(hits.vector_scores[0])

    @pytest.mark.parametrize(
        "question",
        ["zebra", "斑马", "シマウマ", "얼룩말", "INC-1999-4444x", "zebra@example.invalid.nowhere", "!?…", "😀"],
    )
    def test_what_is_not_there_is_not_found(self, library, question):
        mem, _ = library
        hits = mem.search(question, k=3, now=NOW)
        # Parts of an address or an id may occur elsewhere; they are no answer.
        assert all(relevance < 0.35 for relevance in hits.relevance), hits.texts

    @pytest.mark.parametrize(
        ("word", "count"),
        [("邮件", 1), ("会议", 1), ("trains", 1), ("INC-2024-0017", 1), ("is", 4), ("example", 1), ("zebra", 0)],
    )
    def test_required_words(self, library, word, count):
        mem, _ = library
        found = mem.list(must=word, limit=100, now=NOW)
        assert len(found) == mem.count(must=[word], now=NOW)
        assert len(found) >= count
        if count == 0:
            assert found == []

    def test_all_required_words_are_required(self, library):
        mem, ids = library
        assert [item.id for item in mem.list(must=["合并", "release-2.1"], now=NOW)] == [ids["mixed"][0]]
        assert mem.list(must=["合并", "printer"], now=NOW) == []

    def test_a_long_question_is_answered(self, library):
        mem, ids = library
        question = "zebra crossing. " * 2_000 + "报销单交给谁"
        assert mem.search(question, k=1, now=NOW).ids == [ids["zh"][2]]


# ---------------------------------------------------------------------- filters

FILTERED: list[dict[str, Any]] = [
    {
        "text": f"entry {n}",
        "tier": ["working", "episodic", "semantic", "procedural"][n % 4],
        "session": [None, "s1", "s2"][n % 3],
        "about": [None, "Li", "王"][n % 5 % 3],
        "source": ["user", "assistant", "tool", "system", "import"][n % 5],
        "trust": n % 11 / 10,
        "importance": n % 9 / 8,
        "tags": [["x"], ["x", "y"], [], ["z"]][n % 4],
        "created_at": NOW - n * DAY,
        "expires_at": NOW + DAY * n if n % 6 == 5 else None,
        "pinned": n % 7 == 0,
        "metadata": [
            {"n": n, "project": "q3"}, {"n": n / 2, "list": ["a", n]}, {"deep": {"k": n % 3, "flag": True}},
            {"n": str(n), "none": None}, {}, {"flag": n % 2 == 0, "project": ["q3", "q4"]},
        ][n % 6],
    }
    for n in range(36)
]  # fmt: skip


@pytest.fixture(scope="module")
def filtered():
    """A store with one memory of each kind, none of which is hidden."""
    with TierMemory.open(now=NOW) as opened:
        ids = opened.add_many(FILTERED, now=NOW)
        opened.used(ids[3:6], now=NOW)
        opened.used(ids[4], now=NOW)
        yield opened, ids


def values_at(item: dict[str, Any], key: str) -> list[Any]:
    """What a condition on a key compares, naively: every scalar at the path, lists spread out."""
    if key in ("tier", "source", "trust", "importance", "created_at", "pinned"):
        return [item[key]]
    if key in ("session", "about", "expires_at"):
        return [item[key]]
    if key == "tags":
        return list(item["tags"])
    found: list[Any] = [item["metadata"]]
    for part in key.removeprefix("metadata.").split("."):
        found = [value[part] for value in found if isinstance(value, dict) and part in value]
    flat: list[Any] = []
    for value in found:
        flat += value if isinstance(value, list) else [value]
    return [value for value in flat if not isinstance(value, dict)]


def same(left: Any, right: Any) -> bool:
    """As JSON compares: true is no 1, 1 is 1.0."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def holds(item: dict[str, Any], key: str, wanted: Any) -> bool:
    """One condition, naively."""
    values = values_at(item, key)
    number = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not isinstance(wanted, dict):
        wanted = {"in": wanted if isinstance(wanted, (list, tuple, set)) else [wanted]}
    for name, operand in wanted.items():
        operator = name.removeprefix("$")
        anyone = list(operand) if isinstance(operand, (list, tuple, set)) else [operand]
        if operator in ("gt", "gte", "lt", "lte"):
            continue
        fits = any(same(value, one) for value in values for one in anyone)
        if operator == "exists":
            fits = (
                values not in ([], [None]) if key in ("session", "about", "expires_at", "tags") else bool(values)
            ) == operand
        elif operator in ("ne", "not_in", "nin"):
            fits = not fits
        if not fits:
            return False
    # The ends of a range hold of one and the same value.
    ends = {name.removeprefix("$"): end for name, end in wanted.items()}
    tests = {
        "gt": lambda value, end: value > end, "gte": lambda value, end: value >= end,
        "lt": lambda value, end: value < end, "lte": lambda value, end: value <= end,
    }  # fmt: skip
    ranges = {name: end for name, end in ends.items() if name in tests}
    return not ranges or any(all(tests[name](value, end) for name, end in ranges.items()) for value in number)


WHERES = [
    {"tier": "semantic"}, {"tier": ["semantic", "working"]}, {"tier": {"ne": "semantic"}}, {"tier": {"not_in": ["semantic", "working"]}},
    {"source": "tool"}, {"source": {"in": ["tool", "import"]}}, {"source": {"$nin": ["user"]}},
    {"session": "s1"}, {"session": None}, {"session": {"ne": None}}, {"session": {"exists": True}}, {"session": {"exists": False}}, {"session": ["s1", None]},
    {"about": "王"}, {"about": None}, {"about": {"not_in": ["Li", None]}}, {"about": {"exists": False}},
    {"tags": "x"}, {"tags": ["y", "z"]}, {"tags": {"ne": "x"}}, {"tags": {"not_in": ["x", "z"]}}, {"tags": {"exists": False}}, {"tags": "unheard-of"},
    {"trust": 0.3}, {"trust": {"gte": 0.3}}, {"trust": {"gt": 0.3}}, {"trust": {"lt": 0.3}}, {"trust": {"lte": 0.3, "gte": 0.1}}, {"trust": {"ne": 0.3}}, {"trust": [0.1, 0.2]},
    {"importance": {"$gte": 0.5}}, {"importance": 0.125}, {"importance": {"gt": 1}},
    {"pinned": True}, {"pinned": False}, {"pinned": {"ne": True}},
    {"created_at": {"gte": NOW - 10 * DAY}}, {"created_at": {"lt": NOW - 10 * DAY}}, {"created_at": NOW}, {"expires_at": {"exists": True}}, {"expires_at": None},
    {"expires_at": {"gt": NOW + 12 * DAY}}, {"expires_at": {"exists": False}},
    {"n": 6}, {"n": 6.0}, {"n": 0.5}, {"n": "3"}, {"n": {"gt": 5}}, {"n": {"gte": 6, "lt": 13}}, {"n": {"lte": -1}}, {"n": {"exists": True}}, {"n": {"exists": False}},
    {"n": {"ne": 6}}, {"n": {"not_in": [6, "3"]}}, {"n": [6, 12, "9"]}, {"n": {"exists": True, "ne": 0}}, {"n": {"gt": 3, "ne": 6}},
    {"project": "q3"}, {"project": "q4"}, {"project": {"ne": "q3"}}, {"metadata.project": "q3"}, {"list": "a"}, {"list": 7}, {"list": {"gt": 20}},
    {"deep.k": 1}, {"deep.k": {"gt": 0}}, {"deep": {"exists": True}}, {"metadata.deep.flag": True}, {"flag": True}, {"flag": 1}, {"flag": False}, {"deep.flag": 1},
    {"none": None}, {"none": {"exists": True}}, {"no.such.key": "x"}, {"no.such.key": {"ne": "x"}}, {"no.such.key": {"exists": False}},
    {"tier": "semantic", "project": "q3"}, {"n": {"gt": 3}, "session": "s1", "trust": {"lt": 0.9}}, {},
]  # fmt: skip


class TestFilters:
    def found(self, filtered, **conditions) -> list[int]:
        """The places of what a listing gives; the search and the count must agree with it."""
        mem, ids = filtered
        listed = [ids.index(item.id) for item in mem.list(limit=100, now=NOW, **conditions)]
        searched = sorted(ids.index(id) for id in mem.search("entry", k=100, now=NOW, **conditions).ids)
        assert searched == listed
        assert mem.count(now=NOW, **conditions) == len(listed)
        newest_first = [ids.index(item.id) for item in mem.list(limit=100, newest_first=True, now=NOW, **conditions)]
        assert newest_first == listed[::-1]
        return listed

    @pytest.mark.parametrize("where", WHERES, ids=str)
    def test_where_is_what_a_naive_filter_gives(self, filtered, where):
        wanted = [place for place, item in enumerate(FILTERED) if all(holds(item, *one) for one in where.items())]
        assert self.found(filtered, where=where) == wanted

    @settings(max_examples=150)
    @given(
        st.dictionaries(
            st.sampled_from(["n", "trust", "project", "session", "tags", "deep.k", "flag", "importance", "list"]),
            st.dictionaries(
                st.sampled_from(["eq", "ne", "in", "not_in", "exists", "$eq", "nin"]), st.integers(0, 5), min_size=1, max_size=2
            ),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    def test_any_combination_of_conditions(self, filtered, drawn):
        numbers, texts = {"n", "trust", "importance", "deep.k", "list"}, {"project", "session", "tags"}
        where: dict[str, Any] = {}
        for key, operators in drawn.items():
            where[key] = {}
            for operator, seed in operators.items():
                kind = (
                    [seed, seed / 10]
                    if key in numbers
                    else ["q3", "s1", "x", "y"][seed % 4 :]
                    if key in texts
                    else [seed % 2 == 0]
                )
                if operator == "exists":
                    where[key][operator] = seed % 2 == 0
                elif operator.endswith("in"):
                    where[key][operator] = kind
                else:
                    where[key][operator] = kind[0]
        wanted = [place for place, item in enumerate(FILTERED) if all(holds(item, *one) for one in where.items())]
        assert self.found(filtered, where=where) == wanted

    @pytest.mark.parametrize(
        "tiers",
        [
            "semantic",
            ["semantic"],
            ["working", "procedural"],
            ("episodic",),
            ["working", "episodic", "semantic", "procedural"],
        ],
    )
    def test_tiers(self, filtered, tiers):
        named = [tiers] if isinstance(tiers, str) else tiers
        assert self.found(filtered, tiers=tiers) == [n for n, item in enumerate(FILTERED) if item["tier"] in named]

    @pytest.mark.parametrize("session", ["s1", "s2", "unheard-of"])
    def test_session(self, filtered, session):
        assert self.found(filtered, session=session) == [
            n for n, item in enumerate(FILTERED) if item["session"] == session
        ]

    @pytest.mark.parametrize("about", ["Li", "王", "unheard-of"])
    def test_about_somebody_or_nobody_in_particular(self, filtered, about):
        wanted = [n for n, item in enumerate(FILTERED) if item["about"] in (about, None)]
        assert self.found(filtered, about=about) == wanted
        assert any(FILTERED[place]["about"] is None for place in wanted)

    @pytest.mark.parametrize("least", [0, 0.3, 0.95, 1])
    def test_min_trust(self, filtered, least):
        mem, ids = filtered
        found = mem.search("entry", k=100, min_trust=least, now=NOW).ids
        assert sorted(map(ids.index, found)) == [n for n, item in enumerate(FILTERED) if item["trust"] >= least - 1e-9]

    @pytest.mark.parametrize("days", [0, 3, 10, 100])
    def test_time_ranges_in_every_form(self, filtered, days):
        seconds = NOW - days * DAY
        aware = datetime.fromtimestamp(seconds, UTC)
        since = [n for n, item in enumerate(FILTERED) if item["created_at"] >= seconds]
        forms = [
            seconds,
            int(seconds),
            aware,
            aware.replace(tzinfo=None),
            aware.astimezone(timezone(timedelta(hours=8))),
        ]
        for form in forms:
            assert self.found(filtered, where={"since": form}) == since
            assert self.found(filtered, where={"created_at": {"gte": form}}) == since
            assert self.found(filtered, where={"until": form}) == [n for n in range(36) if n not in since]
        assert self.found(filtered, where={"since": forms[0], "until": forms[2]}) == []

    def test_counters_and_uses(self, filtered):
        assert self.found(filtered, where={"use_count": {"gt": 0}}) == [3, 4, 5]
        assert self.found(filtered, where={"use_count": 2}) == [4]
        assert self.found(filtered, where={"last_used_at": {"gte": NOW - 1}}) == [0, 3, 4, 5]
        assert self.found(filtered, where={"repeat_count": {"gte": 1}}) == []

    def test_ids(self, filtered):
        _, ids = filtered
        assert self.found(filtered, where={"id": [ids[7], ids[2], "no id"]}) == [2, 7]
        assert self.found(filtered, where={"id": {"not_in": ids[1:]}}) == [0]

    def test_pages_join_to_the_whole(self, filtered):
        mem, ids = filtered
        for newest_first in (False, True):
            pages, after = [], None
            while page := mem.list(
                limit=7, after=after, newest_first=newest_first, where={"n": {"exists": True}}, now=NOW
            ):
                pages += [item.id for item in page]
                after = pages[-1]
            wanted = [ids[n] for n, item in enumerate(FILTERED) if "n" in item["metadata"]]
            assert pages == (wanted[::-1] if newest_first else wanted)

    def test_what_has_ended_is_gone(self, filtered):
        mem, ids = filtered
        later = NOW + 18 * DAY
        alive = {ids.index(item.id) for item in mem.list(limit=100, now=later)}
        assert alive == {n for n, item in enumerate(FILTERED) if not item["expires_at"] or item["expires_at"] > later}
        assert mem.count(now=later) == len(alive) < 36


# ---------------------------------------------------------------------- rights

HIDDEN_TEXT = "the wombat sleeps at noon"


# Every reading method that knows of rights, as a question that would show everything.
def exported(mem: TierMemory, grant: Any) -> str:
    lines = io.StringIO()
    mem.export_jsonl(lines, grant=grant, vectors=True, now=NOW)
    return lines.getvalue()


READERS: dict[str, Callable[[TierMemory, Any], list[str]]] = {
    "search": lambda mem, grant: [repr(hit) for hit in mem.search("who sleeps at noon in the house", k=50, grant=grant, now=NOW)],
    "list": lambda mem, grant: [repr(item) for item in mem.list(grant=grant, now=NOW)],
    "brief": lambda mem, grant: [
        repr(mem.brief("the wombat sleeps at noon", task="zoo", session="s1", budget=5_000, grant=grant, now=NOW))
    ],
    "count": lambda mem, grant: [
        "wombat" if mem.count(grant=grant, now=NOW, **question) else ""
        for question in ({"must": "wombat"}, {"where": {"labels": "health"}}, {"where": {"labels": {"exists": True}}})
    ],
    "export_jsonl": lambda mem, grant: [exported(mem, grant)],
    "get": lambda mem, grant: [repr(got(mem, row["id"], grant)) for row in mem.sql("select id from memories")],
    "explain": lambda mem, grant: [
        repr(mem.explain(row["id"], query="the wombat sleeps at noon", grant=grant, now=NOW)).replace("tier=<", "the wombat of tier=<")
        for row in mem.sql("select id from memories where labels is not null")
    ],
    "strength_curve": lambda mem, grant: [
        repr(faded(mem, row["id"], grant)) for row in mem.sql("select id from memories where labels is not null")
    ],
}  # fmt: skip


class TestRights:
    @pytest.fixture
    def house(self):
        """A store with one open and one hidden memory in each tier, all about the same."""
        with TierMemory.open(embedder="lexical", now=NOW) as mem:
            ids = {}
            for tier in ("working", "episodic", "semantic", "procedural"):
                common: dict[str, Any] = {
                    "tier": tier,
                    "session": "s1",
                    "metadata": {"task": "zoo", "n": 1},
                    "private": {"keeper": "Xaver", "gate": "77"},
                }
                ids[tier] = (
                    mem.add(f"the koala sleeps at dawn in the {tier} house", now=NOW, **common),
                    mem.add(f"{HIDDEN_TEXT} in the {tier} house", labels=["health", "place"], now=NOW, **common),
                )
            yield mem, ids

    def test_every_reader_is_tried(self):
        readers = {
            name for name, value in vars(TierMemory).items()
            if inspect.isfunction(value) and not name.startswith("_") and "grant" in inspect.signature(value).parameters
        }  # fmt: skip
        assert readers == READERS.keys(), "a new reader wants a line in READERS"

    @pytest.mark.parametrize("reader", READERS)
    @pytest.mark.parametrize(
        "grant",
        [
            None,
            {},
            {"labels": []},
            {"labels": ["health"]},
            {"labels": ["place", "finance"]},
            {"labels": ["HEALTH", "place"]},
            {"fields": ["keeper"]},
        ],
    )
    def test_what_is_labelled_is_hidden_without_a_grant_for_each_label(self, house, reader, grant):
        mem, _ = house
        assert "wombat" not in "".join(READERS[reader](mem, grant))

    @pytest.mark.parametrize("reader", READERS)
    def test_and_seen_with_it(self, house, reader):
        mem, _ = house
        assert "wombat" in "".join(READERS[reader](mem, {"labels": ["place", "health", "other"]}))

    def test_the_columns_of_an_answer_hide_it_too(self, house):
        mem, ids = house
        hits = mem.search(HIDDEN_TEXT, k=50, now=NOW)
        open_ones, hidden = ({pair[side] for pair in ids.values()} for side in (0, 1))
        assert set(hits.ids) == open_ones
        assert hits.searched == 4
        assert not any("wombat" in text for text in hits.texts)
        assert (
            set(mem.search(HIDDEN_TEXT, k=50, grant={"labels": ["health", "place"]}, now=NOW).ids) == open_ones | hidden
        )
        assert mem.search("", vector=hits_vector(mem), k=50, now=NOW).searched == 4

    def test_getting_it_is_denied_by_name(self, house):
        mem, ids = house
        for _, hidden in ids.values():
            with pytest.raises(AccessDenied, match=r"health|place") as caught:
                mem.get(hidden, now=NOW)
            assert caught.value.id == hidden
            assert caught.value.label in ("health", "place")
            assert isinstance(caught.value, PermissionError)

    def test_a_retired_memory_stays_hidden(self, house):
        mem, ids = house
        old = ids["semantic"][1]
        mem.supersede(old, "the wombat sleeps at midnight", now=NOW)
        with pytest.raises(AccessDenied):
            mem.get(old, now=NOW)
        assert "midnight" not in "".join(mem.search("wombat midnight", k=50, now=NOW).texts)

    @pytest.mark.parametrize(
        ("fields", "seen"),
        [
            (None, {"keeper": "***", "gate": "***"}), ([], {"keeper": "***", "gate": "***"}), (["gate"], {"keeper": "***", "gate": "77"}),
            (["gate", "keeper", "other"], {"keeper": "Xaver", "gate": "77"}), (["Gate"], {"keeper": "***", "gate": "***"}),
        ],
    )  # fmt: skip
    def test_private_fields_are_masked_without_a_grant(self, house, fields, seen):
        mem, ids = house
        grant = None if fields is None else {"fields": fields}
        shown = ids["semantic"][0]
        assert mem.get(shown, grant=grant, now=NOW).private == seen
        assert all(item.private == seen for item in mem.list(grant=grant, now=NOW))
        assert all(hit.private == seen for hit in mem.search("koala", k=50, grant=grant, now=NOW))
        briefing = mem.brief("the koala sleeps at dawn", session="s1", grant=grant, now=NOW)
        assert briefing.items
        assert all(item.private == seen for item in briefing.items)
        assert "Xaver" not in briefing.text

    def test_private_fields_are_not_searched(self, house):
        mem, _ = house
        everything = {"labels": ["health", "place"], "fields": ["keeper", "gate"]}
        assert mem.search("Xaver", k=50, must="Xaver", grant=everything, now=NOW).ids == []
        for key in ("keeper", "private.keeper", "private"):
            assert mem.list(where={key: "Xaver"}, grant=everything, now=NOW) == []

    def test_a_new_label_hides_at_once(self, house):
        mem, ids = house
        shown = ids["semantic"][0]
        mem.update(shown, labels=["finance"], now=NOW)
        assert shown not in mem.search("koala", k=50, now=NOW).ids
        with pytest.raises(AccessDenied, match="finance"):
            mem.get(shown, now=NOW)
        mem.update(shown, labels=[], now=NOW)
        assert mem.get(shown, now=NOW).labels == ()


def faded(mem: TierMemory, id: str, grant: Any) -> str:
    try:
        return f"the wombat fades: {mem.strength_curve(id, days=1, grant=grant, now=NOW)}"
    except AccessDenied:
        return ""


def got(mem: TierMemory, id: str, grant: Any) -> MemoryItem | None:
    """A memory, or None when it is denied."""
    try:
        return mem.get(id, grant=grant, now=NOW)
    except AccessDenied:
        return None


def hits_vector(mem: TierMemory) -> Any:
    """A vector of the store's own embedder."""
    from tiermem_fast import as_embedder

    assert mem.stats(now=NOW).dimension == 384
    return as_embedder("lexical").embed([HIDDEN_TEXT])[0]


# ---------------------------------------------------------------------- the answer


class TestHits:
    @pytest.fixture
    def counted(self, mem):
        """An answer that counts how often it reads from the store."""
        mem.add_many([{"text": f"apple {n}", "importance": n / 10, "tier": "episodic"} for n in range(10)], now=NOW)
        hits = mem.search("apple", k=7, now=NOW + DAY)
        reads = {"texts": 0, "rows": 0}
        texts, rows = hits._fetch_texts, hits._fetch_rows

        def read_texts(native):
            reads["texts"] += 1
            return texts(native)

        def read_rows(ids):
            reads["rows"] += 1
            return rows(ids)

        hits._fetch_texts, hits._fetch_rows = read_texts, read_rows
        return hits, reads

    def test_columns_are_arrays_of_one_length_and_read_nothing(self, counted):
        hits, reads = counted
        for name in ("scores", "relevance", "strength", "importance", "vector_scores", "keyword_scores"):
            column = getattr(hits, name)
            assert isinstance(column, np.ndarray)
            assert (column.dtype, column.shape) == (np.float32, (7,)), name
            column[:] = -1  # a copy: the answer stays as it is
            assert (getattr(hits, name) != -1).all()
        assert len(hits) == len(hits.ids) == len(hits.tiers) == 7
        assert hits.ids[0] == hits.ids[0]
        assert hits.searched == 10
        assert hits.plan is None
        assert repr(hits) == "<Hits: 7 of 10 memories>"
        assert reads == {"texts": 0, "rows": 0}

    def test_texts_are_read_once(self, counted):
        hits, reads = counted
        first = hits.texts
        first.clear()
        assert len(hits.texts) == 7
        assert reads == {"texts": 1, "rows": 0}

    def test_memories_are_read_once(self, counted):
        hits, reads = counted
        assert [hit.text for hit in hits] == [hit.text for hit in hits[:]] == hits.texts
        assert hits[0] is hits[0]
        assert hits[-1] is hits[6]
        assert isinstance(hits[0], Hit)
        assert hits[2:4] == [hits[2], hits[3]]
        assert hits[0] in hits
        assert list(reversed(hits)) == hits[::-1]
        with pytest.raises(IndexError):
            hits[7]
        assert reads == {"texts": 1, "rows": 1}

    def test_memories_say_what_the_columns_say(self, counted):
        hits, _ = counted
        for place, hit in enumerate(hits):
            assert hit.id == hits.ids[place]
            assert hit.tier is hits.tiers[place]
            assert hit.score == pytest.approx(float(hits.scores[place]))
            assert hit.relevance == pytest.approx(float(hits.relevance[place]))
            assert hit.strength == pytest.approx(float(hits.strength[place]))
            assert hit.importance == pytest.approx(float(hits.importance[place]))
            assert hit.keyword_score == pytest.approx(float(hits.keyword_scores[place]))
            assert hit.vector_score is None
        assert (np.diff(hits.scores) <= 0).all()
        assert 0 < hits.strength[0] < 1

    def test_an_empty_answer(self, mem):
        mem.add("apple", now=NOW)
        hits = mem.search("zebra", now=NOW)
        assert isinstance(hits, Hits)
        assert not hits
        assert (hits.ids, hits.texts, list(hits), hits.tiers) == ([], [], [], [])
        assert hits.scores.shape == (0,)
        assert hits.searched == 1

    def test_an_empty_store(self, mem):
        assert mem.search("apple", now=NOW).ids == []
        assert mem.search(vector=np.ones(3, np.float32), now=NOW).ids == []
        assert mem.list(now=NOW) == []
        assert mem.brief("apple", now=NOW).text == ""

    def test_min_score_cuts(self, counted, mem):
        hits, _ = counted
        least = float(hits.scores[3])
        cut = mem.search("apple", k=7, min_score=least, now=NOW + DAY)
        assert cut.ids == hits.ids[: len(cut)]
        assert (cut.scores >= least).all()
        assert len(cut) >= 4
        assert mem.search("apple", min_score=1.01, now=NOW).ids == []

    def test_k_is_a_bound(self, mem):
        mem.add_many([f"apple {n}" for n in range(20)], now=NOW)
        for k in (1, 5, 20, 10_000):
            assert len(mem.search("apple", k=k, now=NOW)) == min(k, 20)


class TestBothArms:
    def test_the_lexical_embedder_finds_what_words_miss_and_the_other_way_round(self, tmp_path):
        with TierMemory.open(tmp_path, embedder="lexical", now=NOW) as mem:
            misspelt = mem.add("Shenzhen warehouse inventory", now=NOW)
            mem.add("quarterly dance recital", now=NOW)
        with TierMemory.open(tmp_path, now=NOW) as mem:
            # Without an embedder it gets no vector, so only words can find it.
            words_only = mem.add("Ticket INC-2024-0017", now=NOW)
        with TierMemory.open(tmp_path, embedder="lexical", now=NOW) as mem:
            assert mem.stats(now=NOW).search == "hybrid"
            hits = mem.search("Shenzhn INC-2024-0017", k=10, now=NOW)
            assert {misspelt, words_only} <= set(hits.ids)
            parts = {hit.id: (hit.vector_score, hit.keyword_score or 0.0) for hit in hits}
            by_vector, by_words = parts[words_only]
            assert by_vector is None
            assert by_words > 0.3
            by_vector, by_words = parts[misspelt]
            assert by_vector is not None
            assert by_vector > 0.0 == by_words
            assert hits.plan is not None
            only_vectors = mem.search("Shenzhn", k=10, now=NOW)
            assert only_vectors.ids[0] == misspelt
            for name in ("scores", "relevance", "strength"):
                assert ((getattr(hits, name) >= 0) & (getattr(hits, name) <= 1)).all()

    def test_a_vector_may_stand_in_for_the_text(self, mem):
        east, north = (np.array(v, np.float32) for v in ([1, 0], [0, 1]))
        ids = mem.add_many(["apple pie", "zebra crossing"], vectors=np.stack([east, north]), now=NOW)
        assert mem.search("apple", k=2, now=NOW).ids == [ids[0]]
        assert mem.search(vector=north, k=2, now=NOW).ids == [ids[1]]
        assert mem.search("", vector=north, k=2, now=NOW).ids == [ids[1]]
        both = mem.search("apple", vector=north, k=2, now=NOW)
        assert set(both.ids) == set(ids)
        np.testing.assert_allclose(sorted(both.vector_scores), [0, 1], atol=1e-6)

    def test_added_is_found_at_once_and_superseded_no_more(self, mem):
        for n in range(50):
            id = mem.add(f"fact {n}", vector=np.eye(50, dtype=np.float32)[n], now=NOW)
            assert mem.search(f"fact {n}", k=1, now=NOW).ids == [id]
            assert mem.search(vector=np.eye(50, dtype=np.float32)[n], k=1, now=NOW).ids == [id]
        new = mem.supersede(id, "another fact", vector=np.eye(50, dtype=np.float32)[0], now=NOW)
        assert mem.search(vector=np.eye(50, dtype=np.float32)[49], k=1, now=NOW).ids == []
        assert new in mem.search(vector=np.eye(50, dtype=np.float32)[0], k=2, now=NOW).ids
