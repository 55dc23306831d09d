"""Install the newest wheel of a folder into an empty environment and use it there, far from the source tree.

Checks what a user of the wheel relies on: one abi3 wheel, the three required dependencies and no others, the native
module, a search in both languages and, with the ``cli`` extra, the demo with its conversation from inside the wheel.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

REQUIRED = {"numpy", "pydantic", "msgpack"}
# What pydantic itself requires, and what every environment has.
IMPLIED = {"annotated-types", "pydantic-core", "typing-extensions", "typing-inspection", "pip", "setuptools"}

LIST = """
from importlib.metadata import distributions

print(*{entry.name.lower().replace("_", "-") for entry in distributions()})
"""

USE = """
import sys
import tiermem_fast
from tiermem_fast import TierMemory, _core

optional = {"typer", "rich", "fastapi", "torch", "sentence_transformers", "openai"} & set(sys.modules)
assert not optional, f"importing the package imported {optional}"
with TierMemory.open(None) as memory:
    english = memory.add("Replies to Director Li stay formal", tier="semantic")
    chinese = memory.add("王峰喜欢听爵士乐", tier="semantic")
    assert memory.search("formal replies", k=1).ids == [english]
    assert memory.search("爵士乐", k=1).ids == [chinese]
print(f"tiermem_fast {tiermem_fast.__version__} from {tiermem_fast.__file__}, native module {_core.__file__}")
"""


def main() -> None:
    """Check the newest wheel in the folder named on the command line."""
    wheels = sorted(Path(sys.argv[1]).resolve().glob("tiermem_fast-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel in {sys.argv[1]}"
    wheel = wheels[-1]
    assert "-cp311-abi3-" in wheel.name, f"{wheel.name} is not an abi3 wheel for CPython 3.11 and later"
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")

    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder) / ("Scripts" if os.name == "nt" else "bin")

        def run(program: str, *arguments: str) -> str:
            command = [str(binaries / program), *arguments]
            return subprocess.run(
                command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
            ).stdout

        def install(requirement: str) -> None:
            run("python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", requirement)

        install(str(wheel))
        installed = set(run("python", "-I", "-c", LIST).split()) - {"tiermem-fast"}
        assert installed >= REQUIRED, f"missing: {REQUIRED - installed}"
        assert installed <= REQUIRED | IMPLIED, f"not asked for: {installed - REQUIRED - IMPLIED}"
        print(f"installs with {', '.join(sorted(installed - {'pip', 'setuptools'}))}")
        print(run("python", "-I", "-c", USE), end="")

        install(f"{wheel}[cli]")
        answers = json.loads(run("tiermem", "demo", "--json"))
        assert answers, "the demo printed an empty document"
        print("tiermem demo --json: ok")


if __name__ == "__main__":
    main()
