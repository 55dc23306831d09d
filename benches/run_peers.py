"""Measures local memory libraries, this one among them, on one workload; each in an environment of its own.

    python benches/run_peers.py                        all of them; environments are made on the first run
    python benches/run_peers.py --only tiermem chromadb
    python benches/run_peers.py --cap 120              at most about so many seconds for each

Results go to benches/results/peers.json and .md; a run replaces the rows of the libraries it measures.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # would slow numpy down
    os.environ.pop(_variable, None)

sys.path.insert(0, str(Path(__file__).parent))
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        from peers.measured import child

        name, dataset, phase, data, folder, report, seconds = sys.argv[2:]
        child(name, dataset, phase, Path(data), Path(folder), Path(report), float(seconds))
        return
    from peers.adapters import ADAPTERS
    from peers.runner import run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(ADAPTERS), default=list(ADAPTERS))
    parser.add_argument("--cap", type=float, default=360, help="seconds that one library may take in all, about")
    parser.add_argument("--venvs", type=Path, default=RESULTS / "venvs", help="where the environments are kept")
    arguments = parser.parse_args()
    run(RESULTS, arguments.venvs, arguments.only, arguments.cap)


if __name__ == "__main__":
    main()
