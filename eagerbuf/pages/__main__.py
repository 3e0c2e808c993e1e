"""`python -m eagerbuf.pages run|save`: what `make run` and `make notebooks` call."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eagerbuf.pages.execute import Executed, NotebookFailed, execute, notebook_paths, save


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks; 1 and one line on stderr if a cell fails."""
    parser = argparse.ArgumentParser(prog="python -m eagerbuf.pages", description=__doc__)
    parser.add_argument("action", choices=("run", "save"))
    parser.add_argument("--notebooks", type=Path, default=Path("notebooks"))
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("only", nargs="*", help="numbers of notebooks, all by default")
    options = parser.parse_args(arguments)
    try:
        runs = _run(options.notebooks, options.only, keep=options.action == "save")
        if options.action == "run":
            from eagerbuf.pages.html import write_pages

            _tell(runs, write_pages(runs, options.build))
        else:
            from eagerbuf.pages.readme import refresh

            refresh(options.notebooks.parent / "README.md", options.notebooks)
    except NotebookFailed as failure:
        print(f"notebooks: {failure}", file=sys.stderr)
        return 1
    return 0


def _run(folder: Path, only: list[str], *, keep: bool) -> list[Executed]:
    paths = [p for p in notebook_paths(folder) if not only or p.name[:2] in only]
    if not paths:
        raise NotebookFailed(f"{', '.join(only)}: no such notebook in {folder.name}/")
    runs = []
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {path.name} …", end=" ", flush=True)
        run = execute(path)
        if keep:
            save(run)
        cells = sum(cell.cell_type == "code" for cell in run.notebook.cells)
        print(f"{cells} cells, {run.asserts} asserts hold, {run.seconds:.0f} s", flush=True)
        runs.append(run)
    return runs


def _tell(runs: list[Executed], index: Path) -> None:
    print()
    for run in runs:
        print(f"{run.path.stem}\n  {run.question}\n  {run.answer}")
    print(f"\nPages: {index} and {', '.join(r.path.stem + '.html' for r in runs)}")


if __name__ == "__main__":
    sys.exit(main())
