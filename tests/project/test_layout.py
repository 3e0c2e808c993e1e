"""The rooms import downwards only, in no circle, and only what they may; functions included."""

import ast

import pytest

from tests.project.layout import (
    FLOOR,
    PACKAGE,
    circle,
    graph,
    imports,
    modules,
    room,
    upward,
)

EDGES = {module: others for module, others in graph().items() if module}
LEAVES = {"plots", "studies", "cli", "__main__"}
MOST_ON_ONE_FLOOR = 28
# to be mended: switches are turned on by the file whose two functions they use
KNOWN = {"engine.inside.switches": {"engine.inside.sitecustomize"}}
LOADERS = {"import_module", "importlib.import_module", "__import__"}
HEAVY = {"torch", "pandas", "plotly", "numpy"}
LIGHT_ROOMS = {
    "_arrays",
    "_csv",
    "_html",
    "admission",
    "cli",
    "config",
    "consumers",
    "diagnose",
    "model",
    "predictor",
    "read",
    "releases",
    "shapes",
    "sizing",
}


def test_every_room_has_its_floor():
    assert {room(module) for module in EDGES} <= set(FLOOR)


def test_the_first_floor_is_seen_at_once():
    shown = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert len(shown - {"__pycache__"}) <= MOST_ON_ONE_FLOOR


def test_the_readme_shows_the_first_floor():
    text = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    shown = text.split("## Where things are")[1].split("```")[1]
    rooms = {room(module) for module in EDGES if not room(module).startswith("_")}
    told = {r for r in rooms if f" {r}.py " in shown or f" {r}/ " in shown}
    assert rooms == told
    assert {name for name in FLOOR if not name.startswith("_")} == rooms


def test_no_module_is_part_of_a_circle():
    edges = {module: others - KNOWN.get(module, set()) for module, others in EDGES.items()}
    assert circle(edges) == []


def test_imports_go_downwards():
    assert upward(EDGES) == []


def test_nobody_imports_the_package_itself():
    """Its names are loaded when used: that is for users, a room says where a name lives."""
    assert [module for module, others in EDGES.items() if "" in others] == []


def test_nobody_imports_a_leaf():
    found = [
        (module, other)
        for module, others in EDGES.items()
        for other in sorted(others)
        if room(other) in LEAVES and room(other) != room(module) and module != "__main__"
    ]
    assert found == []


@pytest.mark.parametrize("module", [m for m in EDGES if room(m) in LIGHT_ROOMS])
def test_light_rooms_load_light(module):
    loaded = {name.split(".")[0] for name in imports(modules()[module], at_load=True)}
    assert not loaded & HEAVY


def test_a_figure_is_made_of_tables_alone():
    assert {
        room(other) for m, others in EDGES.items() if room(m) == "plots" for other in others
    } <= {"plots"}


# --- the layout test would catch one ---


def test_imports_inside_functions_count(tmp_path):
    path = tmp_path / "room.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from eagerbuf.cli import main\n"
        "if True:\n    import eagerbuf.config\n"
        "class A:\n    def f(self):\n"
        "        def g():\n            from eagerbuf.plots import probes\n"
    )
    assert list(imports(path)) == [
        "typing.TYPE_CHECKING",
        "eagerbuf.config",
        "eagerbuf.plots.probes",
    ]
    assert list(imports(path, at_load=True)) == ["typing.TYPE_CHECKING", "eagerbuf.config"]


def test_a_circle_is_found_wherever_it_begins():
    ring = {"a": {"b"}, "b": {"c", "e"}, "c": {"d"}, "d": {"b"}, "e": set()}
    assert set(circle(ring)) == {"b", "c", "d"}
    assert set(circle(dict(reversed(ring.items())))) == {"b", "c", "d"}
    assert circle({**ring, "d": {"e"}}) == []


def test_an_upward_import_is_found():
    assert upward({"sizing": {"config"}, "config": {"diagnose.report"}}) == [
        ("config", "diagnose.report")
    ]
    assert upward({"read.find": {"simulate.traces"}}) == [("read.find", "simulate.traces")]


def test_every_import_is_written_out():
    """importlib is for the public names and for others' modules: no test could follow it."""
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())) if module else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOADERS:
                (name,) = (ast.literal_eval(argument) for argument in node.args)
                assert not name.startswith("eagerbuf"), module
