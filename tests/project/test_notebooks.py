"""The notebooks as stored: run top to bottom, small cells, a picture beside each figure."""

import ast
import base64
import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
PLOTLY = "application/vnd.plotly.v1+json"
LONGEST_CELL = 12
LARGEST_PICTURE = 60_000

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path):
    return nbformat.read(path, as_version=4)


def code(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def outputs(path):
    return [(cell, output) for cell in code(path) for output in cell.outputs]


each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def test_the_notebooks_of_the_route_and_its_appendices_are_there():
    assert [path.stem for path in NOTEBOOKS] == [
        "01_profiler_hang",
        "02_autotune_misshape",
        "03_sizing_fix",
        "04_other_consumers",
        "05_your_deployment",
        "A1_releases",
        "A2_proof",
        "A3_price",
    ]


@each
def test_saved_after_restart_and_run_all(path):
    cells = code(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [o for _, o in outputs(path) if o.output_type == "error"]
    assert not [o for _, o in outputs(path) if o.get("name") == "stderr"]


@each
def test_cells_are_small_and_define_nothing(path):
    for cell in code(path):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= LONGEST_CELL, cell.source
        kinds = {type(node) for node in ast.walk(ast.parse(cell.source))}
        assert not kinds & {ast.FunctionDef, ast.ClassDef, ast.Lambda}, cell.source
        assert "plotly" not in cell.source
        assert "renderer" not in cell.source


@each
def test_claims_are_asserted(path):
    asserting = [cell for cell in code(path) if re.search(r"^\s*assert ", cell.source, re.M)]
    assert len(asserting) >= 5


@each
def test_a_picture_beside_each_figure(path):
    figures = [output.data for _, output in outputs(path) if PLOTLY in output.get("data", {})]
    assert figures
    for data in figures:
        picture = base64.b64decode(data["image/png"])
        assert picture.startswith(b"\x89PNG")
        assert len(picture) <= LARGEST_PICTURE
        title = data[PLOTLY]["layout"]["title"]["text"]
        assert len(title) > 10


@each
def test_figures_hold_plain_numbers(path):
    for _, output in outputs(path):
        assert "bdata" not in str(output.get("data", {}).get(PLOTLY, ""))


@each
def test_the_first_cell_asks_and_answers(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown"
    assert re.match(r"# .+\?", first.source)
    assert "**Answer.**" in first.source


@each
def test_ignored_outputs_are_few_and_asserted(path):
    """Only cells that time or run something live are left out of the comparison."""
    cells = code(path)
    ignored = [cell for cell in cells if "NBVAL_IGNORE_OUTPUT" in cell.source]
    assert all(cell.source.startswith("# NBVAL_IGNORE_OUTPUT") for cell in ignored)
    assert len(ignored) <= len(cells) // 2
    assert not [cell for cell in cells if "NBVAL_SKIP" in cell.source]


@each
def test_no_path_and_no_host_is_stored(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'"/(home|root|work|tmp|usr|opt)/', text)
    assert not re.search(r"/(home|root|work|tmp|usr|opt)/\w+/", text)
    assert "widget-view" not in text
    assert "widget-state" not in text
