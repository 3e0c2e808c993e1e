"""`python -m notebooks.site run|save`: what `make run` and `make notebooks` call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from notebooks.site.execute import Executed, NotebookFailed, execute, notebook_paths, save

AT_ONCE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks; 1 and one line on stderr if a cell fails."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.site", description=__doc__)
    parser.add_argument("action", choices=("run", "save"))
    parser.add_argument("--notebooks", type=Path, default=Path("notebooks"))
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("only", nargs="*", help="numbers of notebooks, all by default")
    options = parser.parse_args(arguments)
    try:
        runs = _run(options.notebooks, options.only, keep=options.action == "save")
        if options.action == "run":
            from notebooks.site.html import write_pages

            _tell(runs, write_pages(runs, options.build))
        else:
            from notebooks.site.readme import refresh

            refresh(options.notebooks.parent / "README.md", options.notebooks)
    except NotebookFailed as failure:
        print(f"notebooks: {failure}", file=sys.stderr)
        return 1
    return 0


def _run(folder: Path, only: list[str], *, keep: bool) -> list[Executed]:
    paths = [p for p in notebook_paths(folder) if not only or p.name[:2] in only]
    if not paths:
        raise NotebookFailed(f"{', '.join(only)}: no such notebook in {folder.name}/")
    print(f"running {len(paths)} notebooks, {1 if keep else AT_ONCE} at a time", flush=True)
    runs = []
    for number, run in enumerate(_executed(paths, 1 if keep else AT_ONCE), 1):
        if keep:
            save(run)
        cells = sum(cell.cell_type == "code" for cell in run.notebook.cells)
        print(
            f"[{number}/{len(paths)}] {run.path.name}: {cells} cells, {run.asserts} asserts hold, "
            f"{run.seconds:.0f} s",
            flush=True,
        )
        runs.append(run)
    return runs


def _executed(paths: list[Path], at_once: int) -> Iterator[Executed]:
    """Notebooks in reading order, run `at_once` at a time: much of a run is waiting for ranks."""
    if at_once == 1:
        yield from map(execute, paths)
        return
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        started = {p: pool.submit(execute, p) for p in sorted(paths, key=_live_cells)[::-1]}
        try:
            for path in paths:
                yield started[path].result()
        finally:
            pool.shutdown(cancel_futures=True)


def _live_cells(path: Path) -> int:
    """How many cells run something live: they take longest, so those notebooks start first."""
    return path.read_text(encoding="utf-8").count("NBVAL_IGNORE_OUTPUT")


def _tell(runs: list[Executed], index: Path) -> None:
    print()
    for run in runs:
        print(f"{run.path.stem}\n  {run.question}\n  {run.answer}")
    print(f"\nPages: {index} and {', '.join(r.path.stem + '.html' for r in runs)}")


if __name__ == "__main__":
    sys.exit(main())
