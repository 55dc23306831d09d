"""The project as somebody finds it: its promises about dependencies, licences, commands and data."""

import ast
import json
import re
import shutil
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest

# Places that exist on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:home|root|Users|work/(?:main|shared)|tmp/wt)/|[A-Z]:\\\\?Users\\\\?")
# Written in two halves, so that this file does not name them.
HOSTS = tuple(f"{name}.{end}" for name, end in [("crates", "io"), ("pypi", "org"), ("pythonhosted", "org")])
# Cargo's own lock file names the index that every lock file names.
EXEMPT = {"Cargo.lock"}


def committed_files(root: Path) -> list[Path]:
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=root, check=True, capture_output=True, encoding="utf-8").stdout
    return [root / name for name in listed.split("\0") if name and name not in EXEMPT and (root / name).is_file()]


def private_words(text: str) -> list[str]:
    """Return the machine paths and registry hosts that stand in a text."""
    hosts = [host for host in HOSTS if re.search(rf"(?<![\w-]){re.escape(host)}\b", text)]
    return [match.group() for match in MACHINE_PATH.finditer(text)] + hosts


def test_no_committed_file_names_a_machine_or_a_registry_host(project_root: Path) -> None:
    found = {}
    for path in committed_files(project_root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path != Path(__file__) and (words := private_words(text)):
            found[str(path.relative_to(project_root))] = words
    assert found == {}


@pytest.mark.parametrize(
    "text", ["see /home/ann/x", '"/root/.cargo"', "at /Users/ann/x", r"C:\Users\ann", f"https://static.{HOSTS[0]}/x"]
)
def test_the_search_for_private_words_finds_them(text: str) -> None:
    assert private_words(text)


@pytest.mark.parametrize("text", ["$HOME/.cargo/bin", "~/.cargo", "docs/home/page.md", "GET /api/home", "/srv/store"])
def test_the_search_for_private_words_lets_the_rest_pass(text: str) -> None:
    assert not private_words(text)


def pyproject(root: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def test_three_required_dependencies_and_no_more(project_root: Path) -> None:
    required = pyproject(project_root)["project"]["dependencies"]
    assert isinstance(required, list)
    assert {re.split(r"[<>=~! \[;]", entry)[0] for entry in required} == {"numpy", "pydantic", "msgpack"}


def test_all_names_every_extra_for_users(project_root: Path) -> None:
    extras = pyproject(project_root)["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    (everything,) = extras["all"]
    named = set(re.fullmatch(r"tiermem-fast\[(.*)\]", everything)[1].split(","))  # type: ignore[index]
    assert named == set(extras) - {"all", "dev", "bench"}


def test_licences_are_there(project_root: Path) -> None:
    assert (project_root / "LICENSE-MIT").read_text(encoding="utf-8").startswith("MIT License")
    apache = (project_root / "LICENSE-APACHE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in apache
    assert "END OF TERMS AND CONDITIONS" in apache
    cargo = tomllib.loads((project_root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    assert cargo["license"] == pyproject(project_root)["project"]["license"] == "MIT OR Apache-2.0"


def test_nothing_that_was_read_is_executed(project_root: Path) -> None:
    executing = {"pickle", "marshal", "shelve", "dill", "joblib", "yaml", "cloudpickle"}
    for path in (project_root / "python" / "tiermem_fast").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            # PyYAML is read in one place, which takes nodes and never makes objects of tags.
            allowed = {"yaml"} if path.name == "located.py" else set()
            assert (executing - allowed).isdisjoint(name.partition(".")[0] for name in names), path
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            assert called not in {"eval", "exec", "compile"}, path
    located = (project_root / "python" / "tiermem_fast" / "located.py").read_text(encoding="utf-8")
    assert set(re.findall(r"yaml\.(\w+)", located)) <= {
        "parse", "compose", "SafeLoader", "AliasEvent", "YAMLError", "SequenceNode", "MappingNode", "ScalarNode", "org",
    }  # fmt: skip


def fenced(text: str, language: str) -> list[str]:
    """Return the bodies of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def make_targets(root: Path) -> set[str]:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "CONTRIBUTING.md"])
def test_commands_in_the_documents_exist(project_root: Path, name: str) -> None:
    text = (project_root / name).read_text(encoding="utf-8")
    blocks = [block for language in ("bash", "sh", "console") for block in fenced(text, language)]
    called = {target for block in blocks for target in re.findall(r"\bmake ([a-z][a-z-]*)", block)}
    called |= set(re.findall(r"`make ([a-z][a-z-]*)", text))
    assert {"demo", "test"} <= called
    assert called <= make_targets(project_root)


def test_every_target_is_listed_by_help(project_root: Path) -> None:
    makefile = (project_root / "Makefile").read_text(encoding="utf-8")
    described = set(re.findall(r"^([a-z][a-z-]*):.* ## ", makefile, flags=re.MULTILINE))
    assert described == make_targets(project_root)
    assert set(re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)) == described


@pytest.mark.parametrize("language", ["en", "zh"])
def test_demo_conversation_is_whole(project_root: Path, language: str) -> None:
    path = project_root / "python" / "tiermem_fast" / "_data" / f"demo_{language}.json"
    demo = json.loads(path.read_text(encoding="utf-8"))
    assert demo["language"] == language
    assert demo["license"] == "MIT"
    assert demo["license_text"].startswith("MIT License\n\nCopyright (c) ")
    assert demo["source"].startswith("https://")
    assert demo["attribution"]

    turns = demo["turns"]
    assert all(set(turn) == {"role", "content", "time", "session"} for turn in turns)
    assert {turn["role"] for turn in turns} == {"user", "assistant"}
    assert all(turn["content"].strip() for turn in turns)
    days = [date.fromisoformat(turn["time"]) for turn in turns]
    assert days == sorted(days)
    assert (days[-1] - days[0]).days >= 9

    # Every turn is the published one.
    published = json.loads((project_root / "examples" / "data" / f"memorybank_{language}.json").read_text("utf-8"))
    (group,) = [group for group in published["groups"] if group["id"] == demo["person"]]
    assert [turn["content"] for turn in turns] == [item[key] for item in group["items"] for key in ("text", "reply")]

    questions = demo["questions"]
    assert 6 <= len(questions) <= 8
    assert all(0 <= turn < len(turns) for question in questions for turn in question["turns"])
    assert sum(not question["turns"] for question in questions) == 2
