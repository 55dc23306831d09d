"""The configuration: defaults of the design, bounds, and the message for what is not known."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tiermem_fast.config import Config
from tiermem_fast.errors import InvalidInput
from tiermem_fast.models import Shape

build: Any = Config


def test_the_defaults_are_those_of_the_design() -> None:
    flat = Config().flat()
    day = 86_400
    expected = {
        "laws.working_half_life": 1_800, "laws.episodic_half_life": 7 * day, "laws.semantic_half_life": 180 * day,
        "laws.working_shape": math.inf, "laws.episodic_shape": 1, "laws.semantic_shape": 1,
        "laws.gain": 1, "laws.strength_share": 0.2, "laws.importance_share": 0.1,
        "working.capacity": 20, "working.ttl": 1_800, "working.keep_share": 0.5,
        "consolidation.promote_uses": 3, "consolidation.promote_importance": 0.7, "consolidation.promote_sessions": 3,
        "consolidation.use_spacing": 3_600,
        "consolidation.merge_cosine": 0.97, "consolidation.merge_jaccard": 0.85,
        "cleanup.idle_days": 90, "cleanup.max_importance": 0.3,
        "vectors.graph_bytes": 16 * 2**20, "vectors.rebuild_share": 0.25, "briefing.budget": 1_200,
        "durability": "full", "id_seed": None,
    }  # fmt: skip
    assert {name: flat[name] for name in expected} == expected


def test_the_native_side_has_the_same_defaults() -> None:
    from tiermem_fast import _core

    flat = {name: value for name, value in Config().flat().items() if not name.startswith("briefing.")}
    assert flat == pytest.approx(_core.default_options())


def test_flat_is_every_field_as_a_scalar() -> None:
    flat = Config().flat()
    rules = {"writing", "access", "procedures"}  # the core reads nothing of these
    sections = [section for name, section in Config() if isinstance(section, Shape) and name not in rules]
    assert len(flat) == sum(len(type(section).model_fields) for section in sections) + 2
    assert all(value is None or type(value) in (float, int, str) for value in flat.values())


def test_json_goes_and_comes() -> None:
    config = build(laws={"gain": 0.5, "episodic_shape": math.inf}, durability="normal", id_seed=7)
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert build(**config.model_dump()) == config


@pytest.mark.parametrize(
    ("given", "argument", "part"),
    [
        ({"law": {}}, "law", "did you mean 'laws'?"),
        ({"laws": {"gane": 1}}, "laws.gane", "did you mean 'gain'?"),
        ({"briefing": {"budgets": 1}}, "briefing.budgets", "did you mean 'budget'?"),
        ({"laws": {"gain": -1}}, "laws.gain", "got -1"),
        ({"laws": {"gain": math.inf}}, "laws.gain", "inf"),
        ({"laws": {"episodic_half_life": 0}}, "laws.episodic_half_life", "got 0"),
        ({"laws": {"semantic_shape": math.nan}}, "laws.semantic_shape", "nan"),
        ({"laws": {"strength_share": 0.6, "importance_share": 0.5}}, "laws.strength_share", "together more than 1"),
        ({"laws": 3}, "laws", "got 3"),
        ({"working": {"capacity": 0}}, "working.capacity", "got 0"),
        ({"working": {"capacity": 2.5}}, "working.capacity", "2.5"),
        ({"search": {"vector_weight": 0, "keyword_weight": 0}}, "search.vector_weight", "no arm"),
        ({"search": {"candidates": 10_001}}, "search.candidates", "10001"),
        ({"keywords": {"b": 1.5}}, "keywords.b", "got 1.5"),
        ({"vectors": {"search_ef": 0}}, "vectors.search_ef", "got 0"),
        ({"briefing": {"semantic_share": 0.9}}, "briefing.semantic_share", "over 1"),
        ({"briefing": {"language": "fr"}}, "briefing.language", "'fr'"),
        ({"durability": "fast"}, "durability", "'fast'"),
        ({"briefing": {"format": "html"}}, "briefing.format", "'html'"),
        ({"briefing": {"diversity": 1.5}}, "briefing.diversity", "1.5"),
        ({"writing": {"private_value": "redact"}}, "writing.private_value", "did you mean 'private_values'?"),
        ({"writing": {"max_chars": 0}}, "writing.max_chars", "got 0"),
        ({"access": {"tiers": {"mail": ["semantik"]}}}, "access.tiers.mail.0", "'semantik'"),
        ({"access": {"tier": {}}}, "access.tier", "did you mean 'tiers'?"),
        ({"procedures": {"path": 3}}, "procedures.path", "3"),
        ({"id_seed": -1}, "id_seed", "-1"),
        ({"id_seed": 2**64}, "id_seed", "18446744073709551616"),
    ],
)
def test_a_bad_value_is_refused_by_its_path(given: dict[str, Any], argument: str, part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build(**given)
    assert caught.value.argument == argument
    assert part in str(caught.value)


def test_is_frozen_and_hashable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().durability = "normal"
    assert {Config(): 1}[Config()] == 1


class TestLoad:
    def test_without_file_and_variables_it_is_the_default(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Config.load(environ={}) == Config()
        assert Config.load(environ={"PATH": "x", "TIERMEMORY": "y"}) == Config()

    def test_the_environment_has_the_last_word(self, tmp_path):
        path = tmp_path / "tiermem.json"
        path.write_text(json.dumps({"briefing": {"budget": 700, "language": "zh"}, "durability": "normal"}))
        environ = {"TIERMEM_BRIEFING_BUDGET": "800", "TIERMEM_LAWS_GAIN": "0.5", "TIERMEM_ID_SEED": "7"}
        config = Config.load(path, environ)
        assert (config.briefing.budget, config.briefing.language, config.durability) == (800, "zh", "normal")
        assert (config.laws.gain, config.id_seed) == (0.5, 7)

    @pytest.mark.parametrize(
        ("variable", "text", "section", "field", "value"),
        [
            ("TIERMEM_LAWS_SEMANTIC_SHAPE", "inf", "laws", "semantic_shape", math.inf),
            ("TIERMEM_LAWS_SEMANTIC_SHAPE", "null", "laws", "semantic_shape", math.inf),
            ("TIERMEM_BRIEFING_MIN_RELEVANCE", "null", "briefing", "min_relevance", None),
            ("TIERMEM_BRIEFING_LANGUAGE", "zh", "briefing", "language", "zh"),
            ("TIERMEM_PROCEDURES_PATH", "/etc/rules", "procedures", "path", "/etc/rules"),
            ("TIERMEM_ACCESS_TIERS", '{"mail": ["semantic"]}', "access", "tiers", {"mail": ("semantic",)}),
        ],
    )
    def test_values(self, variable, text, section, field, value, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert getattr(getattr(Config.load(environ={variable: text}), section), field) == value

    def test_the_file_is_looked_for(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tiermem.json").write_text('{"briefing": {"budget": 7}}')
        (tmp_path / "other.json").write_text('{"briefing": {"budget": 9}}')
        assert Config.load(environ={}).briefing.budget == 7
        assert Config.load(environ={"TIERMEM_CONFIG": "other.json"}).briefing.budget == 9
        assert Config.load("other.json", environ={"TIERMEM_CONFIG": "none.json"}).briefing.budget == 9

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"laws":\n {"gain": 1,\n  "gane": 1}}', ":3: laws.gane: unknown; did you mean 'gain'?"),
            ('{\n"law": {}}', ":2: law: unknown; did you mean 'laws'?"),
            ('{"briefing": {\n"budget": -1}}', ":2: briefing.budget: "),
            ('{"access": {"tiers": {\n"mail": ["semantic",\n"semantik"]}}}', ":3: access.tiers.mail.1: "),
            ('{"briefing":\n {"semantic_share": 0.9}}', ":2: briefing.semantic_share: "),
            ("[]", ":1: [] is not a mapping of sections"),
            ("{", ":1: is not JSON"),
        ],
    )
    def test_a_fault_in_the_file_names_its_line(self, tmp_path, content, message):
        path = tmp_path / "tiermem.json"
        path.write_text(content)
        with pytest.raises(InvalidInput) as caught:
            Config.load(path, environ={})
        assert str(caught.value).startswith(f"{path}{message}")

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            (
                {"TIERMEM_BRIEFING_BUDGETS": "1"},
                "TIERMEM_BRIEFING_BUDGETS: unknown; did you mean 'TIERMEM_BRIEFING_BUDGET'?",
            ),
            ({"TIERMEM_BRIEFING_BUDGET": "many"}, "TIERMEM_BRIEFING_BUDGET: briefing.budget: "),
            ({"TIERMEM_DURABILITY": "fast"}, "TIERMEM_DURABILITY: durability: "),
            ({"TIERMEM_BRIEFING_SEMANTIC_SHARE": "0.9"}, "TIERMEM_BRIEFING_SEMANTIC_SHARE: briefing.semantic_share: "),
        ],
    )
    def test_a_fault_in_the_environment_names_the_variable(self, environ, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidInput) as caught:
            Config.load(environ=environ)
        assert str(caught.value).startswith(message)

    @pytest.mark.parametrize(
        ("name", "problem"), [("none.json", "cannot be read"), ("x.toml", "neither .json nor .yaml")]
    )
    def test_a_file_that_is_none(self, tmp_path, name, problem):
        if name == "x.toml":
            (tmp_path / name).write_text("")
        with pytest.raises(InvalidInput, match=problem):
            Config.load(tmp_path / name, environ={})

    def test_an_empty_file_is_the_default(self, tmp_path):
        (tmp_path / "tiermem.json").write_text(" \n")
        assert Config.load(tmp_path / "tiermem.json", environ={}) == Config()

    def test_yaml(self, tmp_path):
        pytest.importorskip("yaml")
        path = tmp_path / "tiermem.yaml"
        path.write_text("briefing:\n  budget: 700\n  langage: zh\n")
        with pytest.raises(InvalidInput) as caught:
            Config.load(path, environ={})
        assert str(caught.value) == f"{path}:3: briefing.langage: unknown; did you mean 'language'?"
        path.write_text("briefing:\n  budget: 700\n")
        assert Config.load(path, environ={}).briefing.budget == 700
