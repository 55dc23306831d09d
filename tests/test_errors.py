"""The tree of errors, the vocabularies and the conversion of times."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem_fast import errors
from tiermem_fast.errors import InvalidInput, TiermemError, nearest, shown
from tiermem_fast.tiers import SOURCES, TIERS, DropReason, Source, Tier
from tiermem_fast.times import from_seconds, optional_seconds, to_seconds

CLASSES = [getattr(errors, name) for name in errors.__all__]
BUILTINS = {
    "AccessDenied": PermissionError,
    "CorruptStore": OSError,
    "DurabilityError": OSError,
    "InvalidInput": ValueError,
    "LimitExceeded": ValueError,
    "MemoryNotFound": KeyError,
    "ModelMismatch": ValueError,
    "NewerFormat": OSError,
    "ReadOnlyStore": OSError,
    "StalePlan": RuntimeError,
    "StorageError": OSError,
    "StoreClosed": RuntimeError,
    "StoreForked": RuntimeError,
    "StoreLocked": TimeoutError,
    "TiermemError": Exception,
}
STATUSES = {
    "AccessDenied": 403,
    "DurabilityError": 507,
    "InvalidInput": 422,
    "LimitExceeded": 413,
    "MemoryNotFound": 404,
    "ModelMismatch": 409,
    "ReadOnlyStore": 503,
    "StalePlan": 409,
    "StoreClosed": 503,
    "StoreForked": 503,
    "StoreLocked": 503,
}


def fields_of(cls: type[TiermemError]) -> list[str]:
    return [
        name
        for base in cls.__mro__
        if issubclass(base, TiermemError)
        for name in inspect.get_annotations(base)
        if name != "http_status"
    ]


@pytest.mark.parametrize("cls", CLASSES)
class TestEveryError:
    def test_is_in_the_tree_and_a_builtin(self, cls: type[TiermemError]) -> None:
        assert issubclass(cls, TiermemError)
        assert issubclass(cls, BUILTINS[cls.__name__])
        assert cls.http_status == STATUSES.get(cls.__name__, 500)

    def test_is_drawn_in_the_module(self, cls: type[TiermemError]) -> None:
        (line,) = [line for line in (errors.__doc__ or "").splitlines() if f" {cls.__name__}" in line and "   " in line]
        assert f" {cls.http_status}" in line

    def test_says_its_message_and_nothing_else(self, cls: type[TiermemError]) -> None:
        message = "no 'quotes' 没有 \n added"
        assert str(cls(message)) == message
        assert str(cls()) == ""

    def test_takes_fields_in_the_call_or_afterwards(self, cls: type[TiermemError]) -> None:
        fields = {name: f"value of {name}" for name in fields_of(cls)}
        called, set_afterwards = cls("m", **fields), cls("m")
        for name, value in fields.items():
            assert getattr(set_afterwards, name) is None
            setattr(set_afterwards, name, value)
        assert called.__dict__ == set_afterwards.__dict__ == fields
        with pytest.raises(TypeError, match="has no field 'no_such_field'"):
            cls("m", no_such_field=1)

    def test_survives_pickle_and_copy(self, cls: type[TiermemError]) -> None:
        error = cls("message", **dict.fromkeys(fields_of(cls), 7))
        error.add_note("a note")
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(again) is cls
            assert str(again) == "message"
            assert again.__dict__ == error.__dict__


def test_every_class_defined_is_listed() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(errors.__all__) == set(BUILTINS)


def test_an_error_of_one_argument_names_it() -> None:
    error = errors.InvalidInput.of("k", "0 is not between 1 and 10000")
    assert (str(error), error.argument) == ("k: 0 is not between 1 and 10000", "k")


def test_shown_is_short_for_anything() -> None:
    for value in ("x" * 10**6, list(range(10**5)), {"k" * 1000: "v" * 1000}, np.zeros((1000, 1000)), 10**30):
        assert len(shown(value)) < 300


def test_nearest_lists_what_is_known_when_nothing_is_near() -> None:
    assert nearest("importanse", ["importance", "trust"]) == "did you mean 'importance'?"
    assert nearest("", ["a", "b"]) == "known are 'a', 'b'"


class TestWords:
    def test_the_native_numbers_are_the_order(self) -> None:
        assert [tier.value for tier in TIERS] == ["working", "episodic", "semantic", "procedural"]
        assert [source.value for source in SOURCES] == ["user", "assistant", "tool", "system", "import"]

    @pytest.mark.parametrize(("enum", "argument"), [(Tier, "tier"), (Source, "source"), (DropReason, "dropreason")])
    @pytest.mark.parametrize("value", ["Semantic", "", "x" * 10**6, None, 3, ["semantic"]])
    def test_unknown_words_are_refused_by_name(self, enum: type[Tier], argument: str, value: object) -> None:
        with pytest.raises(InvalidInput) as caught:
            enum(value)  # type: ignore[arg-type]
        assert caught.value.argument == argument
        assert len(str(caught.value)) < 300


class TestTimes:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (0, 0.0),
            (1.5, 1.5),
            (np.float32(2.5), 2.5),
            (np.int64(7), 7.0),
            (datetime(1970, 1, 2), 86_400.0),
            (datetime(1970, 1, 2, tzinfo=UTC), 86_400.0),
            (datetime(1970, 1, 2, 8, tzinfo=timezone(timedelta(hours=8))), 86_400.0),
            (datetime.max, math.nextafter(253_402_300_800, 0)),
        ],
    )
    def test_reads_datetimes_and_seconds(self, value: datetime | float, seconds: float) -> None:
        assert to_seconds(value, "now") == seconds

    @pytest.mark.parametrize(
        "value",
        [
            math.nan, math.inf, -math.inf, -1e-9, 253_402_300_800, 10**400, True, "2024-01-01", b"1", [1.0],
            datetime(1969, 12, 31, 23, 59, 59), datetime.min, np.bool_(True), datetime(2024, 1, 1).date(),
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        ],
    )  # fmt: skip
    def test_refuses_everything_else(self, value: object) -> None:
        with pytest.raises(InvalidInput, match=r"^created_at: ") as caught:
            to_seconds(value, "created_at")  # type: ignore[arg-type]
        assert caught.value.argument == "created_at"

    def test_none_is_the_present_or_stays_none(self) -> None:
        before = datetime.now(UTC).timestamp()
        assert before <= to_seconds(None, "now") <= before + 60
        assert optional_seconds(None, "expires_at") is None
        assert optional_seconds(3, "expires_at") == 3.0

    @given(st.datetimes(datetime(1970, 1, 1), datetime(2242, 1, 1)))
    def test_comes_back_to_the_microsecond(self, moment: datetime) -> None:
        assert from_seconds(to_seconds(moment, "now")) == moment.replace(tzinfo=UTC)

    @given(st.floats(0, 253_402_300_800, exclude_max=True))
    def test_every_time_of_the_core_is_a_datetime(self, seconds: float) -> None:
        moment = from_seconds(seconds)
        assert moment.tzinfo is UTC
        assert to_seconds(moment, "now") == pytest.approx(seconds, abs=1e-4)
