"""Where and with what a run took place."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

from .data import ROOT

CONTENDERS = ("numpy", "usearch", "faiss-cpu", "bm25s", "tantivy", "lancedb")


def version(package: str) -> str | None:
    """The installed version, if there is one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    return "unknown"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + (", with changes" if changed else "")


def free_memory() -> int:
    """Bytes that may be taken without swapping; 0 where that is not known."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return 0
    entries = dict(line.split(":", 1) for line in info.read_text("utf8").splitlines())
    return int(entries["MemAvailable"].split()[0]) * 1024


def describe() -> dict[str, str]:
    """What a reader needs to judge the numbers."""
    import tiermem_fast

    versions = [f"{package} {found}" for package in CONTENDERS if (found := version(package))]
    load = f"{os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else "unknown"
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
        "load": load,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "tiermem_fast": f"{tiermem_fast.__version__}, commit {_commit()}",
        "beside": ", ".join(versions),
        "command": " ".join(["python", "benches/run.py", *sys.argv[1:]]),
    }
