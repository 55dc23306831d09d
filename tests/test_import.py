"""What importing the package brings in, and that everything it promises is there."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

import tiermem_fast

# Nothing of these until it is asked for: each costs more than the whole package, or belongs to an extra.
HEAVY = (
    "asyncio", "concurrent.futures", "ctypes", "dataclasses_json", "email", "fastapi", "fastembed", "hypothesis", "http",
    "importlib.metadata", "matplotlib", "model2vec", "msgpack", "multiprocessing", "openai", "pandas", "pydantic",
    "pydantic_core", "pytest", "requests", "rich", "scipy", "sentence_transformers", "socket", "sqlite3", "ssl", "tiermem_fast.cli",
    "tiermem_fast.config", "tiermem_fast.models", "torch", "typer", "urllib.request", "usearch", "uvicorn",
)  # fmt: skip


def modules_after(statements: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some statements, without those it has after numpy alone."""
    script = "import sys, json\nimport numpy\nbefore = set(sys.modules)\n" + statements
    script += "\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    # Without site packages' own start-up files, which may import anything.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_brings_in_nothing_heavy():
    loaded = modules_after("import tiermem_fast")
    assert "tiermem_fast._core" in loaded
    assert loaded & set(HEAVY) == set()


def test_everyday_writing_and_searching_needs_no_pydantic():
    loaded = modules_after(
        "from tiermem_fast import TierMemory\n"
        "with TierMemory.open() as mem:\n"
        "    mem.add_many(['one thing', {'text': 'another', 'importance': 0.9}])\n"
        "    hits = mem.search('thing')\n"
        "    assert hits.ids and hits.texts and hits.scores.shape == (1,)\n"
        "    mem.used(hits.ids); mem.count(); mem.forget(hits.ids); mem.restore(hits.ids)\n"
    )
    assert loaded & set(HEAVY) == set()


def test_models_come_when_they_are_named():
    assert "tiermem_fast.models" in modules_after("import tiermem_fast; tiermem_fast.MemoryItem")
    assert "tiermem_fast.config" in modules_after("import tiermem_fast; tiermem_fast.Config")


def test_importing_prints_nothing_and_warns_of_nothing():
    command = [sys.executable, "-W", "error", "-c", "import tiermem_fast"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", tiermem_fast.__all__)
def test_every_name_promised_is_there(name):
    value = getattr(tiermem_fast, name)
    assert value is not None
    assert getattr(tiermem_fast, name) is value, "and is the same the next time"


def test_the_names_are_listed_once_and_in_order():
    assert list(tiermem_fast.__all__) == sorted(set(tiermem_fast.__all__))
    assert set(tiermem_fast.__all__) <= set(dir(tiermem_fast))
    assert not [name for name in dir(tiermem_fast) if name.startswith("_") and not name.endswith("__")]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'TeirMemory'"):
        tiermem_fast.TeirMemory  # noqa: B018
    with pytest.raises(ImportError):
        from tiermem_fast import NoSuchThing  # noqa: F401


def test_a_star_import_gives_all_of_it():
    names: dict[str, object] = {}
    exec("from tiermem_fast import *", names)  # noqa: S102
    assert names.keys() - {"__builtins__"} == set(tiermem_fast.__all__)


def test_the_version_is_the_builds_and_the_distributions():
    info = tiermem_fast.build_info()
    assert tiermem_fast.__version__ == info["version"]
    assert info["profile"] in ("debug", "release")
    assert tuple(map(int, info["sqlite"].split("."))) >= (3, 51, 3), "older ones can lose a WAL"
    try:
        installed = importlib.metadata.version("tiermem-fast")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is on the path, not installed")
    assert installed == tiermem_fast.__version__
