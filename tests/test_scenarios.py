"""The scenarios of tests/scenarios: what is said on which day, and what must and must not be in a briefing after it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tiermem_fast import Briefing, TierMemory

FOLDER = Path(__file__).resolve().parent / "scenarios"
SCENARIOS = [
    (path.stem, scenario)
    for path in sorted(FOLDER.glob("*.json"))
    for scenario in json.loads(path.read_text(encoding="utf-8"))
]
SAID = ("role", "session", "task", "outcome", "about")
ASKED = ("task", "session", "about", "budget", "grant")
KNOWN = {
    "say": {
        *SAID,
        "at",
        "say",
        "tier",
        "not_tier",
        "stored",
        "action",
        "about_is",
        "redacted",
        "supersedes",
        "forgets",
    },
    "ask": {*ASKED, "at", "ask", "must", "must_not", "empty", "items", "first", "dropped", "dropped_as"},
    "add": {"at", "add"},
    "add_many": {"at", "add_many"},
    "use": {"at", "use"},
    "forget": {"at", "forget"},
    "erase": {"at", "erase"},
    "consolidate": {"at", "consolidate", "promoted"},
    "nowhere": {"at", "nowhere"},
}


def test_there_are_enough_and_half_of_them_are_chinese() -> None:
    languages = [scenario["language"] for _, scenario in SCENARIOS]
    assert len(languages) >= 40
    assert languages.count("zh") * 2 >= len(languages) - 4
    assert languages.count("en") * 2 >= len(languages) - 4
    assert len({scenario["name"] for _, scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize("embedder", [None, "lexical"], ids=["keywords", "lexical"])
@pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=f"{kind}: {scenario['name']}") for kind, scenario in SCENARIOS]
)
def test_scenario(scenario: dict[str, Any], embedder: str | None, tmp_path: Path) -> None:
    checks = 0
    with TierMemory.open(tmp_path, embedder=embedder, durability="normal", config={"id_seed": 7}, now=0.0) as mem:
        for step in scenario["steps"]:
            kind = next(name for name in KNOWN if name in step)
            assert step.keys() <= KNOWN[kind], f"unknown in a step: {step.keys() - KNOWN[kind]}"
            now = datetime.fromisoformat(step["at"]).replace(tzinfo=UTC)
            checks += STEPS[kind](mem, step, now, tmp_path)
    assert checks, "a scenario that checks nothing proves nothing"


def said(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    decision = mem.observe(step["say"], now=now, **{name: step[name] for name in SAID if name in step})
    found = {
        "stored": decision.stored,
        "tier": None if decision.tier is None else decision.tier.value,
        "about_is": decision.about,
        "supersedes": len(decision.superseded),
        "forgets": len(decision.forgotten),
        "action": decision.kept[0].action if decision.kept else None,
        "redacted": list(decision.redactions),
    }
    for name, value in found.items():
        if name in step:
            assert value == step[name], f"{name} of {step['say']!r}: {decision!r}"
    if "not_tier" in step:
        assert step["not_tier"] not in {one.tier.value for one in decision.kept}, decision
    assert decision.reasons, "every decision has its reason"
    return len(found.keys() & step.keys()) + ("not_tier" in step)


def asked(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    briefing = mem.brief(step["ask"], now=now, **{name: step[name] for name in ASKED if name in step})
    for part in step.get("must", ()):
        assert part in briefing.text, told(step, briefing)
    for part in step.get("must_not", ()):
        assert part not in briefing.text, told(step, briefing)
    if step.get("empty"):
        assert briefing.text == "", told(step, briefing)
    if "items" in step:
        assert len(briefing) == step["items"], told(step, briefing)
    if "first" in step:
        assert step["first"] in briefing.items[0].text, told(step, briefing)
    for part, reason in step.get("dropped", {}).items():
        assert any(part in one.preview and one.reason == reason for one in briefing.dropped), told(step, briefing)
    reasons = {one.reason.value for one in briefing.dropped}
    assert set(step.get("dropped_as", ())) <= reasons, told(step, briefing)
    return len(step.keys() & {"must", "must_not", "empty", "items", "first", "dropped", "dropped_as"})


def told(step: dict[str, Any], briefing: Briefing) -> str:
    dropped = "\n".join(f"  {one.reason.value}: {one.detail}: {one.preview}" for one in briefing.dropped)
    return f"{step['ask']!r} got\n{briefing.text}\ndropped\n{dropped}"


def added(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    mem.add(now=now, **step["add"])
    return 0


def many_added(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    given = dict(step["add_many"])
    count, text = given.pop("count"), given.pop("text")
    mem.add_many([text.format(n=number) for number in range(count)], now=now, **given)
    return 0


def named(mem: TierMemory, part: str, now: datetime) -> list[str]:
    found = [item.id for item in mem.list(limit=10_000, now=now) if part in item.text]
    assert found, f"nothing says {part!r}"
    return found


def used(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    mem.used(named(mem, step["use"], now), now=now)
    return 0


def forgotten(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    mem.forget(named(mem, step["forget"], now), now=now)
    return 0


def erased(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    assert mem.erase(named(mem, step["erase"], now), now=now).complete
    return 1


def consolidated(mem: TierMemory, step: dict[str, Any], now: datetime, _: Path) -> int:
    report = mem.consolidate(now=now)
    if "promoted" in step:
        assert len(report.promoted) == step["promoted"], report
    return int("promoted" in step)


def nowhere(mem: TierMemory, step: dict[str, Any], now: datetime, folder: Path) -> int:
    """No file of the store has these bytes."""
    mem.maintain(now=now)
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(part.encode() in data for part in step["nowhere"]), path
    return 1


STEPS = {
    "say": said,
    "ask": asked,
    "add": added,
    "add_many": many_added,
    "use": used,
    "forget": forgotten,
    "erase": erased,
    "consolidate": consolidated,
    "nowhere": nowhere,
}
