"""A naive model of a store, and a machine that does the same to both and compares them after each step.

The model is a list of memories and the formulas of the design written out in numpy; restart is one of the operations, and
a second handle on the same directory looks on. `test_stateful.py` runs it, `test_stateful_disk.py` adds to its operations.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tiermem_fast import AddedId, MemoryItem, TierMemory

DAY = 86_400.0
BIRTH = {"working": 1_800.0, "episodic": 7 * DAY, "semantic": 180 * DAY, "procedural": math.inf}
LONGEST = 3_652.5 * DAY
GRANT = {"labels": ["health"], "fields": ["phone"]}
DIMENSION = 4
# Fewer than the candidates of each arm, so that every search is exact.
MOST = 60

# Words whose stems differ and of which none is grammar.
WORDS = ("apple", "bridge", "candle", "dolphin", "engine", "forest", "茶", "电脑")


def strength(elapsed: float, half_life: float, tier: str) -> float:
    """The law of decay at its default shapes: exponential in working memory, hyperbolic above it."""
    ratio = max(elapsed, 0.0) / half_life
    if tier == "procedural":
        return 1.0
    return 2.0**-ratio if tier == "working" else 1.0 / (1.0 + ratio)


def halved(vector: list[int]) -> np.ndarray:
    """A vector as the store keeps it: of length one, in float16."""
    value = np.array(vector, np.float64)
    return (value / np.linalg.norm(value)).astype(np.float16).astype(np.float64)


@dataclass
class Memory:
    """What the model knows of one memory."""

    id: str
    text: str
    tier: str
    session: str | None
    about: str | None
    importance: float
    born: float
    used: float
    half_life: float
    vector: np.ndarray | None
    trust: float = 1.0
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    private: dict[str, Any] = field(default_factory=dict)
    expires_at: float | None = None
    pinned: bool = False
    use_count: int = 0
    repeat_count: int = 0
    version: int = 1
    state: str = "alive"
    supersedes: str | None = None
    superseded_by: str | None = None
    derived_from: tuple[str, ...] = ()
    hidden_at: float = 0.0

    def place(self) -> tuple[Any, ...]:
        """Two living memories with the same place say the same thing in the same context."""
        return (self.text, self.tier, self.session, self.about)

    def strength(self, now: float) -> float:
        return strength(now - self.used, self.half_life, self.tier)

    def reinforce(self, now: float) -> None:
        """The law of use."""
        if math.isfinite(self.half_life):
            self.half_life = min(LONGEST, self.half_life * (1.0 + (1.0 - self.strength(now))))
        self.used = max(self.used, now)

    def birth(self) -> float:
        """The law of birth, for what it is now."""
        return math.inf if self.pinned else BIRTH[self.tier] * 4.0 ** (self.importance - 0.5)

    def change(self, changes: dict[str, Any]) -> None:
        """What an update does: never decaying is a matter of tier and pin, and a new tier is no step down."""
        before = (self.tier, self.pinned)
        for name, value in changes.items():
            setattr(self, name, {} if value is None and name in ("metadata", "private") else value)
        if before != (self.tier, self.pinned):
            born = self.birth()
            self.half_life = born if math.isinf(self.half_life) else max(self.half_life, born)
        self.version += 1


FIELDS = st.fixed_dictionaries(
    {
        "tier": st.sampled_from(["working", "episodic", "semantic", "semantic", "procedural"]),
        "session": st.sampled_from([None, "s1", "s2"]),
        "about": st.sampled_from([None, None, "Li", "王"]),
        "importance": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    },
    optional={
        "trust": st.sampled_from([0.0, 0.5, 1.0]),
        "tags": st.sampled_from([(), ("x",), ("x", "y")]),
        "labels": st.just(("health",)),
        "metadata": st.fixed_dictionaries(
            {"n": st.integers(0, 3)}, optional={"deep": st.just({"k": ["a", None, True]})}
        ),
        "private": st.just({"phone": "123"}),
        "pinned": st.booleans(),
        "expires_in": st.sampled_from([1.0, 3_600.0, 40 * DAY]),
    },
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "importance": st.sampled_from([0.0, 0.75, 1.0]),
        "session": st.sampled_from([None, "s1", "s3"]),
        "about": st.sampled_from([None, "Li"]),
        "trust": st.sampled_from([0.25, 1.0]),
        "tags": st.sampled_from([(), ("z",)]),
        "labels": st.sampled_from([(), ("health",)]),
        "metadata": st.sampled_from([None, {"n": 1}, {"m": {"n": "text"}}]),
        "private": st.sampled_from([None, {"phone": "9"}]),
        "pinned": st.booleans(),
        "tier": st.sampled_from(["episodic", "semantic", "procedural"]),
        "expires_in": st.sampled_from([None, 60.0, 40 * DAY]),
    },
)
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
VECTORS = st.lists(st.integers(-2, 2), min_size=DIMENSION, max_size=DIMENSION).filter(any)
PICKS = st.integers(0, 10_000)


class Machine(RuleBasedStateMachine):
    """One store on disk, a second handle on it, and the model."""

    @initialize()
    def open_both(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="tiermem-stateful-")
        self.now = 1_000_000.0
        self.memories: list[Memory] = []
        self.keys: dict[str, str] = {}
        self.mem = TierMemory.open(self.directory, now=self.now)
        self.second = TierMemory.open(self.directory, now=self.now)

    def teardown(self) -> None:
        if hasattr(self, "mem"):
            self.mem.close()
            self.second.close()
            shutil.rmtree(self.directory)

    # ------------------------------------------------------------------ what the model says

    def living(self) -> list[Memory]:
        return [
            one for one in self.memories
            if one.state == "alive" and (one.expires_at is None or one.expires_at > self.now)
        ]  # fmt: skip

    def visible(self) -> list[Memory]:
        return [one for one in self.living() if not one.labels]

    def forgotten(self) -> list[Memory]:
        return [one for one in self.memories if one.state == "forgotten"]

    def found(self, id: str) -> Memory:
        (one,) = [one for one in self.memories if one.id == id]
        return one

    def dated(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with their end as a time."""
        rest = {name: value for name, value in fields.items() if name != "expires_in"}
        if "expires_in" in fields:
            span = fields["expires_in"]
            rest["expires_at"] = None if span is None else self.now + span
        return rest

    def take(self, added: AddedId, text: str, fields: dict[str, Any], vector: list[int] | None) -> None:
        """Does to the model what the store said that it did, when the law allows that."""
        place = (text, fields["tier"], fields["session"], fields["about"])
        same = [one for one in self.living() if one.place() == place]
        assert added.reinforced == bool(same), f"{place} is there {len(same)} times"
        assert added.created != added.reinforced
        assert added.redactions == ()
        if added.created:
            assert all(one.id != added for one in self.memories)
            kept = None if vector is None else halved(vector)
            new = Memory(id=added, text=text, born=self.now, used=self.now, half_life=0.0, vector=kept, **fields)
            new.half_life = new.birth()
            self.memories.append(new)
            return
        (one,) = [one for one in same if one.id == added]
        one.reinforce(self.now)
        one.repeat_count += 1
        one.importance = max(one.importance, fields["importance"])
        # Hearing it again takes nothing back.
        one.labels += tuple(label for label in fields.get("labels", ()) if label not in one.labels)
        end = fields.get("expires_at")
        one.expires_at = None if end is None or one.expires_at is None else max(end, one.expires_at)
        if fields.get("pinned") and not one.pinned:
            one.pinned, one.half_life = True, math.inf
        one.version += 1

    # ------------------------------------------------------------------ operations

    @precondition(lambda self: len(self.memories) < MOST)
    @rule(text=TEXTS, fields=FIELDS, vector=st.none() | VECTORS)
    def add(self, text, fields, vector) -> None:
        fields, given = self.dated(fields), None if vector is None else np.array(vector, np.float32)
        added = self.mem.add(text, vector=given, now=self.now, **fields)
        self.take(added, text, fields, vector)

    @precondition(lambda self: len(self.memories) < MOST - 5)
    @rule(items=st.lists(st.tuples(TEXTS, FIELDS, VECTORS), max_size=5), given_vectors=st.booleans())
    def add_many(self, items, given_vectors) -> None:
        items = [(text, self.dated(fields), vector) for text, fields, vector in items]
        rows = [{"text": text, **fields} for text, fields, _ in items]
        matrix = np.array([vector for _, _, vector in items], np.float32).reshape(-1, DIMENSION)
        ids = self.mem.add_many(rows, vectors=matrix if given_vectors else None, now=self.now)
        assert len(ids) == len(items)
        for id, (text, fields, vector) in zip(ids, items, strict=True):
            self.take(id, text, fields, vector if given_vectors else None)

    @precondition(lambda self: len(self.memories) < MOST)
    @rule(text=TEXTS, fields=FIELDS, key=st.sampled_from(["k1", "k2"]))
    def add_with_a_key(self, text, fields, key) -> None:
        fields = self.dated(fields)
        commit_before = self.mem.stats(now=self.now).commit
        added = self.mem.add(text, idempotency_key=key, now=self.now, **fields)
        if key in self.keys:
            assert (str(added), added.created, added.reinforced) == (self.keys[key], False, False)
            assert commit_before <= self.mem.stats(now=self.now).commit <= commit_before + 1
        else:
            self.take(added, text, fields, None)
            self.keys[key] = str(added)

    @precondition(lambda self: self.living())
    @rule(pick=PICKS, changes=CHANGES)
    def update(self, pick, changes) -> None:
        one = self.living()[pick % len(self.living())]
        changes = self.dated(changes)
        self.mem.update(one.id, now=self.now, **changes)
        one.change(changes)

    @precondition(lambda self: self.living() and len(self.memories) < MOST)
    @rule(pick=PICKS, text=TEXTS, changes=CHANGES, vector=st.none() | VECTORS)
    def supersede(self, pick, text, changes, vector) -> None:
        old = self.living()[pick % len(self.living())]
        if text == old.text:
            text += " apple"
        changes, given = self.dated(changes), None if vector is None else np.array(vector, np.float32)
        added = self.mem.supersede(old.id, text, vector=given, now=self.now, **changes)
        assert added.created
        assert not added.reinforced
        new = replace(
            old, id=str(added), text=text, born=self.now, used=self.now, use_count=0, repeat_count=0, version=1,
            vector=None if vector is None else halved(vector), supersedes=old.id, derived_from=(),
        )  # fmt: skip
        new.change(changes)
        new.half_life, new.version = new.birth(), 1
        old.state, old.superseded_by = "superseded", new.id
        old.version += 1
        self.memories.append(new)

    @precondition(lambda self: self.living())
    @rule(picks=st.lists(PICKS, min_size=1, max_size=3))
    def forget(self, picks) -> None:
        chosen = {self.living()[pick % len(self.living())].id for pick in picks}
        self.mem.forget(sorted(chosen), now=self.now)
        for id in chosen:
            one = self.found(id)
            one.state, one.hidden_at = "forgotten", self.now
            one.version += 1

    @precondition(lambda self: self.forgotten())
    @rule(pick=PICKS)
    def restore(self, pick) -> None:
        one = self.forgotten()[pick % len(self.forgotten())]
        self.mem.restore([one.id], now=self.now)
        one.state = "alive"
        one.version += 1

    @precondition(lambda self: self.living())
    @rule(picks=st.lists(PICKS, min_size=1, max_size=4))
    def use(self, picks) -> None:
        chosen = sorted({self.living()[pick % len(self.living())].id for pick in picks})
        self.mem.used(chosen, now=self.now)
        for id in chosen:
            one = self.found(id)
            one.use_count += 1
            one.reinforce(self.now)

    @rule(seconds=st.sampled_from([1.0, 60.0, 3_600.0, DAY, 30 * DAY]))
    def wait(self, seconds) -> None:
        self.now += seconds

    @rule()
    def reopen(self) -> None:
        before = [item.model_dump() for item in self.mem.list(limit=MOST, grant=GRANT, now=self.now)]
        self.mem.close()
        self.mem = TierMemory.open(self.directory, now=self.now)
        after = [item.model_dump() for item in self.mem.list(limit=MOST, grant=GRANT, now=self.now)]
        assert after == before

    @rule()
    def maintain(self) -> None:
        assert self.mem.maintain(now=self.now).finished

    @precondition(lambda self: len(self.memories) < MOST)
    @rule(text=TEXTS, fields=FIELDS, vector=VECTORS)
    def the_second_handle_writes(self, text, fields, vector) -> None:
        fields = self.dated(fields)
        place = (text, fields["tier"], fields["session"], fields["about"])
        if any(one.place() == place for one in self.living()):
            # Uses that wait in the first one's RAM would come after this reinforcement, not before it as in the model.
            self.mem.maintain(now=self.now)
        added = self.second.add(text, vector=np.array(vector, np.float32), now=self.now, **fields)
        self.take(added, text, fields, vector)

    # ------------------------------------------------------------------ questions

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True))
    def search_by_words(self, words) -> None:
        hits = self.mem.search(" ".join(words), k=MOST, now=self.now)
        wanted = {one.id for one in self.visible() if any(word in one.text.split() for word in words)}
        assert set(hits.ids) == wanted
        self.check(hits)
        assert np.isnan(hits.vector_scores).all()
        np.testing.assert_allclose(hits.relevance, hits.keyword_scores, atol=1e-6)

    @rule(word=st.sampled_from(WORDS), other=st.sampled_from(WORDS))
    def search_what_must_have_a_word(self, word, other) -> None:
        hits = self.mem.search(f"{word} {other}", must=[word], k=MOST, now=self.now)
        assert set(hits.ids) == {one.id for one in self.visible() if word in one.text.split()}

    @precondition(lambda self: any(one.vector is not None for one in self.memories))
    @rule(query=VECTORS, k=st.integers(1, MOST), granted=st.booleans())
    def search_by_vector(self, query, k, granted) -> None:
        hits = self.mem.search(vector=np.array(query, np.float32), k=k, grant=GRANT if granted else None, now=self.now)
        unit = np.array(query) / np.linalg.norm(query)
        scores = {}
        for one in self.living() if granted else self.visible():
            if one.vector is not None:
                cosine = float(unit @ one.vector / np.linalg.norm(one.vector))
                scores[one.id] = max(cosine, 0.0) * (0.7 + 0.2 * one.strength(self.now) + 0.1 * one.importance)
        best = sorted(scores.values(), reverse=True)[:k]
        # What is exactly at right angles may come out a hair on either side of 0.
        best = [score for score in best if score > 1e-3]
        found = hits.scores[: len(best)]
        note(f"{hits.ids} {hits.scores}")
        assert len(hits) >= len(best)
        np.testing.assert_allclose(found, best, atol=1e-3)
        assert (hits.scores[len(best) :] <= 1e-3).all()
        for id, score in zip(hits.ids, hits.scores, strict=True):
            assert abs(scores[id] - score) < 1e-3
        self.check(hits)

    def check(self, hits) -> None:
        """What holds of every answer."""
        assert (np.diff(hits.scores) <= 0).all()
        for name in ("scores", "relevance", "strength", "importance"):
            column = getattr(hits, name)
            assert ((column >= 0) & (column <= 1)).all(), name
        ones = [self.found(id) for id in hits.ids]
        assert all(one in self.living() for one in ones)
        assert hits.texts == [one.text for one in ones]
        np.testing.assert_allclose(hits.strength, [one.strength(self.now) for one in ones], rtol=1e-4, atol=1e-30)
        np.testing.assert_allclose(hits.importance, [one.importance for one in ones])
        np.testing.assert_allclose(
            hits.scores, hits.relevance * (0.7 + 0.2 * hits.strength + 0.1 * hits.importance), rtol=1e-5
        )

    @rule(
        tiers=st.sets(st.sampled_from(["working", "episodic", "semantic", "procedural"]), min_size=1),
        session=st.sampled_from([None, "s1", "nobody"]),
        about=st.sampled_from([None, "Li", "nobody"]),
        n=st.none() | st.integers(0, 3),
        tag=st.sampled_from([None, "x", "z"]),
        least=st.none() | st.sampled_from([0.0, 0.5]),
    )
    def filter(self, tiers, session, about, n, tag, least) -> None:
        where: dict[str, Any] = {}
        if n is not None:
            where["n"] = n
        if tag is not None:
            where["tags"] = {"in": [tag, "never"]}
        if least is not None:
            where["importance"] = {"gte": least}
        wanted = [
            one.id
            for one in self.visible()
            if one.tier in tiers
            and (session is None or one.session == session)
            and (about is None or one.about in (about, None))
            and (n is None or one.metadata.get("n") == n)
            and (tag is None or tag in one.tags)
            and (least is None or one.importance >= least)
        ]
        conditions = {"tiers": sorted(tiers), "session": session, "about": about, "where": where}
        assert [item.id for item in self.mem.list(limit=MOST, now=self.now, **conditions)] == wanted
        if where:
            assert self.mem.count(now=self.now, **conditions) == len(wanted)

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def the_store_is_the_model(self) -> None:
        if not hasattr(self, "mem"):
            return
        assert self.mem.count(now=self.now) == len(self.living())
        assert [item.id for item in self.mem.list(limit=MOST, now=self.now)] == [one.id for one in self.visible()]
        listed = self.mem.list(limit=MOST, grant=GRANT, now=self.now)
        assert [item.id for item in listed] == [one.id for one in self.living()]
        for item, one in zip(listed, self.living(), strict=True):
            assert_same(item, one)
        stats = self.mem.stats(now=self.now)
        states = [one.state for one in self.memories]
        assert (stats.alive, stats.forgotten, stats.superseded) == tuple(
            states.count(state) for state in ("alive", "forgotten", "superseded")
        )

    @invariant()
    def the_second_handle_sees_every_commit(self) -> None:
        if not hasattr(self, "mem"):
            return
        listed = self.second.list(limit=MOST, grant=GRANT, now=self.now)
        assert [item.id for item in listed] == [one.id for one in self.living()]
        assert [item.text for item in listed] == [one.text for one in self.living()]
        assert [item.metadata for item in listed] == [one.metadata for one in self.living()]

    @invariant()
    def what_was_retired_is_read_by_its_id(self) -> None:
        if not hasattr(self, "mem"):
            return
        for one in self.memories[-6:]:
            if one.state == "superseded":
                assert_same(self.mem.get(one.id, grant=GRANT, now=self.now), one)


def assert_same(item: MemoryItem, one: Memory) -> None:
    """A memory of the store and one of the model, field by field."""
    for name in (
        "id", "text", "tier", "session", "about", "importance", "trust", "tags", "labels", "pinned", "metadata", "private",
        "use_count", "repeat_count", "version", "supersedes", "superseded_by", "derived_from",
    ):  # fmt: skip
        assert getattr(item, name) == getattr(one, name), f"{name} of {one}"
    assert item.created_at.timestamp() == one.born
    assert item.last_used_at.timestamp() == one.used
    assert (item.expires_at and item.expires_at.timestamp()) == one.expires_at
    assert item.half_life == one.half_life or math.isclose(item.half_life, one.half_life, rel_tol=1e-5)
