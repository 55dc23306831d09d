"""The commands of ``tiermem``.

Owns their options and what they print; how they end is :mod:`.ending`, and ``demo`` has a module of its own. Calls the
package as any user does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import tiermem_fast
from tiermem_fast.memory import TierMemory

from .demo import HELP, demo
from .ending import Json, Page, refuse, speaks, write_json

__all__ = ["app", "run"]

app = typer.Typer(
    name="tiermem",
    help="Memory for agents in four tiers: look into a store, or watch one at work.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong arguments or input, 130 stopped by Ctrl-C, 141 output closed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command(help=HELP)(demo)


def run() -> None:
    """Run the command that the arguments name; see :mod:`.ending` for the exit codes."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign shows another one in its place.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="tiermem")


Store = Annotated[Path, typer.Argument(metavar="PATH", help="The directory of a store.", show_default=False)]


@contextmanager
def _existing(path: Path, embedder: str | None = None) -> Iterator[TierMemory]:
    """The store in a directory, read only; one that is not there is not made."""
    if not (path / "memory.db").is_file():
        refuse(f"PATH: {path} holds no store (there is no memory.db in it)")
    with TierMemory.open(path, embedder=embedder, read_only=True) as mem:
        yield mem


@app.command()
def version(as_json: Json = False) -> None:
    """Say which version this is, and what its native module was built with."""
    with speaks():
        built = tiermem_fast.build_info()
        if as_json:
            write_json(built)
            return
        about = ", ".join(f"{name} {value}" for name, value in built.items() if name != "version")
        typer.echo(f"tiermem-fast {tiermem_fast.__version__} ({about})")


@app.command()
def stats(path: Store, as_json: Json = False) -> None:
    """Say what a store holds and how it serves it."""
    with speaks():
        with _existing(path) as mem:
            figures = mem.stats().model_dump(mode="json")
        if as_json:
            write_json(figures)
            return
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in figures.items():
            held = ", ".join(f"{tier} {count:,}" for tier, count in value.items()) if name == "tiers" else value
            shown = f"{held:,}" if isinstance(held, int) and not isinstance(held, bool) else held
            table.add_row(name, Text("–" if shown is None else str(shown)))
        Page(highlight=False).print(table)


@app.command()
def search(
    path: Store,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question.", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="Results at most.")] = 5,
    tier: Annotated[
        list[str] | None, typer.Option(help="Only this tier; may be given again.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Search a store: by keywords, and by vectors where the built-in embedder made them."""
    with speaks():
        with _existing(path) as mem:
            model = mem.stats().model_id
        lexical = "lexical" if model is not None and model.startswith("lexical-") else None
        with _existing(path, lexical) as mem:
            hits = list(mem.search(query, k=k, tiers=tier or None))
        if model is not None and lexical is None:
            sys.stderr.write(f"note: searched by keywords only, for the vectors are those of {model}\n")
        if as_json:
            write_json([hit.model_dump(mode="json") for hit in hits])
            return
        table = Table(box=None, pad_edge=False)
        for heading in ("id", "tier", "strength", "score"):
            table.add_column(heading, no_wrap=True, justify="right" if heading in ("strength", "score") else "left")
        table.add_column("text", ratio=1)
        for hit in hits:
            table.add_row(hit.id[-8:], hit.tier.value, f"{hit.strength:.2f}", f"{hit.score:.2f}", Text(hit.text))
        Page(highlight=False).print(table if hits else Text("nothing matches"))
