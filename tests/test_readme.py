"""The README files and the demo's page: their Python runs as it stands, their commands and links exist."""

import html
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

READMES = ["README.md", "README.zh-CN.md"]
PAGES = [*READMES, "docs/demo.md"]


def fenced(text: str, *languages: str) -> list[str]:
    """The bodies of the fenced blocks in any of the languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", READMES)
def test_examples_run(
    project_root: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after another, as a reader would type them."""
    text = (project_root / name).read_text(encoding="utf-8")
    blocks = [
        (text.count("\n", 0, match.start(1)), match[1])
        for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]
    assert blocks, f"{name} shows no Python"
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for lines_above, block in blocks:
        # The empty lines keep the line numbers of a traceback those of the README.
        exec(compile("\n" * lines_above + block, str(project_root / name), "exec"), names)  # noqa: S102
    # What the comments promise.
    told = capsys.readouterr().out
    assert ("Director Li stay formal" if name == "README.md" else "给李主任的回复要正式") in told
    assert "True\npromoted 0, merged 0, let go 0, expired 0\n" in told


def test_both_readmes_show_the_same_calls(project_root: Path) -> None:
    def calls(name: str) -> list[str]:
        code = "".join(fenced((project_root / name).read_text(encoding="utf-8"), "python"))
        return re.findall(r"\b(?:mem|briefing|TierMemory)\.\w+", code)

    assert calls("README.md") == calls("README.zh-CN.md")


@pytest.mark.parametrize("name", PAGES)
def test_links_and_pictures_exist(project_root: Path, name: str) -> None:
    page = project_root / name
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{name} points to {target}"


def test_commands_exist(project_root: Path) -> None:
    """Every option that a page tells of is one of the command's."""
    helped: dict[str, str] = {}
    for name in PAGES:
        text = (project_root / name).read_text(encoding="utf-8")
        lines = [line for block in fenced(text, "bash") for line in block.splitlines()]
        lines += re.findall(r"`(tiermem [^`]+)`", text)
        for line in lines:
            words = shlex.split(line, comments=True)
            if not words or words[0] != "tiermem":
                continue
            command = words[1]
            if command not in helped:
                call = [sys.executable, "-m", "tiermem_fast", command, "--help"]
                done = subprocess.run(call, capture_output=True, encoding="utf-8", timeout=60, check=False)
                assert done.returncode == 0, f"{name}: {line}"
                helped[command] = done.stdout
            for option in (word for word in words if word.startswith("--")):
                assert option in helped[command], f"{name}: {line}"
    assert {"demo", "search", "stats"} <= helped.keys()
    page = (project_root / "docs" / "demo.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--[a-z]+", page)) <= set(re.findall(r"--[a-z]+", helped["demo"]))


def test_the_page_of_the_demo_tells_every_field(project_root: Path) -> None:
    text = (project_root / "docs" / "demo.md").read_text(encoding="utf-8")
    call = [sys.executable, "-m", "tiermem_fast", "demo", "--json", "--embedder", "none"]
    told = json.loads(subprocess.run(call, capture_output=True, encoding="utf-8", timeout=120, check=True).stdout)
    names: set[str] = set()

    def gather(value: object) -> None:
        if isinstance(value, dict):
            names.update(value)
            for within in value.values():
                gather(within)
        elif isinstance(value, list):
            for within in value:
                gather(within)

    gather(told)
    tiers = {"working", "episodic", "semantic", "procedural"}
    assert {name for name in names - tiers if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pictures_say_what_the_demo_says(project_root: Path, language: str) -> None:
    """Times and build apart; `examples/demo_svg.py` draws them anew."""
    script = runpy.run_path(str(project_root / "examples" / "demo_svg.py"))
    picture = (project_root / "docs" / script["PICTURES"][language]).read_text(encoding="utf-8")
    assert "url(" not in picture.replace("url(#", ""), "a picture loads nothing"
    assert "release" in picture

    def timeless(text: str) -> str:
        bare = "".join(html.unescape(text).split())
        return re.sub(r"(\d+\.\d\d)(?=ms|毫秒)|release|debug|perf|dev", "…", bare)

    seen = re.findall(r"<text class=\"demo-\w+-r\d+\"[^>]*>([^<]*)</text>", picture)
    assert timeless("".join(seen)) == timeless(script["printed"](language).export_text())
