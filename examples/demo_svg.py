"""Draw docs/demo.svg and docs/demo.zh-CN.svg: parts of what `tiermem demo` prints, with the times of this machine.

Run it with a release build on a quiet machine, for the pictures say what they were measured with:

    make develop PROFILE=release && .venv/bin/python examples/demo_svg.py

A test compares what the pictures say, times apart, with what the demo says.
"""

import re
import time
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from tiermem_fast import TierMemory
from tiermem_fast.cli.demo import told
from tiermem_fast.demo.conversation import shipped
from tiermem_fast.demo.replay import config, replay

PICTURES = {"en": "demo.svg", "zh": "demo.zh-CN.svg"}
WIDTH = 112
# The questions that are shown: one that a turn answers, and one that nothing answers.
SHOWN = (0, 7)
# Rich names a font to be loaded from elsewhere; the reader's own will do.
LOADED_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def printed(language: str) -> Console:
    """A console on which the parts of the picture are printed."""
    with TierMemory.open(embedder="lexical", config=config()) as mem:
        report = replay(shipped(language), mem, stopwatch=time.perf_counter)
    console = Console(record=True, width=WIDTH, highlight=False, file=StringIO())
    parts = list(told(report, weeks=4, saved=None, everything=False, width=WIDTH))
    opening, _, table, promoted, _, _, asked, *answers, _, closing = parts
    for part in (opening, table, promoted, asked, *(answers[place] for place in SHOWN), closing):
        console.print(part)
    return console


def drawn(language: str) -> str:
    """The picture of one conversation."""
    title = "tiermem demo" if language == "en" else f"tiermem demo --lang {language}"
    svg = printed(language).export_svg(title=title, theme=MONOKAI, unique_id=f"demo-{language}")
    svg = LOADED_FONTS.sub("", svg).replace("font-family: Fira Code, monospace", "font-family: monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    docs = Path(__file__).resolve().parent.parent / "docs"
    for language, name in PICTURES.items():
        (docs / name).write_text(drawn(language), encoding="utf-8")
