"""Imports of the Python side go down only (docs/design.md), and the native module has one door."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "tiermem_fast"
SOURCE = Path(__file__).resolve().parent.parent / "python" / PACKAGE

# The rooms, lowest floor first. A module or folder that is not named here has no place in the house yet.
HOUSE = (
    ("errors", "files", "located", "models", "config", "results", "tiers", "times"),
    ("arguments", "embedding", "jsonl", "kernels", "policy", "snapshot"),
    ("memory", "tenants", "aio", "quality"),
    ("cli", "demo", "batch", "service", "mcp", "integrations", "backends"),
)
FLOORS: dict[str, int] = {room: floor for floor, rooms in enumerate(HOUSE) for room in rooms}
# May import anything: the lobby re-exports every floor, and `python -m` only opens the door of the command line.
LOBBY = {"__init__", "__main__"}
# May hold the native module: everybody else goes through these.
CORE_DOORS = {"memory", "kernels"}
# From this floor on a room is a face of the package and may use it as any user does.
FACES = 3


def imported_names(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield line and absolute dotted name of everything that `tree` imports, wherever the statement stands."""
    parts = module.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                kept = len(parts) - node.level + is_package
                base = ".".join([*parts[:kept], *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"importlib.import_module", "import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            name = node.args[0].value
            yield node.lineno, PACKAGE + name if name.startswith(".") else name


def faults(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Return what is wrong with the imports of one module, `module` being its dotted name."""
    room = module.split(".")[1] if "." in module else "__init__"
    if room in LOBBY:
        return []
    if room not in FLOORS:
        return [f"{module}: the room `{room}` has no floor; give it one in tests/test_floors.py"]
    found = []
    for line, name in imported_names(ast.parse(source), module, is_package=is_package):
        parts = name.split(".")
        if parts[0] != PACKAGE:
            continue
        target = parts[1] if len(parts) > 1 else "__init__"
        where = f"{module}:{line}"
        if target == "_core":
            if room not in CORE_DOORS:
                found.append(f"{where}: only {' and '.join(sorted(CORE_DOORS))} may import _core")
        elif target not in FLOORS:
            # The lobby, or a name that it exports; the data files beside it belong to nobody.
            if FLOORS[room] < FACES and target != "_data":
                found.append(f"{where}: imports `{name}` from the package itself, which stands above every room")
        elif FLOORS[target] > FLOORS[room]:
            found.append(f"{where}: P{FLOORS[room]} `{room}` imports P{FLOORS[target]} `{target}`")
    return found


def modules() -> list[tuple[Path, str, bool]]:
    """Return path, dotted name and whether it is a package, for every module of the source tree."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        is_package = path.name == "__init__.py"
        parts = relative.parent.parts if is_package else (*relative.parent.parts, path.stem)
        found.append((path, ".".join([PACKAGE, *parts]), is_package))
    return found


def test_there_is_a_house() -> None:
    names = {name for _, name, _ in modules()}
    assert {PACKAGE, f"{PACKAGE}.errors", f"{PACKAGE}.memory"} <= names


@pytest.mark.parametrize(("path", "module", "is_package"), [pytest.param(*entry, id=entry[1]) for entry in modules()])
def test_imports_go_down(path: Path, module: str, is_package: bool) -> None:
    assert faults(path.read_text(encoding="utf-8"), module, is_package=is_package) == []


def test_rooms_of_one_floor_form_no_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for path, module, is_package in modules():
        room = module.partition(".")[2].partition(".")[0]
        if room not in FLOORS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for _, name in imported_names(tree, module, is_package=is_package):
            parts = name.split(".")
            if parts[0] == PACKAGE and len(parts) > 1 and parts[1] in FLOORS and parts[1] != room:
                edges.setdefault(room, set()).add(parts[1])
    assert cycle(edges) is None


def cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """Return rooms that import one another in a circle, or None."""
    done: set[str] = set()

    def walk(room: str, trail: list[str]) -> list[str] | None:
        if room in trail:
            return [*trail[trail.index(room) :], room]
        if room in done:
            return None
        for target in sorted(edges.get(room, ())):
            if (circle := walk(target, [*trail, room])) is not None:
                return circle
        done.add(room)
        return None

    for room in sorted(edges):
        if (circle := walk(room, [])) is not None:
            return circle
    return None


@pytest.mark.parametrize(
    ("module", "source", "word"),
    [
        ("tiermem_fast.errors", "import tiermem_fast.models.memory\nfrom tiermem_fast.memory import TierMemory", "P2"),
        ("tiermem_fast.models", "from .embedding import Embedder", "P1"),
        ("tiermem_fast.policy.write", "from ..memory import TierMemory", "P2"),
        ("tiermem_fast.policy.write", "def f():\n    from tiermem_fast.cli import main", "P3"),
        ("tiermem_fast.policy.write", "if TYPE_CHECKING:\n    from tiermem_fast import tenants", "P2"),
        ("tiermem_fast.memory", "import importlib\nimportlib.import_module('tiermem_fast.service')", "P3"),
        ("tiermem_fast.memory", "import importlib\nimportlib.import_module('.service', __package__)", "P3"),
        ("tiermem_fast.memory", "from tiermem_fast import TierMemory", "package itself"),
        ("tiermem_fast.embedding", "import tiermem_fast", "package itself"),
        ("tiermem_fast.tenants", "from tiermem_fast import _core", "_core"),
        ("tiermem_fast.service.app", "from .._core import Engine", "_core"),
        ("tiermem_fast.manager", "", "no floor"),
    ],
)
def test_the_checker_sees_a_fault(module: str, source: str, word: str) -> None:
    found = faults(source, module)
    assert len(found) == 1
    assert word in found[0]


@pytest.mark.parametrize(
    ("module", "source", "is_package"),
    [
        (
            "tiermem_fast.memory",
            "from ._core import Engine\nfrom tiermem_fast.policy import write\nimport numpy",
            False,
        ),
        ("tiermem_fast.policy", "from .write import decide\nfrom ..errors import InvalidInput", True),
        ("tiermem_fast.service.app", "from tiermem_fast import TierMemory\nfrom .routes import router", False),
        ("tiermem_fast", "from tiermem_fast.cli import main\nfrom tiermem_fast import _core", True),
    ],
)
def test_the_checker_lets_the_rest_pass(module: str, source: str, is_package: bool) -> None:
    assert faults(source, module, is_package=is_package) == []


def test_the_cycle_finder_finds_one() -> None:
    assert cycle({"memory": {"tenants"}, "tenants": {"models", "aio"}, "aio": {"memory"}}) == [
        "aio",
        "memory",
        "tenants",
        "aio",
    ]
    assert cycle({"memory": {"models", "errors"}, "models": {"errors"}}) is None
