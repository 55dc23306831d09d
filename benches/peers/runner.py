"""The environments and processes: one environment per library, one fresh process per measurement."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import workload
from .adapters import ADAPTERS
from .report import write_report

HERE = "tiermem"
"""The library that is measured as installed here."""
BENCHES = Path(__file__).resolve().parents[1]


def python_of(venvs: Path, name: str) -> str:
    """The interpreter of a library's environment."""
    return sys.executable if name == HERE else str(venvs / name / "bin" / "python")


def set_up(venvs: Path, names: list[str]) -> list[str]:
    """Makes the environments that are missing; gives the names of those that could be made."""
    made = []
    for name in names:
        if name == HERE or (venvs / name / "bench.json").exists():
            made.append(name)
            continue
        print(f"{name}: installing {' '.join(ADAPTERS[name].packages)}", flush=True)
        try:
            _install(venvs / name, ADAPTERS[name].packages)
        except subprocess.CalledProcessError as error:
            print(f"{name}: left out, could not be installed: {error}", flush=True)
            continue
        made.append(name)
    return made


def _install(venv: Path, packages: list[str]) -> None:
    """Sizes are taken before numpy is added for the harness's own use."""
    skip = {"pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth", "__pycache__"}
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile"]
    subprocess.run([*pip, *packages], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    tops = [path for path in site.iterdir() if path.name.split("-")[0] not in skip]
    size = sum(
        file.stat().st_size
        for top in tops
        for file in ([top] if top.is_file() else top.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )
    count = sum(path.name.endswith(".dist-info") for path in tops)
    subprocess.run([*pip, "numpy"], check=True)
    (venv / "bench.json").write_text(json.dumps({"site_packages_mb": size / 2**20, "distributions": count}))


def _busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used."""
    values = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(values[:8]) - values[3] - values[4]) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _spawn(venvs: Path, data: Path, name: str, dataset: str, phase: str, folder: Path, seconds: float, grace: float):
    """Runs one process; its report, and how much CPU others used meanwhile."""
    with tempfile.TemporaryDirectory() as scratch:
        report, errors = Path(scratch) / "report.json", Path(scratch) / "err"
        command = [
            python_of(venvs, name), str(BENCHES / "run_peers.py"), "--child", name, dataset, phase,
            str(data), str(folder), str(report), str(seconds),
        ]  # fmt: skip
        busy, own, started = _busy_seconds(), _own_seconds(), time.monotonic()
        with errors.open("w") as sink:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink, start_new_session=True)
        killed = False
        try:
            process.wait(seconds + grace)
        except subprocess.TimeoutExpired:
            killed = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        wall = time.monotonic() - started
        out = json.loads(report.read_text()) if report.exists() else {}
        if not out:
            out["error"] = "no report: " + errors.read_text()[-400:]
        if killed:
            out["killed_after_s"] = wall
        out["wall_s"] = wall
        out["others_cpu"] = max(0.0, (_busy_seconds() - busy) - (_own_seconds() - own)) / (wall * os.cpu_count())
        return out


def _import_cost(venvs: Path, name: str):
    """Import time in a bare interpreter: (first, best of 5), and the installed versions."""
    code = f"import time; t = time.perf_counter()\n{ADAPTERS[name].imports}\nprint(time.perf_counter() - t)"
    env = {**os.environ, **{k: v.format(dir=tempfile.gettempdir()) for k, v in ADAPTERS[name].env.items()}}
    python = python_of(venvs, name)
    runs = [
        float(subprocess.run([python, "-c", code], capture_output=True, text=True, env=env).stdout.split()[-1])
        for _ in range(6)
    ]
    listing = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
    )
    versions = json.loads(subprocess.run([python, "-c", listing], capture_output=True, text=True).stdout)
    return {"first_s": runs[0], "best_s": min(runs[1:])}, versions


def _measure(venvs: Path, data: Path, name: str, cap: float):
    adapter, left = ADAPTERS[name], cap
    imported, versions = _import_cost(venvs, name)
    row = {
        "notes": adapter.notes, "persistent": adapter.persistent, "import": imported, "versions": versions,
        "cap_s": cap, "datasets": {},
    }  # fmt: skip
    sizes = venvs / name / "bench.json"
    if sizes.exists():
        row.update(json.loads(sizes.read_text()))
    for turn, dataset in enumerate(workload.DATASETS):
        work = Path(tempfile.mkdtemp(prefix=f"peers-{name}-"))
        try:
            seconds = max(20, (left - 20) * (0.4, 0.4, 0.9)[turn])
            result = row["datasets"][dataset] = _spawn(venvs, data, name, dataset, "main", work / "db", seconds, 30)
            left -= result["wall_s"]
            if adapter.persistent and "disk_bytes" in result:
                result["reopen"] = _spawn(venvs, data, name, dataset, "reopen", work / "db", 30, 15)
                left -= result["reopen"]["wall_s"]
            if turn == 0 and adapter.persistent:
                crash = _spawn(venvs, data, name, dataset, "crash", work / "crash", 20, 5)
                check = _spawn(venvs, data, name, dataset, "crashcheck", work / "crash", 20, 5)
                died = "crash_added" in crash
                row["kill9_found_of_100"] = (
                    check.get("crash_found", check.get("error")) if died else crash.get("error", "did not add")
                )
                left -= crash["wall_s"] + check["wall_s"]
        finally:
            shutil.rmtree(work, ignore_errors=True)
        shown = {key: result.get(key) for key in ("stored", "add_per_s", "error", "wall_s", "others_cpu")}
        print(name, dataset, shown, flush=True)
    return row


def run(results: Path, venvs: Path, names: list[str], cap: float) -> None:
    """Measures libraries one after another; a library measured before gets a new row."""
    data, out = results / "data", results / "peers.json"
    workload.make(data)
    for name in set_up(venvs, names):
        row = _measure(venvs, data, name, cap)
        rows = json.loads(out.read_text()) if out.exists() else {}
        rows[name] = row
        with contextlib.suppress(FileNotFoundError):
            out.unlink()
        out.write_text(json.dumps({known: rows[known] for known in ADAPTERS if known in rows}, indent=1))
        write_report(rows, out.with_suffix(".md"))
    print(f"{out} and .md", flush=True)
