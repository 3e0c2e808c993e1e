"""Notebooks 01 to 05 run to the end with other parameters than those they ship with.

The values take the place that papermill gives them: a cell after the one tagged `parameters`.
"""

from pathlib import Path

import nbformat
import pytest

from notebooks.site.execute import execute

FOLDER = Path(__file__).parents[2] / "notebooks"
SERVER = "python -m sglang.launch_server --model-path a/b --tp 8"
MANY = f"{SERVER} --dp 8 --enable-dp-attention --max-running-requests 1024"
TRIED = [
    ("01_profiler_hang", {"chunked_prefill_size": 8192, "tp_size": 4, "pp_size": 2}),
    ("01_profiler_hang", {"chunked_prefill_size": 3072, "tp_size": 1, "pp_size": 8}),
    ("02_autotune_misshape", {"max_running_requests": 1000, "tp_size": 12, "dp_size": 2}),
    ("02_autotune_misshape", {"max_running_requests": 256, "tp_size": 4, "dp_size": 4}),
    ("03_sizing_fix", {"requests": 50, "chunked_prefill_size": 2730, "tp_size": 12, "dp_size": 3}),
    ("03_sizing_fix", {"requests": 50, "chunked_prefill_size": None, "pp_size": 1}),
    ("04_other_consumers", {"chunked_prefill_size": 2048, "ep_size": 16, "model": "GLM-4.5"}),
    ("04_other_consumers", {"chunked_prefill_size": 16384, "model": "Qwen3-30B-A3B"}),
    ("05_your_deployment", {"text": f"{MANY} --chunked-prefill-size 32768", "release": None}),
    ("05_your_deployment", {"text": SERVER, "release": "0.5.19"}),
]


def with_parameters(stem, values, folder):
    """A copy of the notebook in `folder` with a cell that sets `values`."""
    notebook = nbformat.read(FOLDER / f"{stem}.ipynb", as_version=4)
    (at,) = [n for n, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    told = notebook.cells[at].source
    assert all(f"{name} =" in told for name in values), told
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(lines)))
    path = folder / f"{stem}.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.mark.parametrize(("stem", "values"), TRIED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_notebook_runs_with_other_parameters(stem, values, tmp_path, monkeypatch):
    monkeypatch.setenv("EAGERBUF_ENGINE", "recorded")  # a start-up of SGLang takes half a minute
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent))
    run = execute(with_parameters(stem, values, tmp_path))
    text = "".join(cell.source for cell in run.notebook.cells)
    assert "if as_shipped:" in text


def test_each_notebook_of_the_route_is_tried_twice():
    stems = [stem for stem, _ in TRIED]
    assert all(stems.count(path.stem) == 2 for path in FOLDER.glob("0*.ipynb"))
