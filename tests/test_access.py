"""Access: what a grant opens and until when, which tiers a task may see, and that no public method goes around it."""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tiermem_fast import AccessDenied, Grant, InvalidInput, MemoryNotFound, TierMemory
from tiermem_fast.policy.access import OWNER, labels_of, rights_of, tiers_for
from tiermem_fast.tiers import TIERS, Tier

NOW = 1_700_000_000.0
SECRET = "xylophone"
FIELD = "vermilion"


class TestGrant:
    def test_opens_until_it_ends(self):
        grant = Grant(labels=["health"], fields={"dose"}, purpose="visit", authorized_by="Anna", expires_at=NOW)
        assert rights_of(grant, NOW - 1e-3) == {"labels": ["health"], "fields": ["dose"]}
        assert rights_of(grant, NOW) is None
        assert labels_of(grant, NOW - 1) == ("health",)
        assert labels_of(grant, NOW) == ()

    def test_a_dict_says_the_same(self):
        values = {
            "labels": ["a"],
            "fields": ["b"],
            "purpose": "p",
            "authorized_by": "x",
            "expires_at": datetime(2024, 1, 1),
        }
        assert rights_of(values, NOW) == rights_of(Grant(**values), NOW) == {"labels": ["a"], "fields": ["b"]}

    def test_is_frozen_equal_and_travels(self):
        grant = Grant(labels=["a", "a"], expires_at=datetime(2024, 1, 1, tzinfo=UTC))
        assert grant == Grant(labels=("a",), expires_at=1_704_067_200.0)
        assert pickle.loads(pickle.dumps(grant)) == grant
        assert len({grant, Grant(labels=("a",), expires_at=1_704_067_200.0)}) == 1
        with pytest.raises(AttributeError):
            grant.labels = ("b",)  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("given", "argument"),
        [
            ({"labels": "health"}, "grant.labels"),
            ({"labels": [""]}, "grant.labels"),
            ({"fields": 3}, "grant.fields"),
            ({"purpose": 3}, "grant.purpose"),
            ({"authorized_by": b"x"}, "grant.authorized_by"),
            ({"expires_at": "tomorrow"}, "grant.expires_at"),
            ({"expires_at": -1}, "grant.expires_at"),
        ],
    )
    def test_a_bad_one_is_refused(self, given, argument):
        for make in (lambda: Grant(**given), lambda: rights_of(given, NOW)):
            with pytest.raises(InvalidInput) as caught:
                make()
            assert caught.value.argument == argument

    @pytest.mark.parametrize(
        "grant", [3, "health", ["health"], {"label": ["x"]}, {"everything": True}, {"_everything": True}]
    )
    def test_what_is_no_grant_is_refused(self, grant):
        with TierMemory.open(now=NOW) as mem, pytest.raises(InvalidInput) as caught:
            mem.search("x", grant=grant, now=NOW)
        assert caught.value.argument == "grant"

    def test_nobody_is_handed_the_owners(self):
        import tiermem_fast

        assert rights_of(OWNER, NOW) == {"everything": True}
        assert OWNER not in [getattr(tiermem_fast, name) for name in tiermem_fast.__all__]


class TestTiersOfATask:
    def test_the_row_of_the_task_then_that_of_all_others(self):
        table = {"mail": ["semantic", "working"], "*": ["procedural"]}
        assert tiers_for("mail", table) == (Tier.WORKING, Tier.SEMANTIC)
        assert tiers_for("other", table) == tiers_for(None, table) == (Tier.PROCEDURAL,)
        assert tiers_for("other", {"mail": []}) == TIERS

    @pytest.mark.parametrize("tier", TIERS)
    def test_a_briefing_has_only_what_the_task_may_see(self, tier):
        with TierMemory.open(config={"access": {"tiers": {"narrow": [tier]}}}, now=NOW) as mem:
            for each in TIERS:
                mem.add(
                    f"the otter swims in the {each} pond", tier=each, session="s1", metadata={"task": "narrow"}, now=NOW
                )
            mem.observe("Always answer with the otter swims in mind", session="s1", now=NOW)
            briefing = mem.brief("where does the otter swim in the pond", task="narrow", session="s1", now=NOW)
            assert {item.tier for item in briefing} == {tier}
            assert {
                item.tier for item in mem.brief("where does the otter swim in the pond", session="s1", now=NOW)
            } == set(TIERS)

    def test_an_unknown_tier_is_refused(self):
        with pytest.raises(InvalidInput, match="did you mean 'semantic'"):
            TierMemory.open(config={"access": {"tiers": {"mail": ["semantik"]}}})


# Every public method of the memory: what it hands out when nothing is granted, or why it may hand out everything.
Answers = Iterator[object]


def each(mem: TierMemory, call: Callable[[str], object]) -> Answers:
    for row in mem.sql("select id from memories"):
        try:
            yield call(row["id"])
        except (AccessDenied, MemoryNotFound, InvalidInput) as error:
            yield error


def exported(mem: TierMemory) -> str:
    lines = io.StringIO()
    mem.export_jsonl(lines, now=NOW)
    return lines.getvalue()


ANSWERS: dict[str, Callable[[TierMemory, Path], Answers]] = {
    "get": lambda mem, _: each(mem, lambda which: mem.get(which, now=NOW)),
    "search": lambda mem, _: iter([list(mem.search(f"the {SECRET} in the hall", k=100, now=NOW)), mem.search(SECRET, must=SECRET, now=NOW).texts]),
    "list": lambda mem, _: iter([mem.list(now=NOW), mem.list(where={"labels": "health"}, now=NOW), mem.list(must=SECRET, now=NOW)]),
    "count": lambda mem, _: iter([SECRET] if mem.count(must=SECRET, now=NOW) else []),
    "brief": lambda mem, _: (
        mem.brief(f"the {SECRET} in the hall", task="music", session="s1", about=about, format=format, budget=9_000, now=NOW)
        for about in (None, "Anna") for format in ("markdown", "xml", "messages")
    ),
    "explain": lambda mem, _: each(mem, lambda which: mem.explain(which, query=f"the {SECRET} in the hall", session="s1", now=NOW)),
    "strength_curve": lambda mem, _: each(mem, lambda which: mem.strength_curve(which, days=2, now=NOW)),
    "history": lambda mem, _: each(mem, mem.history),
    "observe": lambda mem, _: iter(
        mem.observe(text, about=about, session="s1", now=NOW)
        for about in (None, "Anna")
        for text in ("My instrument is in the attic", "Actually, the hall has no instrument", "Forget the instrument in the hall",
                     "Anna plays in the hall", "I like the hall")
    ),
    "export_jsonl": lambda mem, _: iter([exported(mem)]),
    "import_jsonl": lambda mem, _: iter([mem.import_jsonl(io.StringIO('{"text": "the hall is open"}\n'), now=NOW)]),
    "add": lambda mem, _: iter([mem.add(f"new {SECRET[:3]}", now=NOW)]),
    "add_many": lambda mem, _: iter([mem.add_many(["newer"], now=NOW)]),
    "update": lambda mem, _: each(mem, lambda which: mem.update(which, importance=0.4, now=NOW)),
    "supersede": lambda mem, _: each(mem, lambda which: mem.supersede(which, f"changed {which}", now=NOW)),
    "used": lambda mem, _: each(mem, lambda which: mem.used(which, now=NOW)),
    "forget": lambda mem, _: each(mem, lambda which: mem.forget([which], now=NOW)),
    "restore": lambda mem, _: each(mem, lambda which: mem.restore([which], now=NOW)),
    "erase": lambda mem, _: iter([mem.erase(where={"labels": "health"}, now=NOW)]),
    "erasures": lambda mem, _: iter([mem.erasures()]),
    "stats": lambda mem, _: iter([mem.stats(now=NOW)]),
    "maintain": lambda mem, _: iter([mem.maintain(now=NOW)]),
    "compact": lambda mem, _: iter([mem.compact(now=NOW)]),
    "verify": lambda mem, _: iter([mem.verify()]),
    "backup": lambda mem, folder: iter([mem.backup(folder / "copy", now=NOW)]),
}  # fmt: skip
OWNER_ONLY = {
    "sql": "reads the tables themselves; whoever holds the store's handle may, a service must not pass it on",
    "consolidate": "its report names what was let go by how it began, for whoever keeps the store",
    "close": "hands out nothing",
    "snapshot": "writes a copy of the store for its owner",
    "check": "hands out nothing",
    "plan_cleanup": "its plan names what would go, for whoever keeps the store",
    "apply": "carries out a plan",
    "undo": "takes a plan back",
    "reembed": "hands out nothing",
}


def public_methods() -> set[str]:
    found = {name for name, value in vars(TierMemory).items() if inspect.isfunction(value)}
    return {name for name in found if not name.startswith("_")}


class TestEveryMethod:
    @pytest.fixture
    def mem(self, tmp_path):
        with TierMemory.open(tmp_path / "store", now=NOW) as opened:
            for tier in TIERS:
                for about in (None, "Anna"):
                    opened.add(
                        f"the {SECRET} in the hall is my instrument, {tier}", tier=tier, session="s1", about=about,
                        labels=["health"], metadata={"task": "music", "slot": "instrument"}, now=NOW,
                    )  # fmt: skip
                opened.add(f"the piano in the hall, {tier}", tier=tier, session="s1", private={"price": FIELD}, now=NOW)
            yield opened

    def test_is_known_here(self):
        known = ANSWERS.keys() | OWNER_ONLY.keys()
        assert public_methods() <= known, "a new public method: say what it hands out without a grant, or why it may"
        assert not ANSWERS.keys() & OWNER_ONLY.keys()

    @pytest.mark.parametrize("method", sorted(ANSWERS))
    def test_hands_out_nothing_that_is_not_granted(self, mem, tmp_path, method):
        told = [f"{answer!r} {answer}" for answer in ANSWERS[method](mem, tmp_path)]
        assert told or method == "count"
        for answer in told:
            assert SECRET not in answer
            assert FIELD not in answer

    def test_the_secret_would_be_seen(self, mem):
        grant = Grant(labels=["health"], fields=["price"])
        assert SECRET in repr(mem.search(f"the {SECRET} in the hall", grant=grant, now=NOW)[0])
        assert FIELD in repr([item.private for item in mem.list(grant=grant, now=NOW)])
