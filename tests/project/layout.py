"""The house as the code says it: modules, what each imports, and the floors of the rooms.

`python -m tests.project.layout` draws it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "eagerbuf"
# from the ground up: a room may import the floors before its own
FLOORS = [
    ("_arrays", "_csv", "_html"),
    ("config",),
    ("_frames",),
    ("sizing", "admission"),
    ("predictor", "releases", "buffers", "model"),
    ("shapes", "consumers"),
    ("read", "simulate"),
    ("engine",),
    ("repro",),
    ("diagnose",),
    ("studies",),
    ("plots", "cli"),
    ("__main__",),
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
TOP = "eagerbuf"


def modules() -> dict[str, Path]:
    """Each module's dotted name below `eagerbuf`, and its file; the package's own is ""."""
    return {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room(module: str) -> str:
    return module.partition(".")[0]


def imports(path: Path, *, at_load: bool = False) -> Iterator[str]:
    """What a file imports, dotted; `at_load`: only what loading it runs, not what calls run.

    Everything under `if TYPE_CHECKING` is left out: it is never run.
    """
    for node in _run(ast.parse(path.read_text(encoding="utf-8")), at_load):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run(node: ast.AST, at_load: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if at_load and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from _run(child, at_load)


def graph() -> dict[str, set[str]]:
    """For each module those of the package that it imports, wherever the import stands."""
    known = modules()
    return {
        module: {
            found
            for name in imports(path)
            if (found := _module(_whole(name, path), known)) is not None
        }
        for module, path in known.items()
    }


def _whole(name: str, path: Path) -> str:
    """The dotted name of a neighbour that is imported by its bare name, where a folder is a path.

    That of the engine's own processes is (`engine/inside`): its files import one another so.
    """
    first = name.partition(".")[0]
    if path.parent.name != "inside" or not path.with_name(f"{first}.py").exists():
        return name
    return ".".join((TOP, *path.parent.relative_to(PACKAGE).parts, name))


def _module(name: str, known: dict[str, Path]) -> str | None:
    """The module that `eagerbuf.a.b.name` names: itself, or the one that holds the name."""
    first, *parts = name.split(".")
    if first != TOP or parts == ["__version__"]:  # which loads nothing
        return None
    return ".".join(parts) if ".".join(parts) in known else ".".join(parts[:-1])


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Modules that import one another in a ring; [] if there is none."""
    done: set[str] = set()
    way: list[str] = []

    def walk(module: str) -> list[str]:
        if module in way:
            return way[way.index(module) :]
        if module in done:
            return []
        way.append(module)
        found = next(filter(None, map(walk, sorted(edges[module]))), [])
        way.pop()
        done.add(module)
        return found

    return next(filter(None, map(walk, edges)), [])


def upward(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """(module, what it imports) wherever that is not on a floor below its room."""
    return [
        (module, other)
        for module, others in edges.items()
        for other in sorted(others)
        if room(other) != room(module) and not FLOOR[room(other)] < FLOOR[room(module)]
    ]


def draw() -> Iterator[str]:
    """A line a floor, from the top: its rooms, their lines, and the rooms that they import."""
    edges = graph()
    for rooms in reversed(FLOORS):
        for own in rooms:
            members = [m for m in edges if m and room(m) == own]
            lines = sum(len(modules()[m].read_bytes().splitlines()) for m in members)
            below = {room(o) for m in members for o in edges[m] if room(o) != own}
            if members:
                yield f"{own:<12} {lines:>6,}  {', '.join(sorted(below, key=FLOOR.__getitem__))}"
        yield ""


if __name__ == "__main__":
    print("\n".join(draw()))
