"""The command ``tiermem``.

Owns the entry point; the commands are in :mod:`.app`, which needs the extra ``cli``. It promises that a missing extra is
a sentence and not a traceback.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = frozenset({"rich", "typer", "click"})


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    try:
        from .app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        message = f"error: the command line needs {error.name}; install it with: pip install 'tiermem-fast[cli]'"
        sys.stderr.write(message + "\n")
        sys.exit(1)
    run()
