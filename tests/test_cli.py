"""The command `tiermem`: what it prints where, and how it ends."""

import json
import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

import tiermem_fast
from tiermem_fast import TierMemory
from tiermem_fast.cli import demo as demo_command
from tiermem_fast.cli.app import app
from tiermem_fast.cli.prose import fill
from tiermem_fast.cli.words import CHINESE, ENGLISH
from tiermem_fast.demo.conversation import shipped
from tiermem_fast.demo.replay import config, replay
from tiermem_fast.demo.rules import RULES, SMALL_TALK


def tiermem(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a user starts it, in a page of 80 columns."""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"} | options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "tiermem_fast", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    said = [
        ("user", "My name is Ada and I live in Oslo.", "2024-05-03T20:00"),
        ("assistant", "Good to know, Ada.", "2024-05-03T20:01"),
        ("user", "The boiler was repaired for 4,200 crowns.", "2024-05-10T20:00"),
        ("assistant", "Noted.", "2024-05-10T20:01"),
    ]
    rows = [{"role": role, "content": content, "time": time} for role, content, time in said]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class TestDemo:
    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_tells_a_person(self, language: str) -> None:
        done = tiermem("demo", "--lang", language)
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert max(map(cell_len, lines)) <= 80
        assert "\x1b" not in done.stdout
        told = "".join(done.stdout.split())
        for place, question in enumerate(shipped(language).questions, 1):
            assert f"{place}.{''.join(question.text.split())}" in told
        words = ENGLISH if language == "en" else CHINESE
        assert words.table in lines
        assert re.search(r"m:[0-9a-f]{8}", done.stdout)
        assert "MIT" in done.stdout

    def test_is_the_same_each_run_but_for_the_times(self) -> None:
        def timeless(text: str) -> str:
            return re.sub(r"\s+", " ", re.sub(r"\d+\.\d\d(?=\s+ms)", "…", text))

        first, second = (timeless(tiermem("demo").stdout) for _ in range(2))
        assert first == second

    def test_tells_a_machine(self) -> None:
        done = tiermem("demo", "--json", "--embedder", "none", "--weeks", "1")
        told = json.loads(done.stdout)
        assert (done.returncode, told["schema"]) == (0, "tiermem-demo/1")
        assert told["search"] == {"mode": "keywords", "embedder": None}
        assert sum(not period["said"] for period in told["periods"]) == 1
        assert all(question["milliseconds"] > 0 for question in told["questions"])

    def test_json_fits_a_terminal_that_has_no_chinese(self) -> None:
        done = tiermem("demo", "--lang", "zh", "--json", env={"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0
        assert "王峰" in json.loads(done.stdout)["conversation"]["name"]
        assert tiermem("demo", "--lang", "zh", env={"PYTHONIOENCODING": "ascii"}).returncode == 0

    def test_a_narrow_page(self) -> None:
        done = tiermem("demo", env={"COLUMNS": "50"})
        assert max(map(cell_len, done.stdout.splitlines())) <= 50

    def test_takes_ones_own_conversation(self, conversation: Path) -> None:
        done = tiermem(
            "demo", str(conversation), "--ask", "What did the boiler cost?", "--ask", "Where do I live?", "--json"
        )
        told = json.loads(done.stdout)
        assert [question["text"] for question in told["questions"]] == ["What did the boiler cost?", "Where do I live?"]
        assert "4,200" in told["questions"][0]["briefing"]
        assert "Oslo" in told["questions"][1]["briefing"]
        assert told["questions"][0]["held"] is None
        assert told["conversation"]["hours_were_set"] is False

    def test_without_questions_says_how_to_ask(self, conversation: Path) -> None:
        done = tiermem("demo", str(conversation))
        assert done.returncode == 0
        assert '--ask "…"' in done.stdout

    def test_keeps_the_store_and_never_mixes_two(self, conversation: Path, tmp_path: Path) -> None:
        kept = tmp_path / "store"
        assert tiermem("demo", str(conversation), "--save", str(kept)).returncode == 0
        again = tiermem("demo", str(conversation), "--save", str(kept))
        assert (again.returncode, again.stdout) == (2, "")
        assert "--save" in again.stderr
        figures = json.loads(tiermem("stats", str(kept), "--json").stdout)
        assert figures["alive"] == 2
        found = json.loads(tiermem("search", str(kept), "boiler", "--json").stdout)
        assert found[0]["text"].startswith("The boiler")
        assert found[0]["vector_score"] is not None

    def test_a_bad_file_is_a_sentence(self, conversation: Path) -> None:
        conversation.write_text(conversation.read_text() + '{"role": "user", "content": "x", "time": "soon"}\n')
        done = tiermem("demo", str(conversation))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            f"error: {conversation}, line 5, time: 'soon' is not an ISO 8601 time; write a day"
        )
        assert "Traceback" not in done.stderr

    def test_fields_that_were_passed_over_are_named(self, conversation: Path) -> None:
        conversation.write_text(json.dumps({"role": "user", "content": "x", "time": "2024-05-03", "sesion": "s"}))
        assert "passed over: sesion" in tiermem("demo", str(conversation)).stderr

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["missing.json"], 1, "missing.json: No such file or directory"),
            (["--lang", "de"], 2, "lang: 'de' is unknown; known are 'en', 'zh'"),
            (["x.json", "--lang", "en"], 2, "leave it out when FILE is given"),
            (["--person", "Ada"], 2, "--person"),
            (["--ask", " "], 2, "ask: ' ' is empty"),
            (["--weeks", "-1"], 2, "--weeks"),
            (["--embedder", "lexcal"], 2, "lexical"),
            (["--colour"], 2, "--colour"),
        ],
    )
    def test_wrong_arguments(self, arguments: list[str], code: int, words: str) -> None:
        done = CliRunner().invoke(app, ["demo", *arguments])
        assert (done.exit_code, done.stdout) == (code, "")
        assert words in " ".join(re.sub("[│╭╰─╮╯]", " ", done.stderr).split())

    def test_ctrl_c_leaves_cleanly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(demo_command, "replay", stop)
        done = CliRunner().invoke(app, ["demo"])
        assert done.exit_code == 130
        assert "stopped" in done.stderr
        assert done.stdout == ""

    @pytest.mark.parametrize("form", [["--json"], []])
    def test_a_reader_that_goes_away_ends_it(self, form: list[str]) -> None:
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as nobody:
            done = subprocess.run(
                [sys.executable, "-m", "tiermem_fast", "demo", *form],
                stdout=nobody,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                timeout=120,
                check=False,
            )
        assert (done.returncode, done.stderr) == (141, "")

    def test_every_reason_has_a_chinese_word(self) -> None:
        conversation = shipped("zh")
        with TierMemory.open(config=config()) as mem:
            report = replay(conversation, mem, stopwatch=count().__next__)
        reasons = {fate.reason for fate in report.fates} | {rule.name for rule in (*RULES, SMALL_TALK)}
        reasons |= {item.why for answer in report.answers for item in answer.briefing}
        reasons |= {one.reason.value for answer in report.answers for one in answer.briefing.dropped}
        assert reasons <= CHINESE.translations.keys()


class TestStore:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        path = tmp_path / "store"
        with TierMemory.open(path) as mem:
            mem.add("Replies to Director Li stay formal", importance=0.9)
            mem.add("The meeting is at noon", tier="episodic", session="s1")
        return path

    def test_stats(self, store: Path) -> None:
        done = tiermem("stats", str(store))
        assert done.returncode == 0
        assert re.search(r"alive\s+2\b", done.stdout)
        assert json.loads(tiermem("stats", str(store), "--json").stdout)["tiers"]["semantic"] == 1

    def test_search(self, store: Path) -> None:
        done = tiermem("search", str(store), "formal replies")
        assert "Replies to Director Li stay formal" in " ".join(done.stdout.split())
        assert "noon" not in done.stdout
        assert tiermem("search", str(store), "noon", "--tier", "semantic").stdout == "nothing matches\n"
        assert tiermem("search", str(store), "noon", "-k", "0").returncode == 2

    def test_looking_makes_no_store(self, tmp_path: Path) -> None:
        for arguments in (["stats", str(tmp_path / "none")], ["search", str(tmp_path / "none"), "x"]):
            done = tiermem(*arguments)
            assert (done.returncode, done.stdout) == (2, "")
            assert "holds no store" in done.stderr
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_version(self) -> None:
        assert tiermem_fast.__version__ in tiermem("version").stdout
        assert json.loads(tiermem("version", "--json").stdout) == tiermem_fast.build_info()

    def test_help_names_every_command_and_the_exit_codes(self) -> None:
        told = tiermem("--help").stdout
        for word in ("demo", "search", "stats", "version", "130"):
            assert word in told
        assert "tiermem-demo/1" in tiermem("demo", "--help").stdout
        assert tiermem().returncode == 2

    def test_entry_point(self, project_root: Path) -> None:
        text = (project_root / "pyproject.toml").read_text(encoding="utf-8")
        assert 'tiermem = "tiermem_fast.cli:main"' in text

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_a_missing_extra_is_a_sentence(self, missing: str) -> None:
        program = f"import sys; sys.modules[{missing!r}] = None; from tiermem_fast.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "pip install 'tiermem-fast[cli]'" in done.stderr
        assert "Traceback" not in done.stderr

    def test_the_replay_needs_no_extra(self) -> None:
        program = (
            "import sys, itertools; sys.modules['typer'] = sys.modules['rich'] = None\n"
            "from tiermem_fast import TierMemory\n"
            "from tiermem_fast.demo.conversation import shipped\n"
            "from tiermem_fast.demo.replay import config, replay\n"
            "from tiermem_fast.demo.schema import document\n"
            "with TierMemory.open(config=config()) as mem:\n"
            "    document(replay(shipped('en'), mem, stopwatch=itertools.count().__next__))\n"
        )
        assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


class TestProse:
    @pytest.mark.parametrize("width", [2, 7, 20, 80])
    def test_lines_fit_and_lose_nothing(self, width: int) -> None:
        text = "喜欢《活着》，also jazz（尤其是“现场”）。" * 3 + "\n" + "x" * 90
        lines = fill(text, width)
        assert all(cell_len(line) <= width for line in lines)
        assert "".join("".join(lines).split()) == "".join(text.split())

    def test_punctuation_begins_no_line(self) -> None:
        assert not [line for line in fill("一二三，四五六。七八九！" * 5, 12) if line[0] in "，。！"]
