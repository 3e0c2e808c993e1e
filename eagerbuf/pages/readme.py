"""The README's table of notebooks and its picture, made from the stored notebooks."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import nbformat

from eagerbuf.outputs import write_whole
from eagerbuf.pages.execute import Executed, NotebookFailed, notebook_paths

PICTURE = "shapes.png"
PICTURED = "03"
START, END = "<!-- notebooks: made by make notebooks -->", "<!-- end of notebooks -->"


def table(folder: Path) -> str:
    """A Markdown table with a row a notebook: its question, and the answer of its first cell."""
    stored = [Executed(p, nbformat.read(p, as_version=4), 0.0) for p in notebook_paths(folder)]
    rows = [
        f"| [{run.path.stem}]({folder.name}/{run.path.name}) | {run.question} | {run.answer} |"
        for run in stored
    ]
    return "\n".join(["| notebook | question | finding |", "|---|---|---|", *rows])


def picture(folder: Path) -> bytes:
    """The PNG of the first figure of the notebook that the README shows."""
    path = next(p for p in notebook_paths(folder) if p.name.startswith(PICTURED))
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return b64decode(output["data"]["image/png"])
    raise NotebookFailed(f"{path.name}: no stored picture; save it with make notebooks")


def refresh(readme: Path, folder: Path) -> None:
    """Write the table between its marks in the README, and the picture beside the notebooks."""
    text = readme.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise NotebookFailed(f"{readme.name}: the marks around the table of notebooks are missing")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    rows, drawn = table(folder), picture(folder)
    write_whole(readme, f"{before}{START}\n{rows}\n{END}{after}")
    write_whole(folder / PICTURE, drawn)
