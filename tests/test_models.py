"""The shapes: validation of what users build, trust in what the core gives, and what each one says."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem_fast import models
from tiermem_fast.errors import InvalidInput
from tiermem_fast.models import (
    Briefing,
    BriefingItem,
    ConsolidationReport,
    Dropped,
    Hit,
    LetGo,
    MaintenanceReport,
    MemoryItem,
    Merged,
    Promoted,
    Shape,
    Stats,
)
from tiermem_fast.tiers import DropReason, Source, Tier

DESIGN_FIELDS = (
    "id text tier importance session about source trust tags labels private metadata created_at last_used_at use_count "
    "repeat_count half_life expires_at pinned derived_from supersedes superseded_by version"
)
ROW: dict[str, Any] = {
    "id": "018bcfe5-6872-7007-bfff-ffffffffffff", "text": "给李总的邮件要正式", "tier": 2, "importance": 0.85,
    "session": "s1", "about": "李总", "source": 0, "trust": 1.0, "tags": ["mail"], "labels": [],
    "private": '{"phone": "1"}', "metadata": None, "created_at": 1_714_694_400.25, "last_used_at": 1_714_694_401.0,
    "use_count": 2, "repeat_count": 1, "half_life": math.inf, "expires_at": None, "pinned": True, "derived_from": [],
    "supersedes": None, "superseded_by": None, "version": 3,
}  # fmt: skip


# Callers without a type checker, who may give anything.
build: Any = MemoryItem
build_briefing: Any = Briefing


def refused(argument: str, part: str, **fields: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        MemoryItem(**{"text": "x", **fields})
    assert caught.value.argument == argument
    assert str(caught.value).startswith(f"{argument}: ")
    assert part in str(caught.value)


class TestMemoryItem:
    def test_has_the_fields_of_the_design(self) -> None:
        assert list(MemoryItem.model_fields) == DESIGN_FIELDS.split()
        assert list(Hit.model_fields)[-5:] == ["score", "relevance", "strength", "vector_score", "keyword_score"]

    def test_needs_only_a_text(self) -> None:
        item = MemoryItem(text="x")
        assert (item.tier, item.source, item.session, item.tags) == (Tier.WORKING, Source.USER, None, ())
        assert item.given() == {"text": "x"}
        assert item.created_at.tzinfo is UTC

    def test_takes_words_times_and_collections_in_every_form(self) -> None:
        east = timezone(timedelta(hours=8))
        item = build(
            text="x", tier="semantic", source="tool", tags=["b", "a", "b"], labels={"contact"},
            created_at=datetime(2024, 5, 3, 8, tzinfo=east), expires_at="2030-01-01T00:00:00Z", half_life=60,
        )  # fmt: skip
        assert (item.tier, item.source, item.tags, item.labels) == (
            Tier.SEMANTIC,
            Source.TOOL,
            ("b", "a"),
            ("contact",),
        )
        assert item.created_at == item.last_used_at == datetime(2024, 5, 3, tzinfo=UTC)
        assert item.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
        assert build(text="x", created_at=0.5).created_at == datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC)

    @pytest.mark.parametrize(
        ("argument", "value", "part"),
        [
            ("text", "", "at least 1 character"),
            ("text", None, "None"),
            ("text", 3, "3"),
            ("text", "a\ud800", "unicode"),
            ("tier", "semantik", "did you mean 'semantic'?"),
            ("tier", 2, "2 is unknown; known are 'working'"),
            ("tier", None, "None is unknown"),
            ("source", "bot", "known are 'user'"),
            ("importance", 1.01, "1.01"),
            ("importance", math.nan, "nan"),
            ("trust", -0.1, "-0.1"),
            ("trust", math.inf, "inf"),
            ("session", "", "at least 1 character"),
            ("tags", "abc", "give a list of texts"),
            ("tags.1", ["a", 3], "3"),
            ("labels.0", [""], "at least 1 character"),
            ("metadata", [1], "not a dict"),
            ("metadata", {1: 2}, "text keys"),
            ("metadata", {"a": math.nan}, "not JSON"),
            ("metadata", {"a": object()}, "not JSON"),
            ("private", {"a": {1, 2}}, "not JSON"),
            ("created_at", "yesterday", "not an ISO 8601 time"),
            ("created_at", None, "None is not a time"),
            ("created_at", True, "neither a datetime"),
            ("last_used_at", math.nan, "nan is not a time"),
            ("expires_at", datetime(1960, 1, 1), "between 1970 and 9999"),
            ("half_life", 0, "greater than 0"),
            ("half_life", math.nan, "nan"),
            ("use_count", -1, "-1"),
            ("use_count", 1.5, "1.5"),
            ("version", "x", "x"),
        ],
    )
    def test_refuses_a_bad_value_by_name(self, argument: str, value: object, part: str) -> None:
        refused(argument, part, **{argument.partition(".")[0]: value})

    def test_refuses_unknown_fields_with_the_nearest(self) -> None:
        refused("importence", "did you mean 'importance'?", importence=1)
        with pytest.raises(InvalidInput, match="text: is needed"):
            build()

    def test_refuses_metadata_too_deep_for_json(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(100_000):
            deep = {"a": deep}
        refused("metadata", "not JSON", metadata=deep)
        while deep:  # taken apart here, for a tree this deep overflows the stack when it is dropped whole
            deep = deep.pop("a")

    def test_every_way_of_reading_names_the_argument(self) -> None:
        with pytest.raises(InvalidInput, match=r"^trust: .*got 2$"):
            MemoryItem.model_validate({"text": "x", "trust": 2})
        with pytest.raises(InvalidInput, match=r"^trust: .*got 2$"):
            MemoryItem.model_validate_json('{"text": "x", "trust": 2}')
        with pytest.raises(InvalidInput, match="Invalid JSON"):
            MemoryItem.model_validate_json("{")
        with pytest.raises(InvalidInput, match="MemoryItem: "):
            MemoryItem.model_validate(3)

    def test_a_fault_inside_a_nested_shape_has_its_path(self) -> None:
        for fields, message in (
            ({"text": "x", "citation": "c", "importance": 3}, r"^items\.0\.importance: .*got 3$"),
            ({"text": "x", "citation": "c", "tier": "semantik"}, r"^items\.0\.tier: .*did you mean 'semantic'\?$"),
            ({"text": "x", "citation": "c", "citaton": 1}, r"^items\.0\.citaton: unknown; did you mean 'citation'\?$"),
            ({"text": "x"}, r"^items\.0\.citation: is needed$"),
        ):
            with pytest.raises(InvalidInput, match=message):
                build_briefing(text="", items=[fields])

    def test_is_frozen_hashable_and_pickles(self) -> None:
        item = MemoryItem.from_row(ROW)
        with pytest.raises(ValueError, match="frozen"):
            item.importance = 1.0
        again = pickle.loads(pickle.dumps(item))
        assert again == item
        assert len({item, again}) == 1

    def test_repr_shows_no_private_value(self) -> None:
        item = MemoryItem(text="x", private={"phone": "13800138000"})
        assert "13800138000" not in repr(item) + str(item)

    def test_json_goes_and_comes(self) -> None:
        item = MemoryItem.from_row(ROW)
        text = item.model_dump_json()
        assert json.loads(text)["half_life"] is None  # JSON knows no infinity
        assert MemoryItem.model_validate_json(text) == item
        assert MemoryItem(**item.model_dump()) == item


class TestFromRow:
    def test_converts_the_form_of_the_core(self) -> None:
        item = MemoryItem.from_row(ROW)
        assert (item.tier, item.source, item.tags) == (Tier.SEMANTIC, Source.USER, ("mail",))
        assert (item.private, item.metadata) == ({"phone": "1"}, {})
        assert item.created_at == datetime(2024, 5, 3, 0, 0, 0, 250_000, UTC)
        assert item.expires_at is None
        assert item.given().keys() == ROW.keys()
        assert ROW["metadata"] is None  # the row itself is left alone

    def test_names_and_dicts_do_as_well_as_numbers_and_texts(self) -> None:
        other = {**ROW, "tier": "semantic", "source": "user", "private": {"phone": "1"}, "metadata": "{}"}
        assert MemoryItem.from_row(other) == MemoryItem.from_row(ROW)

    def test_equals_the_validated_one(self) -> None:
        item = MemoryItem.from_row(ROW)
        assert MemoryItem(**item.given()) == item

    def test_absent_fields_have_their_defaults(self) -> None:
        item = MemoryItem.from_row({"id": "7", "text": "x", "created_at": 5.0})
        assert (item.tier, item.last_used_at, item.metadata) == (Tier.WORKING, item.created_at, {})

    def test_a_hit_carries_its_scores(self) -> None:
        scores = {"score": 0.5, "relevance": 0.6, "strength": 0.7, "vector_score": None, "keyword_score": 0.6}
        hit = Hit.from_row({**ROW, **scores})
        assert isinstance(hit, MemoryItem)
        assert {name: getattr(hit, name) for name in scores} == scores
        assert Hit(**hit.given()) == hit

    @given(
        st.fixed_dictionaries(
            {
                "text": st.text(st.characters(codec="utf-8"), min_size=1),
                "tier": st.integers(0, 3),
                "importance": st.floats(0, 1),
                "tags": st.lists(st.text(st.characters(codec="utf-8"), min_size=1), unique=True),
                "created_at": st.floats(0, 4e9),
                "half_life": st.floats(1e-3, 3e10) | st.just(math.inf),
                "metadata": st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers()).map(json.dumps),
            }
        )
    )
    def test_any_row_of_the_core_is_valid(self, row: dict[str, Any]) -> None:
        item = MemoryItem.from_row({**ROW, **row})
        assert MemoryItem(**item.given()) == item


class TestBriefing:
    def test_is_its_text_and_its_items(self) -> None:
        item = BriefingItem(text="x", citation="m:1")
        briefing = Briefing(
            text="- x", items=(item,), dropped=(Dropped(id="2", reason=DropReason.EXPIRED),), tokens=2, budget=9
        )
        assert (str(briefing), len(briefing), list(briefing)) == ("- x", 1, [item])
        assert briefing
        assert not Briefing(text="")
        assert json.loads(briefing.model_dump_json())["dropped"][0]["reason"] == "expired"

    def test_a_reason_is_one_of_the_known(self) -> None:
        with pytest.raises(InvalidInput, match="reason: "):
            Dropped(id="2", reason="because")  # type: ignore[arg-type]


def test_reports_say_what_they_did_and_travel_as_json() -> None:
    report = ConsolidationReport(
        promoted=(Promoted(id="1", from_tier=Tier.WORKING, to_tier=Tier.EPISODIC, reason="overflow"),),
        merged=(Merged(id="2", absorbed=("3", "4"), reason="same text"),),
        expired=(LetGo(id="5", tier=Tier.WORKING, reason="expired", preview="x"),),
    )
    assert str(report) == "promoted 1, merged 2, let go 0, expired 1"
    assert ConsolidationReport.model_validate_json(report.model_dump_json()) == report
    for shape in (Stats(), MaintenanceReport()):
        assert type(shape).model_validate_json(shape.model_dump_json()) == shape
    assert Stats().tiers == dict.fromkeys(Tier, 0)


def test_every_shape_is_frozen_and_closed() -> None:
    shapes = [Shape]
    for shape in shapes:
        shapes += shape.__subclasses__()
        assert shape.model_config["frozen"]
        assert shape.model_config["extra"] == "forbid"
    assert len(shapes) > 10


def test_the_light_modules_do_not_load_pydantic() -> None:
    light = ["errors", "tiers", "times", "embedding", "policy.tokens", "policy.briefing"]
    # A bare package in the place of the real one: each module is loaded for itself, without the native part.
    code = f"""
import importlib, sys, types
package = sys.modules["tiermem_fast"] = types.ModuleType("tiermem_fast")
package.__path__ = [sys.argv[1]]
for name in {light!r}:
    importlib.import_module("tiermem_fast." + name)
print([name for name in sys.modules if name.partition(".")[0] in ("pydantic", "msgpack")])
"""
    folder = str(Path(models.__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
