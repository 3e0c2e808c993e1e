"""What is made from the stored notebooks: the README's table and picture, and their words."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import nbformat

from eagerbuf.studies.glossary import markdown
from notebooks.site.execute import Executed, NotebookFailed, notebook_paths
from notebooks.site.outputs import write_whole

PICTURE, WORDS = "shapes.png", "README.md"
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
    path = next((p for p in notebook_paths(folder) if p.name.startswith(PICTURED)), None)
    if path is None:
        raise NotebookFailed(f"no notebook {PICTURED} in {folder.name}/, whose figure is shown")
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return b64decode(output["data"]["image/png"])
    raise NotebookFailed(f"{path.name}: no stored picture; save it with make notebooks")


def refresh(readme: Path, folder: Path) -> None:
    """Write the table between its marks in the README; picture and words beside the notebooks."""
    before, after = _around(readme)
    rows, drawn = table(folder), picture(folder)
    write_whole(readme, f"{before}{START}\n{rows}\n{END}{after}")
    write_whole(folder / PICTURE, drawn)
    write_whole(folder / WORDS, markdown())


def _around(readme: Path) -> tuple[str, str]:
    """What stands before and after the table."""
    text = readme.read_text(encoding="utf-8")
    if text.count(START) != 1 or text.count(END) != 1 or text.index(END) < text.index(START):
        raise NotebookFailed(
            f"{readme.name}: the table of notebooks needs its two marks, each once: {START} {END}"
        )
    before, rest = text.split(START)
    return before, rest.split(END)[1]
