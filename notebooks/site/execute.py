"""Run the notebooks top to bottom, in memory or in place."""

from __future__ import annotations

import io
import os
import re
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from notebooks.site.outputs import write_whole

PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_LIMIT_S = 300
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class NotebookFailed(RuntimeError):
    """A cell failed; the message names the notebook, the cell and the reason."""


@dataclass(frozen=True)
class Executed:
    """One notebook after its run: the question and answer of its first cell, and how it went."""

    path: Path
    notebook: Any
    seconds: float

    @property
    def question(self) -> str:
        """The title of the first cell."""
        return _first_cell(self.notebook).splitlines()[0].lstrip("# ").strip()

    @property
    def answer(self) -> str:
        """The first sentence after "Answer" in the first cell."""
        pattern = r"\*\*Answer[.:]\*\*\s+(.+?[.])(?:\s|$)"
        match = re.search(pattern, _first_cell(self.notebook), re.S)
        if match is None:
            raise NotebookFailed(f"{self.path.name}: no '**Answer.** …' sentence in the first cell")
        return " ".join(match.group(1).split())

    @property
    def asserts(self) -> int:
        """How many assert statements its cells hold."""
        code = [cell.source for cell in self.notebook.cells if cell.cell_type == "code"]
        return sum(len(re.findall(r"^\s*assert\b", source, re.M)) for source in code)


def notebook_paths(folder: Path) -> list[Path]:
    """The notebooks of a folder in reading order; NotebookFailed if there is none."""
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise NotebookFailed(f"no notebook in {folder.name}/")
    return paths


def execute(path: Path) -> Executed:
    """Run a notebook in a fresh kernel, in its own folder; the file is not touched."""
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = _read(path)
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    start = time.monotonic()
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as error:
        raise NotebookFailed(_explain(path, notebook, error)) from None
    return Executed(path, notebook, time.monotonic() - start)


def _read(path: Path) -> Any:
    """The notebook without its stored counts, so that a failure tells how far it came."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (ValueError, AttributeError, KeyError) as error:
        raise NotebookFailed(f"{path.name}: not a notebook ({type(error).__name__})") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
    return notebook


def save(run: Executed) -> None:
    """Write the notebook in place, a PNG beside each figure, without anything that varies."""
    notebook = run.notebook
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")  # papermill looks for the tag `parameters`
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)  # without its kernel a dead control
            if PLOTLY in output.get("data", {}):
                output["data"]["image/png"] = png(output["data"][PLOTLY])
    nbformat.validate(notebook)
    write_whole(run.path, nbformat.writes(notebook) + "\n")


def png(figure: dict[str, Any]) -> str:
    """A figure's JSON as base64 of a PNG of 64 colours; needs kaleido, Pillow and a Chromium."""
    import plotly.graph_objects as go
    from PIL import Image

    drawn = go.Figure({"data": figure["data"], "layout": figure["layout"]})
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(drawn.to_image(format="png", scale=1)))
    picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return b64encode(small.getvalue()).decode()


def _first_cell(notebook: Any) -> str:
    return str(notebook.cells[0].source)


def _explain(path: Path, notebook: Any, error: Exception) -> str:
    """Notebook, number of the code cell, its first line and the error's last line."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    done = [i for i, cell in enumerate(code, 1) if cell.execution_count is not None]
    number = done[-1] if done else 1
    source = code[number - 1].source.strip().splitlines() or [""]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    reason = plain.strip().splitlines() or [type(error).__name__]
    return f"{path.name}, code cell {number} ({source[0]!r}): {reason[-1]}"
