"""The rooms import downwards only, and only what they may."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "eagerbuf"
# from the ground up: a room may import the rooms before its own line
ORDER = [
    {"_arrays", "_data", "_html", "_csv"},
    {"config"},
    {"producers", "_frames"},
    {"sizing", "predictor", "admission"},
    {"releases", "buffers", "models"},
    {"shapes", "consumers"},
    {"read"},
    {"simulate", "repro", "engine"},
    {"diagnose"},
    {"studies"},
    {"plots"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
LEAVES = ("plots", "studies", "cli", "__main__")
# the HTML face and figures are reached when asked for, from inside a function
HEAVY = {"torch", "pandas", "plotly", "numpy"}
LIGHT_ROOMS = {
    "config",
    "_arrays",
    "_csv",
    "sizing",
    "predictor",
    "shapes",
    "admission",
    "releases",
    "models",
    "consumers",
    "diagnose",
    "producers",
    "read",
    "cli",
}


def sources():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path, *, top_only):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _run_at_import(tree) if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "eagerbuf":
                yield from (f"eagerbuf.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _run_at_import(tree):
    """Statements at module level, without `if TYPE_CHECKING` and without function bodies."""
    for node in tree.body:
        if not isinstance(node, ast.If):
            yield node


def test_every_room_has_its_level():
    assert {room(path) for path in sources()} <= set(LEVEL)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path):
    own = room(path)
    for module in imports(path, top_only=True):
        parts = module.split(".")
        if parts[0] == "eagerbuf" and len(parts) > 1 and parts[1] in LEVEL and parts[1] != own:
            assert LEVEL[parts[1]] < LEVEL[own], f"{own} imports {parts[1]}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_light_rooms_stay_light(path):
    if room(path) in LIGHT_ROOMS:
        loaded = {module.split(".")[0] for module in imports(path, top_only=True)}
        assert not loaded & HEAVY


def test_nothing_imports_a_leaf_when_it_is_loaded():
    for path in sources():
        for module in imports(path, top_only=True):
            parts = module.split(".")
            if parts[0] == "eagerbuf" and len(parts) > 1 and room(path) not in LEAVES:
                assert parts[1] not in LEAVES, path
