"""How a command speaks and ends.

Owns the exit codes and what goes to which stream: data to standard output, everything else to standard error. Calls the
errors of the package. Exit codes: 0 done; 1 something failed; 2 the arguments or a file that was given cannot be used;
130 stopped by Ctrl-C; 141 the reader of standard output went away.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from tiermem_fast.errors import InvalidInput, StorageError, TiermemError

__all__ = ["Json", "Page", "refuse", "speaks", "write_json"]

Json = Annotated[bool, typer.Option("--json", help="JSON for machines.")]


class Page(Console):
    """Standard output for people; that its reader went away is for :func:`speaks` to say."""

    def on_broken_pipe(self) -> None:
        """Raise what happened, where rich would leave with an exit code of its own."""
        raise BrokenPipeError


@contextmanager
def speaks() -> Iterator[None]:
    """Within it an error is a sentence on standard error and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # What is still in the buffer has no reader; the interpreter must not try again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except InvalidInput as error:
        refuse(str(error))
    except (TiermemError, OSError) as error:
        sys.stderr.write(f"error: {_sentence(error)}\n")
        raise typer.Exit(1) from None


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, StorageError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def refuse(problem: str) -> NoReturn:
    """Say what is wrong with the arguments or the input, and leave with exit code 2."""
    sys.stderr.write(f"error: {problem}\n")
    raise typer.Exit(2)


def write_json(value: Any) -> None:
    """One JSON document on standard output, in signs that its encoding has."""
    ascii_only = (sys.stdout.encoding or "ascii").replace("-", "").lower() != "utf8"
    json.dump(value, sys.stdout, ensure_ascii=ascii_only, allow_nan=False, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()
