"""Bad input: a typed error that names the argument, and a store that is as it was to the last byte."""

from __future__ import annotations

import gc
import inspect
import io
import json
import math
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tiermem_fast import (
    AccessDenied,
    InvalidInput,
    LimitExceeded,
    MemoryItem,
    MemoryNotFound,
    ModelMismatch,
    ReadOnlyStore,
    StoreClosed,
    TiermemError,
    TierMemory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1_700_000_000.0
UNKNOWN = "018bcfe5-6872-7007-bfff-00005c9e01aa"
MALFORMED = ("", "x", "018bcfe5-6872-7007-bfff-fffffffffffg", "018bcfe568727007bfffffffffffffff", "é" * 36, "\0" * 36)
LONE = "a\ud800b"
TEXT_LIMIT = 64 * 1024
TABLES = (
    "select * from memory order by row",
    "select * from content order by row",
    "select * from vector order by row",
    "select * from edge order by newer, older",
    "select * from event order by row, number",
    "select * from undo",
    "select * from idempotency order by key",
    "select * from meta order by key",
    "select * from counter",
)


class Store:
    """A store with one memory of each fate, and the ids of those that matter to a call."""

    def __init__(self, path: str | None) -> None:
        self.mem = TierMemory.open(path, now=NOW)
        self.id = self.mem.add("alpha one", vector=unit(0), metadata={"n": 1}, session="s", about="Li", now=NOW)
        self.other = self.mem.add("beta two", vector=unit(1), tags=["t"], private={"phone": "1"}, now=NOW)
        self.hidden = self.mem.add("gamma three", vector=unit(2), labels=["health"], now=NOW)
        self.forgotten = self.mem.add("delta four", vector=unit(3), now=NOW)
        self.mem.forget(self.forgotten, now=NOW)
        self.old = self.mem.add("epsilon five", vector=unit(1), now=NOW)
        self.mem.supersede(self.old, "epsilon six", vector=unit(2), now=NOW)

    def dump(self) -> dict[str, Any]:
        """Everything that the store says of itself: the tables, the columns in RAM, and what the indexes find."""
        everything = {"labels": ["health"], "fields": ["phone"]}
        found = self.mem.search("alpha beta gamma", vector=unit(0), k=10, grant=everything, now=NOW)
        by_metadata = self.mem.count(where={"n": 1}, now=NOW)
        stats = self.mem.stats(now=NOW).model_dump(exclude={"disk_bytes", "ram_bytes"})
        listed = [item.model_dump() for item in self.mem.list(limit=10_000, grant=everything, now=NOW)]
        # Last, for nothing above may write either.
        tables = [self.mem.sql(statement) for statement in TABLES]
        return {
            "tables": tables, "stats": stats, "listed": listed,
            "ids": found.ids, "scores": found.scores.tolist(), "by_metadata": by_metadata,
        }  # fmt: skip


def unit(place: int) -> np.ndarray:
    """The unit vector along one axis."""
    vector = np.zeros(4, np.float32)
    vector[place] = 1.0
    return vector


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store that all refusals share, for none of them may change it."""
    made = Store(None)
    yield made
    made.mem.close()


@pytest.fixture(scope="module", params=["ram", "disk"])
def either(request, tmp_path_factory) -> Iterator[Store]:
    """The same in RAM and on disk, for what is refused within a transaction."""
    made = Store(None if request.param == "ram" else str(tmp_path_factory.mktemp("store")))
    yield made
    made.mem.close()


@pytest.fixture
def fresh(tmp_path) -> Iterator[Store]:
    """A store that may be changed."""
    made = Store(str(tmp_path / "store"))
    yield made
    made.mem.close()


@dataclass(frozen=True)
class Bad:
    """A value that no call takes: the argument that the error names, and what its message says."""

    argument: str
    value: Any
    says: str = ""
    error: type[TiermemError] = InvalidInput
    about: str = ""
    named: str = ""
    """The name in the error where the core has another one for what it counts or reads."""

    def __str__(self) -> str:
        return self.about or f"{self.argument}={self.value!r}"[:50].encode("ascii", "backslashreplace").decode()


def refused(store: Store, bad: Bad, call: Callable[[], object], *, argument: str = "") -> TiermemError:
    """Make the call, see that it is refused as it should be, and that it changed nothing."""
    before = store.dump()
    with pytest.raises(TiermemError) as caught:
        call()
    error = caught.value
    assert type(error) is bad.error, f"{type(error).__name__}: {error}"
    assert re.search(bad.says, str(error)), str(error)
    assert len(str(error)) < 1_000
    if isinstance(error, InvalidInput):
        wanted = argument or bad.named or bad.argument
        assert error.argument is not None
        assert re.search(rf"(^|\W)({wanted})(\W|$)", error.argument), (
            f"the error names {error.argument!r}, not {wanted!r}"
        )
    if isinstance(error, LimitExceeded):
        assert error.got is not None
        assert error.limit is not None
        assert error.got > error.limit
    assert store.dump() == before
    return error


def deep(levels: int) -> dict[str, Any]:
    """An object with so many objects in one another."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def cycle() -> dict[str, Any]:
    """An object that contains itself."""
    value: dict[str, Any] = {}
    value["again"] = [value]
    return value


NO_NUMBERS = ("0.5", None, [0.5], 1j, True, object())
NO_TIMES = (
    -1, -1e-6, math.nan, math.inf, -math.inf, 253_402_300_800, 1e18, 10**400, True, "2024-01-01", [1.0],
    datetime(1969, 12, 31, 23, 59, 59), datetime.min.replace(tzinfo=UTC), date(2024, 1, 1), timedelta(1),
)  # fmt: skip
NO_NAMES = (
    ("", "empty"), ("x" * 513, "513"), ("é" * 257, "514"), ("a\0b", "NUL"), (LONE, "surrogate"), (3, "int"), (b"s", "bytes"),
)  # fmt: skip
NO_LISTS_OF_NAMES = (
    ("one", "one str"), (["a", ""], "empty"), (["a", 3], "int"), (["x" * 513], "513"), (["a\0"], "NUL"),
    ([LONE], "surrogate"), ([f"n{number}" for number in range(65)], "65"), (7, "int"),
)  # fmt: skip


def name_faults(argument: str) -> list[Bad]:
    return [
        Bad(argument, value, says, LimitExceeded if says.isdecimal() else InvalidInput, f"{argument} {says}")
        for value, says in NO_NAMES
    ]


def list_faults(argument: str) -> list[Bad]:
    return [
        Bad(argument, value, says, LimitExceeded if says.isdecimal() else InvalidInput, f"{argument} {says}")
        for value, says in NO_LISTS_OF_NAMES
    ]


def object_faults(argument: str) -> list[Bad]:
    return [
        Bad(argument, [1], "not a dict"),
        Bad(argument, "x", "not a dict"),
        Bad(argument, 3, "not a dict"),
        Bad(argument, {"a": math.nan}, "not JSON"),
        Bad(argument, {"a": [math.inf]}, "not JSON"),
        Bad(argument, {"a": object()}, "not JSON"),
        Bad(argument, {"a": {1, 2}}, "not JSON"),
        Bad(argument, {"a": b"bytes"}, "not JSON"),
        Bad(argument, {"a": datetime(2024, 1, 1)}, "not JSON"),
        Bad(argument, {"a": np.float32(1)}, "not JSON"),
        Bad(argument, {"a": 10**400}, "JSON"),
        Bad(argument, {1: 2}, "key 1 is not a str"),
        Bad(argument, {None: 2}, "key None is not a str"),
        Bad(argument, cycle(), "[Cc]ircular", about=f"{argument} cycle"),
        Bad(argument, deep(17), "17 is over the limit of 16", LimitExceeded, f"{argument} 17 deep"),
        Bad(argument, deep(200), "", InvalidInput, f"{argument} 200 deep"),
        Bad(argument, deep(100_000), "", InvalidInput, f"{argument} 100,000 deep"),
        Bad(argument, {"a": "x" * 65_529}, "65537 is over the limit of 65536", LimitExceeded, f"{argument} too large"),
        Bad(argument, {LONE: 1}, "surrogate", about=f"{argument} key with a surrogate"),
        Bad(argument, {"a": [LONE]}, "surrogate", about=f"{argument} value with a surrogate"),
    ]


SHARES = [
    Bad(name, value)
    for name in ("importance", "trust")
    for value in (math.nan, math.inf, -math.inf, -0.1, 1.1, -1e-3, 10**400, *NO_NUMBERS)
]
WORDS = [
    *(
        Bad("tier", value)
        for value in ("Semantic", "", "semantik", "semantic\0", LONE, None, 2, b"semantic", ["semantic"])
    ),
    *(Bad("source", value) for value in ("human", "", "USER", LONE, None, 0)),
]
# Fields of a memory that a change may change too.
FIELDS = [
    *SHARES,
    *WORDS,
    *name_faults("session"),
    *name_faults("about"),
    *list_faults("tags"),
    *list_faults("labels"),
    *object_faults("metadata"),
    *object_faults("private"),
    *(Bad("expires_at", value) for value in NO_TIMES),
    *(Bad("half_life", value) for value in (0, -1, math.nan, -math.inf, 1e12, "60", True, [1.0])),
    *(Bad("pinned", value) for value in (1, 0.0, "yes", None, [True])),
]
# And those that only its birth may have.
BIRTH_FIELDS = [
    *(Bad("created_at", value) for value in NO_TIMES),
    *name_faults("idempotency_key"),
    Bad("derived_from", UNKNOWN, "list of ids"),
    Bad("derived_from", [UNKNOWN], UNKNOWN, MemoryNotFound),
    *(Bad("derived_from", [id], "", MemoryNotFound, f"derived_from malformed {id[:8]!a}") for id in MALFORMED),
    Bad("derived_from", 7, "int"),
]
TEXTS = [
    *(Bad("text", value, "empty") for value in ("", " ", "\n\t \u3000\u2003", "\r\n")),
    Bad("text", "x" * (TEXT_LIMIT + 1), "65537 is over the limit of 65536", LimitExceeded, "64 KiB and 1 byte"),
    Bad("text", "é" * (TEXT_LIMIT // 2) + "x", "65537 is over", LimitExceeded, "64 KiB and 1 byte of UTF-8"),
    Bad("text", "记" * 30_000, "90000 is over the limit of 65536", LimitExceeded, "90,000 bytes of Chinese"),
    Bad("text", "a\0b", "NUL byte at 1"),
    Bad("text", "\0", "NUL"),
    *(Bad("text", value, "surrogate") for value in (LONE, "\udfff", "ok \udc80")),
    *(Bad("text", value, type(value).__name__) for value in (None, 3, b"bytes", ["list"], 1.5)),
]
VECTORS = [  # "add" calls its one vector "vectors", as the matrix it becomes
    Bad("vector", np.array([1, math.nan, 0, 0], np.float32), "NaN"),
    Bad("vector", np.array([math.inf, 0, 0, 0], np.float32), "inf"),
    Bad("vector", np.array([0, 0, -math.inf, 0], np.float32), "inf"),
    Bad("vector", np.zeros(4, np.float32), "zero|length 0|short"),
    Bad("vector", np.full(4, 1e-30, np.float32), "", about="vector next to nothing"),
    Bad("vector", unit(0).astype(np.float64), "float64"),
    Bad("vector", unit(0).astype(np.float16), "float16"),
    Bad("vector", unit(0).astype(np.int32), "int32"),
    Bad("vector", unit(0).astype(">f4"), "float", about="vector of the other byte order"),
    Bad("vector", unit(0).astype(object), "object"),
    Bad("vector", np.ones((1, 4), np.float32), r"shape \(1, 4\)"),
    Bad("vector", np.float32(1.0), "float32", about="vector a scalar"),
    Bad("vector", np.ones(8, np.float32)[::2], "contiguous"),
    Bad("vector", np.ones(4, np.float32)[::-1], "contiguous", about="vector reversed"),
    Bad("vector", np.ones(0, np.float32), "0", about="vector of no dimension"),
    Bad("vector", np.ones(16_385, np.float32), "16385 is over the limit of 16384", LimitExceeded, "vector too long"),
    Bad("vector", np.ones(3, np.float32), "4 dimensions.* 3", ModelMismatch, "vector of another dimension"),
    Bad("vector", "0.1", "str"),
    Bad("vector", object(), "object"),
    Bad("vector", ["a", "b"], "numbers"),
]
MATRICES = [
    Bad("vectors", np.array([[1, 0, 0, 0], [0, math.nan, 0, 0]], np.float32), "NaN"),
    Bad("vectors", np.array([[1, 0, 0, 0], [0, math.inf, 0, 0]], np.float32), "inf"),
    Bad("vectors", np.array([[1, 0, 0, 0], [0, 0, 0, 0]], np.float32), "row 1"),
    Bad("vectors", np.ones((2, 4)), "float64"),
    Bad("vectors", np.ones((2, 4), np.float16), "float16"),
    Bad("vectors", np.ones((3, 4), np.float32), "3 vectors for 2 memories"),
    Bad("vectors", np.ones((1, 4), np.float32), "1 vectors for 2 memories"),
    Bad("vectors", np.ones(4, np.float32), r"shape"),
    Bad("vectors", np.ones((2, 4, 1), np.float32), r"shape"),
    Bad("vectors", np.ones((2, 0), np.float32), "0", about="vectors of no dimension"),
    Bad("vectors", np.ones((2, 3), np.float32), "", ModelMismatch, "vectors of another dimension"),
    Bad("vectors", np.asfortranarray(np.ones((2, 4), np.float32)), "contiguous"),
    Bad("vectors", np.ones((2, 8), np.float32)[:, ::2], "contiguous"),
    Bad("vectors", np.ones((4, 4), np.float32)[::2], "contiguous", about="vectors every other row"),
    Bad("vectors", [[1.0, 0, 0, 0], [0, 1.0, 0, 0]], "list"),
]
TIMES = [Bad("now", value) for value in NO_TIMES]


def cases(*groups: list[Bad]) -> pytest.MarkDecorator:
    every = [bad for group in groups for bad in group]
    return pytest.mark.parametrize("bad", [pytest.param(bad, id=str(bad)) for bad in every])


class TestWriting:
    @cases(FIELDS, BIRTH_FIELDS)
    def test_add(self, store, bad):
        refused(store, bad, lambda: store.mem.add("new", **{bad.argument: bad.value}, now=NOW))

    @cases(TEXTS)
    def test_add_a_text(self, store, bad):
        refused(store, bad, lambda: store.mem.add(bad.value, now=NOW))

    @cases(VECTORS)
    def test_add_a_vector(self, store, bad):
        refused(store, bad, lambda: store.mem.add("new", vector=bad.value, now=NOW), argument="vectors?")

    @cases(FIELDS, BIRTH_FIELDS, TEXTS)
    def test_one_bad_item_of_many_stores_none(self, store, bad):
        items: list[Any] = ["first", {"text": "second", bad.argument: bad.value}, "alpha one"]
        error = refused(store, bad, lambda: store.mem.add_many(items, now=NOW), argument=r"items\[1\]")
        assert getattr(error, "added", []) == []

    @cases([bad for bad in (*FIELDS, *BIRTH_FIELDS) if bad.argument != "idempotency_key"])
    def test_a_bad_default_of_many(self, store, bad):
        call = lambda: store.mem.add_many(["first", "second"], **{bad.argument: bad.value}, now=NOW)  # noqa: E731
        refused(store, bad, call)

    @cases(MATRICES)
    def test_add_many_vectors(self, either, bad):
        refused(either, bad, lambda: either.mem.add_many(["first", "second"], vectors=bad.value, now=NOW))

    @cases(FIELDS)
    def test_update(self, store, bad):
        refused(store, bad, lambda: store.mem.update(store.id, **{bad.argument: bad.value}, now=NOW))

    @cases(FIELDS)
    def test_update_with_a_good_field_beside_it(self, store, bad):
        fields = {"importance": 0.9, "tags": ["new"], bad.argument: bad.value}
        refused(store, bad, lambda: store.mem.update(store.id, **fields, now=NOW))

    @cases(FIELDS)
    def test_supersede(self, store, bad):
        refused(store, bad, lambda: store.mem.supersede(store.id, "newer", **{bad.argument: bad.value}, now=NOW))

    @cases(TEXTS)
    def test_supersede_by_a_text(self, store, bad):
        refused(store, bad, lambda: store.mem.supersede(store.id, bad.value, now=NOW))

    @cases(VECTORS)
    def test_supersede_by_a_vector(self, store, bad):
        call = lambda: store.mem.supersede(store.id, "newer", vector=bad.value, now=NOW)  # noqa: E731
        refused(store, bad, call, argument="vectors?")

    def test_a_text_is_not_updated_but_superseded(self, store):
        refused(store, Bad("text", "x", "supersede"), lambda: store.mem.update(store.id, text="x", now=NOW))
        same = Bad("text", "alpha one", "already")
        refused(store, same, lambda: store.mem.supersede(store.id, "alpha one", now=NOW))

    @pytest.mark.parametrize("items", ["one text", {"text": "one dict"}, b"bytes"])
    def test_one_memory_is_not_many(self, store, items):
        refused(store, Bad("items", items, "one"), lambda: store.mem.add_many(items, now=NOW))

    @pytest.mark.parametrize("item", [None, 3, b"bytes", ["text"], object()])
    def test_an_item_is_a_text_a_dict_or_a_memory(self, store, item):
        refused(store, Bad(r"items\[1\]", item), lambda: store.mem.add_many(["first", item], now=NOW))

    def test_an_item_needs_a_text(self, store):
        refused(
            store, Bad(r"items\[0\]\.text", {}, "needed"), lambda: store.mem.add_many([{"importance": 0.5}], now=NOW)
        )

    def test_a_model_is_checked_when_it_is_made(self, store):
        with pytest.raises(InvalidInput, match=r"^importance: "):
            MemoryItem(text="x", importance=1.5)
        item = MemoryItem.model_construct(text="x", importance=1.5, _fields_set={"text", "importance"})
        refused(store, Bad("importance", 1.5), lambda: store.mem.add_many(["first", item], now=NOW))

    def test_what_is_left_of_a_long_input_is_said(self, fresh):
        """One commit takes 4,096 items, so those before the chunk with the fault are in, by name."""
        texts = [f"item {number}" for number in range(4_096)]
        with pytest.raises(InvalidInput) as caught:
            fresh.mem.add_many([*texts, "good", " "], now=NOW)
        assert len(caught.value.added) == 4_096  # type: ignore[attr-defined]
        assert fresh.mem.count(now=NOW) == 4_096 + 4
        assert fresh.mem.count(where={"id": ["good", *caught.value.added[:5]]}, now=NOW) == 5  # type: ignore[attr-defined]


class TestUnknownNames:
    @pytest.mark.parametrize("name", ["importanse", "tekst", "id", "version", "use_count", "superseded_by", "Tier"])
    def test_fields(self, store, name):
        bad = Bad(name, 1, "unknown; (did you mean|known are)")
        refused(store, bad, lambda: store.mem.add_many(["x"], **{name: 1}, now=NOW))
        refused(store, bad, lambda: store.mem.add_many([{"text": "x", name: 1}], now=NOW))
        refused(store, bad, lambda: store.mem.update(store.id, **({name: 1} if name != "id" else {"id_": 1}), now=NOW),
                argument=name if name != "id" else "id_")  # fmt: skip
        if name != "id":
            refused(store, bad, lambda: store.mem.supersede(store.id, "newer", **{name: 1}, now=NOW))

    @pytest.mark.parametrize("name", ["created_at", "derived_from", "idempotency_key"])
    def test_fields_that_only_a_birth_has(self, store, name):
        bad = Bad(name, 1, "unknown")
        refused(store, bad, lambda: store.mem.update(store.id, **{name: 1}, now=NOW))
        refused(store, bad, lambda: store.mem.supersede(store.id, "newer", **{name: 1}, now=NOW))

    def test_arguments_of_calls_with_a_fixed_form(self, store):
        for call in (
            store.mem.add,
            store.mem.search,
            store.mem.list,
            store.mem.count,
            store.mem.brief,
            store.mem.forget,
        ):
            before = store.dump()
            with pytest.raises(TypeError, match="no_such_argument"):
                call("x", no_such_argument=1)
            assert store.dump() == before

    def test_options(self):
        for config, argument in (({"laws": {"gane": 1}}, "laws.gane"), ({"lows": {}}, "lows"), (3, "config")):
            with pytest.raises(InvalidInput) as caught:
                TierMemory.open(config=config)  # type: ignore[arg-type]
            assert caught.value.argument == argument
        with pytest.raises(InvalidInput, match=r"^durability: "):
            TierMemory.open(durability="sometimes")  # type: ignore[arg-type]


QUERIES = [
    Bad("query", "", "empty"),
    Bad("query", " \n\u3000", "empty"),
    Bad("query", LONE, "surrogate"),
    Bad("query", "x" * (TEXT_LIMIT + 1), "65537", LimitExceeded, "query too long"),
    *(Bad("query", value, type(value).__name__) for value in (None, 3, b"x", ["x"])),
]
COUNTS = (0, -1, 10_001, 10**30, True, False, 1.0, 1.5, math.nan, "5", None, [1])
NO_GRANTS: tuple[Any, ...] = ("health", ["health"], {"lables": []}, {"everything": True}, 3)
NO_RIGHTS: tuple[Any, ...] = ({"labels": "health"}, {"fields": 3}, {"labels": [3]}, {"labels": [LONE]})
FILTERS = [
    *(Bad("tiers", value, named="tiers?") for value in ("semantik", ["semantic", "x"], [], 3, [3], [None], LONE)),
    *(Bad("session", value) for value in (LONE, 3, b"s", ["s"])),
    *(Bad("about", value) for value in (LONE, 3, b"s", ["s"])),
    *(Bad("must", value) for value in ("", "!?", "\u3000", ["alpha", ""], ["alpha", 3], [LONE], LONE, 3)),
    Bad("must", ["x"] * 1 + [f"w{n}" for n in range(4_096)], "4097 is over", LimitExceeded, "must 4,097 words", "required words"),
    *(Bad("where", value, "not a dict") for value in ("x", [("n", 1)], 3)),
    Bad("where", {3: 1}, "int"),
    Bad("where", {LONE: 1}, "surrogate"),
    Bad("where", {"n": LONE}, "surrogate"),
    Bad("where", {"n": object()}, "object"),
    Bad("where", {"n": [[1]]}, "list"),
    Bad("where", {"n": math.nan}, "where"),
    Bad("where", {"n": {}}, "asks nothing"),
    Bad("where", {"n": {"gt": "x"}}, "str"),
    Bad("where", {"n": {"gt": True}}, "bool"),
    Bad("where", {"n": {"lt": math.nan}}, "NaN"),
    Bad("where", {"n": {"gte": None}}, "NoneType"),
    Bad("where", {"n": {"like": "x"}}, "like"),
    Bad("where", {"n": {"exists": "yes"}}, "str"),
    Bad("where", {"n": {3: 1}}, "int"),
    Bad("where", {"tier": "semantik"}, "semantik", about="where an unknown tier", named="tier"),
    Bad("where", {"source": "human"}, "human", about="where an unknown source", named="source"),
    Bad("where", {"tier": {"gt": 1}}, "order"),
    Bad("where", {"session": 3}, "Session"),
    Bad("where", {"pinned": "yes"}, "Pinned"),
    Bad("where", {"created_at": "2024"}, "CreatedAt"),
    Bad("where", {"since": "2024"}, "str"),
    Bad("where", {"since": math.nan}, "NaN"),
    Bad("where", {"until": None}, "NoneType"),
    Bad("where", {"since": datetime(1969, 1, 1)}, "1970"),
    Bad("where", {"n": list(range(4_097))}, "4097 is over", LimitExceeded, "where 4,097 values", "values in a filter"),
    *(Bad("grant", value, "grant") for value in NO_GRANTS),
    *(Bad("grant", value) for value in NO_RIGHTS),
]  # fmt: skip


class TestReading:
    @cases(QUERIES)
    def test_search_for(self, store, bad):
        refused(store, bad, lambda: store.mem.search(bad.value, now=NOW))

    @cases(VECTORS)
    def test_search_by_vector(self, store, bad):
        refused(store, bad, lambda: store.mem.search(vector=bad.value, now=NOW), argument="vectors?")

    @pytest.mark.parametrize("k", COUNTS, ids=repr)
    def test_search_for_so_many(self, store, k):
        refused(store, Bad("k", k, "from 1 to 10,000"), lambda: store.mem.search("alpha", k=k, now=NOW))

    @pytest.mark.parametrize("limit", COUNTS[1:], ids=repr)
    def test_list_so_many(self, store, limit):
        refused(store, Bad("limit", limit, "from 0 to 10,000"), lambda: store.mem.list(limit=limit, now=NOW))
        refused(store, Bad("limit", limit), lambda: store.mem.sql("select 1", limit=limit))

    @pytest.mark.parametrize("method", ["search", "list", "count"])
    @cases(FILTERS)
    def test_filters(self, store, method, bad):
        first = ("alpha",) if method == "search" else ()
        call = lambda: getattr(store.mem, method)(*first, **{bad.argument: bad.value}, now=NOW)  # noqa: E731
        refused(store, bad, call)

    @cases([Bad("min_trust", value) for value in ("0.5", True, [0.5], object())])
    def test_least_trust(self, store, bad):
        refused(store, bad, lambda: store.mem.search("alpha", min_trust=bad.value, now=NOW))

    @pytest.mark.parametrize("id", [UNKNOWN, *MALFORMED])
    def test_after_an_unknown_memory(self, store, id):
        refused(store, Bad("after", id, "", MemoryNotFound), lambda: store.mem.list(after=id, now=NOW))

    def test_brief(self, store):
        for budget in (-1, 1.5, True, "100", math.nan):
            refused(store, Bad("budget", budget), partial(store.mem.brief, "alpha", budget=budget, now=NOW))
        refused(store, Bad("query", LONE), lambda: store.mem.brief(LONE, now=NOW))
        for argument in ("session", "about"):
            refused(
                store,
                Bad(argument, LONE),
                partial(store.mem.brief, "alpha", **{argument: LONE}, now=NOW),
            )

    @pytest.mark.parametrize("statement", ["", "delete from memory", "update content set text = 'x'", "drop table memory",
                                           "pragma user_version = 9", "attach 'x' as y", "select 1; select 2", "nonsense",
                                           "select * from no_such_table", "vacuum"])  # fmt: skip
    def test_sql_only_reads(self, store, statement):
        refused(store, Bad("sql", statement), lambda: store.mem.sql(statement))


def snapshot_somewhere(store: Store, now: Any) -> object:
    with tempfile.TemporaryDirectory() as directory:
        return store.mem.snapshot(Path(directory, "x.tiermem"), now=now)


WITH_TIME: dict[str, Callable[[Store, Any], object]] = {
    "add": lambda store, now: store.mem.add("new", now=now),
    "add_many": lambda store, now: store.mem.add_many(["new"], now=now),
    "update": lambda store, now: store.mem.update(store.id, importance=0.1, now=now),
    "supersede": lambda store, now: store.mem.supersede(store.id, "newer", now=now),
    "forget": lambda store, now: store.mem.forget(store.id, now=now),
    "restore": lambda store, now: store.mem.restore(store.forgotten, now=now),
    "used": lambda store, now: store.mem.used(store.id, now=now),
    "get": lambda store, now: store.mem.get(store.id, now=now),
    "search": lambda store, now: store.mem.search("alpha", now=now),
    "list": lambda store, now: store.mem.list(now=now),
    "count": lambda store, now: store.mem.count(now=now),
    "observe": lambda store, now: store.mem.observe("I prefer tea", now=now),
    "explain": lambda store, now: store.mem.explain(store.id, query="alpha", now=now),
    "strength_curve": lambda store, now: store.mem.strength_curve(store.id, days=3, now=now),
    "brief": lambda store, now: store.mem.brief("alpha", now=now),
    "stats": lambda store, now: store.mem.stats(now=now),
    "maintain": lambda store, now: store.mem.maintain(now=now),
    "consolidate": lambda store, now: store.mem.consolidate(now=now),
    "erase": lambda store, now: store.mem.erase(store.id, now=now),
    "compact": lambda store, now: store.mem.compact(now=now),
    "backup": lambda store, now: store.mem.backup(Path(tempfile.mkdtemp()) / "copy", now=now),
    "snapshot": snapshot_somewhere,
    "export_jsonl": lambda store, now: store.mem.export_jsonl(io.StringIO(), now=now),
    "import_jsonl": lambda store, now: store.mem.import_jsonl(io.StringIO('{"text": "new"}'), now=now),
}


def public_methods() -> list[str]:
    """Every public method of an open store, but not the two ends of its life."""
    found = [name for name, value in vars(TierMemory).items() if inspect.isfunction(value) and not name.startswith("_")]
    return [name for name in found if name != "close"]


class TestTimes:
    def test_every_method_with_a_time_is_tried(self):
        timed = {name for name in public_methods() if "now" in inspect.signature(getattr(TierMemory, name)).parameters}
        assert timed <= WITH_TIME.keys(), "a new method wants a line in WITH_TIME"

    @pytest.mark.parametrize("method", WITH_TIME)
    def test_now(self, store, method):
        for bad in TIMES:
            refused(store, bad, partial(WITH_TIME[method], store, bad.value))

    @cases(TIMES)
    def test_open(self, tmp_path, bad):
        with pytest.raises(InvalidInput) as caught:
            TierMemory.open(tmp_path / "new", now=bad.value)
        assert caught.value.argument == "now"
        assert not (tmp_path / "new").exists()


BY_ID: dict[str, Callable[[Store, Any], object]] = {
    "get": lambda store, which: store.mem.get(which, now=NOW),
    "update": lambda store, which: store.mem.update(which, importance=0.1, now=NOW),
    "supersede": lambda store, which: store.mem.supersede(which, "newer", now=NOW),
    "history": lambda store, which: store.mem.history(which),
    "erase": lambda store, which: store.mem.erase([which], now=NOW),
    "forget": lambda store, which: store.mem.forget([which], now=NOW),
    "restore": lambda store, which: store.mem.restore([which], now=NOW),
    "used": lambda store, which: store.mem.used([which], now=NOW),
}


class TestIds:
    @pytest.mark.parametrize("method", BY_ID)
    @pytest.mark.parametrize("id", [UNKNOWN, *MALFORMED])
    def test_an_unknown_one_is_not_found(self, either, method, id):
        error = refused(
            either, Bad("id", id, "no memory has the id", MemoryNotFound), lambda: BY_ID[method](either, id)
        )
        assert isinstance(error, MemoryNotFound)
        assert error.id == id
        assert isinstance(error, KeyError)

    @pytest.mark.parametrize("method", BY_ID)
    @pytest.mark.parametrize("id", [None, 3, b"x", object(), LONE], ids=["None", "int", "bytes", "object", "surrogate"])
    def test_what_is_no_id_is_refused(self, either, method, id):
        argument = "ids" if method in ("erase", "forget", "restore", "used") and id is not LONE else "id"
        refused(either, Bad(argument, id), lambda: BY_ID[method](either, id))

    @pytest.mark.parametrize("method", ["forget", "used"])
    @pytest.mark.parametrize("fate", ["unknown", "malformed", "forgotten", "old"])
    def test_one_that_does_not_live_spoils_all(self, either, method, fate):
        id = {"unknown": UNKNOWN, "malformed": "x"}.get(fate) or getattr(either, fate)
        bad = Bad("ids", id, re.escape(id), MemoryNotFound)
        refused(either, bad, lambda: getattr(either.mem, method)([either.id, id, either.other], now=NOW))

    def test_what_has_ended_is_not_used(self, fresh):
        id = fresh.mem.add("ends", expires_at=NOW + 1, now=NOW)
        refused(fresh, Bad("id", id, "", MemoryNotFound), lambda: fresh.mem.used(id, now=NOW + 1))

    def test_restore_takes_only_what_is_forgotten(self, either):
        for id in (either.id, either.old):
            bad = Bad("ids", id, "not forgotten")
            refused(either, bad, partial(either.mem.restore, [either.forgotten, id], now=NOW))
        refused(
            either, Bad("ids", UNKNOWN, "", MemoryNotFound), lambda: either.mem.restore([either.forgotten, UNKNOWN])
        )

    @pytest.mark.parametrize("fate", ["forgotten", "old"])
    def test_what_does_not_live_is_not_changed(self, either, fate):
        id = getattr(either, fate)
        bad = Bad("id", id, re.escape(id), MemoryNotFound)
        refused(either, bad, lambda: either.mem.update(id, importance=0.1, now=NOW))
        refused(either, bad, lambda: either.mem.supersede(id, "newer", now=NOW))

    def test_the_forgotten_are_not_read_and_the_private_not_shown(self, either):
        refused(either, Bad("id", "", "", MemoryNotFound), lambda: either.mem.get(either.forgotten, now=NOW))
        error = refused(either, Bad("id", "", "health", AccessDenied), lambda: either.mem.get(either.hidden, now=NOW))
        assert (error.id, error.label) == (either.hidden, "health")  # type: ignore[attr-defined]


class TestWhatIsJustAllowed:
    """The other side of each limit: nothing good is refused."""

    @pytest.mark.parametrize("text", ["x" * (TEXT_LIMIT - 1), "x" * TEXT_LIMIT, "é" * (TEXT_LIMIT // 2), "记" * 21_845, "😀" * 16_384,
                                      "\ufeffx", "a\u0301", "\x01\x1f", "a" + "\u0300" * 100])  # fmt: skip
    def test_texts(self, fresh, text):
        id = fresh.mem.add(text, now=NOW)
        assert fresh.mem.get(id, now=NOW).text == text

    def test_numbers_times_and_names(self, fresh):
        add = fresh.mem.add
        allowed: list[dict[str, Any]] = [
                {"importance": 0}, {"importance": 1}, {"importance": np.float32(0.3)}, {"trust": 0.0}, {"created_at": 0},
                {"created_at": datetime(9999, 12, 31)}, {"session": "x" * 512}, {"about": "é" * 256}, {"tags": {"a"}},
                {"tags": ["a", "a"]}, {"labels": [f"n{number}" for number in range(60)]}, {"half_life": math.inf},
                {"metadata": deep(16)}, {"metadata": {"a": "x" * 65_528}}, {"metadata": {}}, {"metadata": None},
                {"metadata": {"": {"": None}}}, {"metadata": {"nul": "\0"}}, {"private": {"键": "值"}}, {"half_life": 1e-3},
                {"expires_at": datetime(2030, 1, 1, tzinfo=UTC)}, {"derived_from": [fresh.id, fresh.forgotten]},
            ]  # fmt: skip
        for place, fields in enumerate(allowed):
            id = add(f"allowed {place}", now=NOW, **fields)
            assert id.created
            labels = {"labels": [f"n{number}" for number in range(60)], "fields": ["键"]}
            item = fresh.mem.get(id, grant=labels, now=NOW)
            for name in fields.keys() & {"metadata", "private"}:
                assert getattr(item, name) == (fields[name] or {})

    def test_the_sixty_fifth_label_of_a_store_is_refused(self, fresh):
        fresh.mem.add("many", labels=[f"n{number}" for number in range(63)], now=NOW)
        bad = Bad("labels", ["n63"], "65 is over the limit of 64", LimitExceeded)
        refused(fresh, bad, lambda: fresh.mem.add("more", labels=["n63"], now=NOW))
        refused(fresh, bad, lambda: fresh.mem.update(fresh.id, labels=["n63"], now=NOW))
        refused(fresh, bad, lambda: fresh.mem.supersede(fresh.id, "more", labels=["n63"], now=NOW))
        fresh.mem.add("no more", labels=["n62", "health"], now=NOW)

    def test_a_vector_may_be_a_list_of_numbers(self, fresh):
        assert fresh.mem.search(vector=[1.0, 0, 0, 0], k=1, now=NOW).ids == [fresh.id]

    def test_k_and_limit(self, fresh):
        for k in (1, 10_000, np.int64(3)):
            assert len(fresh.mem.search("alpha", k=k, now=NOW)) == 1
        assert fresh.mem.list(limit=0, now=NOW) == []


# Each public method, with arguments that an open store takes.
CALLS: dict[str, Callable[[Store], object]] = {
    **{name: lambda store, call=call: call(store, NOW) for name, call in WITH_TIME.items()},  # type: ignore[misc]
    "history": lambda store: store.mem.history(store.id),
    "erasures": lambda store: store.mem.erasures(),
    "verify": lambda store: store.mem.verify(),
    "sql": lambda store: store.mem.sql("select count(*) from memory"),
}


class TestAfterClose:
    def test_every_method_is_tried(self):
        assert set(public_methods()) == CALLS.keys(), (
            "a new method wants a line in CALLS, or in WITH_TIME when it takes one"
        )

    @pytest.mark.parametrize("method", CALLS)
    def test_is_refused(self, either, method, tmp_path):
        path = None if either.mem.path is None else str(tmp_path / "closed")
        store = Store(path)
        CALLS[method](store)  # the call as such is good
        store.mem.close()
        with pytest.raises(StoreClosed, match="closed"):
            CALLS[method](store)

    def test_closing_twice_is_fine_and_the_block_closes(self, tmp_path):
        with TierMemory.open(tmp_path, now=NOW) as mem:
            mem.add("kept", now=NOW)
        mem.close()
        with pytest.raises(StoreClosed):
            mem.count()
        with TierMemory.open(tmp_path, now=NOW) as again:
            assert [item.text for item in again.list(now=NOW)] == ["kept"]

    def test_what_was_found_before_stays_but_texts_are_gone(self):
        store = Store(None)
        looked_at, not_looked_at = store.mem.search("alpha", now=NOW), store.mem.search("alpha", now=NOW)
        assert looked_at.texts == ["alpha one"]
        store.mem.close()
        assert looked_at.texts == ["alpha one"]
        assert not_looked_at.ids == [store.id]
        assert not_looked_at.scores.shape == (1,)
        for look in (lambda: not_looked_at.texts, lambda: not_looked_at[0], lambda: list(not_looked_at)):
            with pytest.raises(StoreClosed):
                look()

    def test_a_read_only_store_refuses_writes(self, tmp_path):
        Store(str(tmp_path)).mem.close()
        store = Store.__new__(Store)
        store.mem = TierMemory.open(tmp_path, read_only=True, now=NOW)
        fates = {row["state"]: row["id"] for row in store.mem.sql("select id, state from memories order by id desc")}
        store.id, store.forgotten = fates["alive"], fates["forgotten"]
        before = store.dump()
        writes = {
            "add",
            "add_many",
            "observe",
            "update",
            "supersede",
            "forget",
            "restore",
            "used",
            "consolidate",
            "import_jsonl",
        }
        writes |= {"erase", "compact"}
        for method in sorted(writes):
            with pytest.raises(ReadOnlyStore):
                CALLS[method](store)
        for method in sorted(CALLS.keys() - writes):
            CALLS[method](store)
        assert store.dump() == before
        store.mem.close()


def in_child(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What `work` gives in a forked child, which ends at once and runs nothing else of this process."""
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads about is what is tested
        pid = os.fork()
    if pid == 0:
        os.close(receiver)
        try:
            answer = json.dumps(work())
        except BaseException as error:  # noqa: BLE001  # whatever it is, the parent shall say so
            answer = json.dumps({"the child itself": repr(error)})
        os.write(sender, answer.encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        answer = stream.read().decode()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
    return json.loads(answer)  # type: ignore[no-any-return]


def outcome(call: Callable[[], object]) -> str:
    """The class and the message of what a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # that is the question
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
class TestAfterFork:
    def test_every_method_is_refused_and_the_parent_goes_on(self, either):
        before = either.dump()
        hits = either.mem.search("alpha", now=NOW)

        def work() -> dict[str, str]:
            answers = {name: outcome(partial(call, either)) for name, call in CALLS.items()}
            answers["close"] = outcome(either.mem.close)
            answers["texts"] = outcome(lambda: hits.texts)
            return answers

        answers = in_child(work)
        assert answers.keys() == {*CALLS, "close", "texts"}
        for method, answer in answers.items():
            assert answer.startswith("StoreForked: "), f"{method}: {answer}"
        assert either.dump() == before

    def test_a_fresh_open_works_in_the_child_beside_the_parent(self, fresh):
        path, count = fresh.mem.path, fresh.mem.count(now=NOW)

        def work() -> dict[str, str]:
            with TierMemory.open(path, now=NOW) as own:
                seen = own.count(now=NOW)
                id = own.add("written in the child", now=NOW)
                own.update(fresh.id, importance=0.25, now=NOW)
                return {"seen": str(seen), "id": id, "inherited": outcome(lambda: fresh.mem.count(now=NOW))}

        answers = in_child(work)
        assert answers["seen"] == str(count)
        assert answers["inherited"].startswith("StoreForked")
        assert fresh.mem.get(answers["id"], now=NOW).text == "written in the child"
        assert fresh.mem.get(fresh.id, now=NOW).importance == 0.25
        fresh.mem.add("written in the parent", now=NOW)
        fresh.mem.close()
        with TierMemory.open(path, now=NOW) as again:
            assert again.count(now=NOW) == count + 2
            assert again.search("written", k=10, now=NOW).texts == ["written in the child", "written in the parent"]

    def test_letting_go_of_the_inherited_handle_does_not_hurt_the_parent(self, fresh):
        holder = [fresh.mem]
        path = fresh.mem.path
        before = fresh.dump()
        fresh.mem = None

        def work() -> dict[str, str]:
            holder.clear()
            gc.collect()
            with TierMemory.open(path, now=NOW) as own:
                return {"count": str(own.count(now=NOW))}

        answers = in_child(work)
        fresh.mem = holder[0]
        assert answers == {"count": str(fresh.mem.count(now=NOW))}
        assert fresh.dump() == before
        fresh.mem.add("still writing", now=NOW)

    def test_a_store_in_ram_is_made_anew_in_the_child(self):
        assert in_child(lambda: {"count": str(Store(None).mem.count(now=NOW))}) == {"count": "4"}


class TestWhatHidesInside:
    """Faults that only show below the surface of a value, or before the core is asked."""

    @pytest.mark.parametrize("value", [{"a": {1: 2}}, {"a": [{None: 1}]}, {"a": {True: 1}}])
    @pytest.mark.parametrize("argument", ["metadata", "private"])
    def test_inner_keys(self, fresh, argument, value):
        refused(fresh, Bad(argument, value, "not a str"), lambda: fresh.mem.add("new", **{argument: value}, now=NOW))

    @pytest.mark.parametrize(("argument", "value"), [("min_score", math.nan), ("min_score", "x"), ("min_trust", math.nan),
                                                     ("min_trust", 1.5), ("min_trust", -1)])  # fmt: skip
    def test_least_values(self, fresh, argument, value):
        refused(fresh, Bad(argument, value), lambda: fresh.mem.search("alpha", **{argument: value}, now=NOW))

    @pytest.mark.parametrize("query", [None, 3, b"x"])
    def test_a_briefing_about_no_text(self, fresh, query):
        refused(fresh, Bad("query", query), lambda: fresh.mem.brief(query, now=NOW))

    @pytest.mark.parametrize("importance", [1.0 + 1e-9, -1e-60])
    def test_just_outside(self, fresh, importance):
        refused(fresh, Bad("importance", importance), lambda: fresh.mem.add("new", importance=importance, now=NOW))

    def test_an_error_before_the_core_says_that_nothing_is_in(self, fresh):
        with pytest.raises(InvalidInput) as caught:
            fresh.mem.add_many(["first", {"text": "second", "metadata": 3}], now=NOW)
        assert caught.value.added == []  # type: ignore[attr-defined]
