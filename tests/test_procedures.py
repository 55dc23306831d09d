"""Rules in files: what they match, how their faults are named, that they are read again, and that patterns are linear."""

from __future__ import annotations

import json
import os
import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import InvalidInput, Policies, TierMemory
from tiermem_fast.located import parse_json, parse_yaml, read_document
from tiermem_fast.policy.linear_regex import MOST_STATES, LinearRegex, compile_linear
from tiermem_fast.policy.procedures import Matched, Procedure, Procedures, read_procedures

NOW = 1_700_000_000.0
needs_yaml = pytest.mark.skipif(find_spec("yaml") is None, reason="PyYAML is not installed")


def written(folder: Path, name: str, content: Any, *, changed: int = 1) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    os.utime(path, ns=(changed * 10**9, changed * 10**9))
    return path


def ids(matched: Any) -> list[str]:
    return [one.procedure.id for one in matched]


RULES = [
    {"id": "always", "then": "Cite your sources.", "priority": 10},
    {
        "id": "blue",
        "when": {"tasks": ["report"], "keywords": ["quarter"]},
        "then": "Use the blue template.",
        "priority": 500,
    },
    {"id": "zh", "when": {"keywords": ["季报", "年报"]}, "then": ["报告用宋体。", "页脚写日期。"]},
    {"id": "tool", "when": {"tools": "sql"}, "then": "Never delete rows."},
    {"id": "both", "when": {"keywords": ["refund"], "regex": ["order \\d{4,}"]}, "then": "Ask for the receipt."},
    {"id": "off", "then": "Never shown.", "enabled": False},
]


class TestMatching:
    @pytest.fixture
    def rules(self, tmp_path):
        written(tmp_path, "rules.json", {"procedures": RULES})
        return Procedures(tmp_path)

    @pytest.mark.parametrize(
        ("query", "options", "wanted"),
        [
            ("hello", {}, ["always"]),
            ("the quarter report", {"task": "report"}, ["blue", "always"]),
            ("the quarters in a report", {"task": "report"}, ["blue", "always"]),
            ("headquarters", {"task": "report"}, ["always"]),
            ("the quarter report", {"task": "mail"}, ["always"]),
            ("写一份季报", {}, ["zh", "always"]),
            ("rows", {"tools": ["mail", "sql"]}, ["tool", "always"]),
            ("REFUND please", {}, ["both", "always"]),
            ("Order 12345 is late", {}, ["both", "always"]),
            ("order 123", {}, ["always"]),
        ],
    )
    def test_every_kind_of_condition(self, rules, query, options, wanted):
        assert ids(rules.matching(query, **options)) == wanted

    def test_why_it_holds_is_said(self, rules):
        why = {one.procedure.id: one.why for one in rules.matching("order 12345, 季报", task="report", tools=["sql"])}
        assert why["both"] == "a rule for the pattern 'order \\\\d{4,}'"
        assert why["zh"] == "a rule for the keyword '季报'"
        assert why["tool"] == "a rule for the tool sql"
        assert why["always"] == "a rule that always holds"

    def test_lines_are_joined(self, rules):
        assert next(rule for rule in rules.rules if rule.id == "zh").then == "报告用宋体。\n页脚写日期。"


class TestReloading:
    def test_a_changed_added_or_removed_file_is_read_again(self, tmp_path):
        written(tmp_path, "a.json", {"id": "a", "then": "one"})
        rules = Procedures(tmp_path)
        assert not rules.reload()
        written(tmp_path, "a.json", {"id": "a", "then": "two"}, changed=2)
        assert [one.procedure.then for one in rules.matching("x")] == ["two"]
        other = written(tmp_path, "b.json", {"id": "b", "then": "three"})
        assert ids(rules.matching("x")) == ["a", "b"]
        other.unlink()
        assert ids(rules.matching("x")) == ["a"]

    def test_a_fault_is_told_and_the_good_rules_stay(self, tmp_path):
        written(tmp_path, "a.json", {"id": "a", "then": "one"})
        rules = Procedures(tmp_path)
        written(tmp_path, "a.json", {"id": "a"}, changed=2)
        with pytest.raises(InvalidInput, match="then: is needed"):
            rules.matching("x")
        assert [rule.then for rule in rules.rules] == ["one"]
        written(tmp_path, "a.json", {"id": "a", "then": "two"}, changed=3)
        assert [one.procedure.then for one in rules.matching("x")] == ["two"]


FAULTS: list[tuple[str, int, str, str]] = [
    ('{"id": "a"}', 1, "then", "is needed"),
    ('{\n "id": "a",\n "then": ""}', 3, "then", "neither a text"),
    ('{\n "id": "",\n "then": "x"}', 2, "id", "not a name"),
    ('[\n {"id": "a", "then": "x"},\n {"id": "b", "than": "x"}]', 3, "than", "did you mean 'then'?"),
    (
        '{"id": "a", "then": "x",\n "when": {\n  "keyword": ["x"],\n  "taks": ["y"]}}',
        4,
        "when.taks",
        "did you mean 'tasks'?",
    ),
    ('{"id": "a", "then": "x",\n "when": {"keywords": []}}', 2, "when.keywords", "1 to 200"),
    ('{"id": "a", "then": "x",\n "when": {"keywords": ["x",\n 3]}}', 3, "when.keywords[1]", "3 is not a text"),
    ('{"id": "a", "then": "x",\n "when": {"regex": ["ok",\n "(?=x)"]}}', 3, "when.regex[1]", "lookaround"),
    ('{"id": "a", "then": "x",\n "priority": "high"}', 2, "priority", "0 to 1000"),
    ('{"id": "a", "then": "x",\n "enabled": 1}', 2, "enabled", "neither true nor false"),
    ('{"id": "a", "then": "x",\n "version": 0}', 2, "version", "whole number"),
    ('{"id": "a", "then": "x",\n "id": "b"}', 2, "", "stands twice"),
    ('{"id": "a",\n "then" "x"}', 2, "", "':' is expected"),
    ('{"id": "a",\n "then": "x"', 2, "", "',' or '}' is expected"),
    ("nonsense", 1, "", "a value is expected"),
    ('{"id": "a", "then": "x"}\n{}', 2, "", "follows the end"),
    ("[3]", 1, "", "3 is not a rule"),
    ('{"procedures": [],\n "more": 1}', 2, "more", "unknown beside"),
    ('"x"', 1, "", "neither a rule"),
]


class TestFaults:
    @pytest.mark.parametrize(("content", "line", "field", "problem"), FAULTS)
    def test_name_file_line_and_field(self, tmp_path, content, line, field, problem):
        path = written(tmp_path, "rules.json", content)
        with pytest.raises(InvalidInput) as caught:
            Procedures(tmp_path)
        message = str(caught.value)
        assert message.startswith(f"{path}:{line}: {field}: " if field else f"{path}:{line}: ")
        assert problem in message

    def test_two_rules_of_one_name(self, tmp_path):
        written(tmp_path, "a.json", {"id": "same", "then": "x"})
        second = written(tmp_path, "b.json", '[\n {"id": "same", "then": "x"}]')
        with pytest.raises(InvalidInput, match=r"'same' stands in .*a\.json:1 too") as caught:
            Procedures(tmp_path)
        assert str(caught.value).startswith(f"{second}:2: id: ")

    def test_a_missing_directory(self, tmp_path):
        with pytest.raises(InvalidInput, match="cannot be read"):
            Procedures(tmp_path / "none")

    @pytest.mark.parametrize(("data", "problem"), [(b"\xff\xfe", "not UTF-8"), (b" " * (2**20 + 1), "larger than")])
    def test_a_file_that_is_none(self, tmp_path, data, problem):
        path = tmp_path / "x.json"
        path.write_bytes(data)
        with pytest.raises(InvalidInput, match=problem):
            read_document(path)

    def test_yaml_without_pyyaml_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "yaml", None)
        written(tmp_path, "rules.yaml", "id: a\nthen: x\n")
        with pytest.raises(InvalidInput, match=r"pip install 'tiermem-fast\[yaml\]', or write it as JSON"):
            Procedures(tmp_path)

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
                        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20))  # fmt: skip
    def test_json_is_read_as_pythons_own(self, value):
        for indent in (None, 1):
            text = json.dumps(value, indent=indent, ensure_ascii=indent is None)
            if "\\ud" not in text:
                assert parse_json(text, "x").value == json.loads(text)


@needs_yaml
class TestYaml:
    def test_is_read_with_lines(self, tmp_path):
        text = "# rules\n- id: a\n  when:\n    tasks: [report]\n  then: |\n    one\n    two\n- id: b\n  then: x\n  priority: 1001\n"
        path = written(tmp_path, "rules.yaml", text)
        with pytest.raises(InvalidInput) as caught:
            Procedures(tmp_path)
        assert str(caught.value).startswith(f"{path}:10: priority: 1001 is not a whole number")
        written(tmp_path, "rules.yaml", text.replace("1001", "7"), changed=2)
        rules = Procedures(tmp_path)
        assert [(rule.id, rule.then) for rule in rules.rules] == [("a", "one\ntwo"), ("b", "x")]
        assert ids(rules.matching("x", task="report")) == ["a", "b"]

    @pytest.mark.parametrize(
        ("text", "line", "problem"),
        [
            ("a: &x [1]\nb: *x", 2, "aliases"),
            ("a: 1\na: 2", 2, "stands twice"),
            ("a: !!python/object/apply:os.system ['x']", 1, "tag"),
            ("a: !x 1", 1, "tag"),
            ("a: [1,\nb: }", 2, "is not YAML"),
            ("? [a]\n: 1", 1, "a key must be a text"),
        ],
    )
    def test_what_is_refused(self, text, line, problem):
        with pytest.raises(InvalidInput) as caught:
            parse_yaml(text, "x.yaml")
        assert str(caught.value).startswith(f"x.yaml:{line}: ")
        assert problem in str(caught.value)

    def test_a_date_stays_a_text(self):
        assert parse_yaml("a: 2024-05-03\nb: yes\nc: 1e3\nd: ~", "x").value == {
            "a": "2024-05-03",
            "b": True,
            "c": "1e3",
            "d": None,
        }


class TestBriefing:
    def test_rules_of_files_go_first_and_cite_their_file(self, tmp_path):
        written(tmp_path, "rules.json", RULES)
        with TierMemory.open(config={"procedures": {"path": str(tmp_path)}}, now=NOW) as mem:
            mem.add("The last quarter was good", now=NOW)
            mem.add("Round the numbers", tier="procedural", metadata={"task": "report"}, now=NOW)
            briefing = mem.brief("Write about the last quarter", task="report", now=NOW)
            assert [item.text for item in briefing][:3] == [
                "Use the blue template.",
                "Cite your sources.",
                "Round the numbers",
            ]
            first = briefing.items[0]
            assert first.metadata == {"procedure": "blue", "version": 1, "file": "rules.json"}
            assert first.source == "system"
            assert "```" not in briefing.text
            mem.used(briefing.cited(f"Done [{briefing.items[-1].citation}]"), now=NOW)

    def test_another_source_takes_their_place(self):
        class Own:
            def matching(self, *_: str, task: str | None = None, **__: Any) -> list[Matched]:
                return [Matched(Procedure("x", f"Mind the {task}."), "because")]

        with TierMemory.open(policies=Policies(procedures=Own()), now=NOW) as mem:
            assert [item.text for item in mem.brief("hello", task="gap", now=NOW)] == ["Mind the gap."]

    def test_a_task_that_may_not_see_rules_gets_none(self, tmp_path):
        written(tmp_path, "rules.json", RULES)
        config = {"procedures": {"path": str(tmp_path)}, "access": {"tiers": {"chat": ["semantic"]}}}
        with TierMemory.open(config=config, now=NOW) as mem:
            assert mem.brief("hello", task="chat", now=NOW).items == ()


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", "\\d", "\\w", "\\W", "\\s", "1", " ", "报"]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("|".join).map("({})".format)
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "{0}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
    ),
    max_leaves=8,
)


def compiled_or_too_large(pattern: str) -> LinearRegex | None:
    try:
        return compile_linear(pattern)
    except InvalidInput as error:
        if "states" in str(error) or "longer" in str(error):
            return None
        raise


class TestLinearRegex:
    @given(
        PATTERNS,
        st.sampled_from(["", "^", "\\b"]),
        st.sampled_from(["", "$", "\\B"]),
        st.text("ab1 报", min_size=1, max_size=12),
    )
    @settings(max_examples=600)
    def test_agrees_with_python(self, pattern, begin, end, text):
        whole = f"{begin}(?:{pattern}){end}"
        ours = compiled_or_too_large(whole)
        if ours is None:
            return
        assert ours.search(text) == (re.search(whole, text) is not None)
        assert ours.search(text) == (re.search(whole, text) is not None), "the cached steps agree too"

    @pytest.mark.parametrize(
        ("pattern", "text", "found"),
        [
            ("Straße", "STRASSE straße", True),
            ("QUARTER", "the Quarter", True),
            ("[A-F]\\d", "b7", True),
            ("(\\d{4})-(\\d\\d)", "on 2024-05", True),
            ("季报|年报", "写年报", True),
            ("^报$", "报", True),
            ("^报$", "年报", False),
            ("a{2,3}b", "ab", False),
            ("x*", "", True),
            ("\\.", "a.b", True),
            ("[\\]\\-]", "a-b", True),
            ("[]a]", "]", True),
        ],
    )
    def test_of_known_texts(self, pattern, text, found):
        assert compile_linear(pattern).search(text) is found

    @pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|ab|b)*c", "a*a*a*a*a*b", "(.*)*x", "(\\w+\\s?)+!"])
    def test_what_stops_python_is_no_slower_than_anything(self, pattern):
        start = time.process_time()
        assert compile_linear(pattern).search("a" * 50_000 + "-") is False
        # Not a measurement: a backtracking matcher does not end.
        assert time.process_time() - start < 60

    @pytest.mark.parametrize(
        "pattern",
        ["", "(", ")", "[a", "a**", "*a", "a{2", "a{x}", "a{3,2}", "a{1000}", "(?=a)", "(?P<n>a)", "(?i)a", "\\1", "\\p", "[z-a]",
         "\\", "a" * 301, "(" * 50 + "a" + ")" * 50, "((a{100}){100}){100}", "a+?", None],
    )  # fmt: skip
    def test_what_is_outside_of_the_grammar_is_refused(self, pattern):
        with pytest.raises(InvalidInput, match="regex"):
            compile_linear(pattern)
        assert MOST_STATES == 1_000

    def test_many_threads_may_search(self):
        from concurrent.futures import ThreadPoolExecutor

        pattern = compile_linear("(a|b)+c[0-9]{2,4}")
        texts = [f"{'ab' * (number % 7)}c{number}" for number in range(400)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(pattern.search, texts))
        assert found == [re.search("(a|b)+c[0-9]{2,4}", text) is not None for text in texts]


def test_a_rule_without_a_file_is_read_from_any_document():
    rules = read_procedures(parse_json('{"procedures": [{"id": "a", "then": "x"}]}', "memory"))
    assert [(rule.id, line) for rule, line in rules] == [("a", 1)]
