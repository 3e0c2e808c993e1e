"""`python -m tests.bench RECORD FOLDER`: from pytest-benchmark's record to table and figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from notebooks.site.outputs import write_whole
from tests.bench.figure import cost_of_work
from tests.bench.table import measured, report


def main(record: str, folder: str) -> None:
    """Print the table; write bench.md, bench.csv and bench.html to `folder`."""
    rows, target = measured(json.loads(Path(record).read_text("utf-8"))), Path(folder)
    text = report(rows)
    print(text)
    write_whole(target / "bench.md", text + "\n")
    write_whole(target / "bench.csv", rows.to_csv(index=False, lineterminator="\n"))
    write_whole(target / "bench.html", cost_of_work(rows).to_html(include_plotlyjs=True))
    print(f"\nwritten: bench.md, bench.csv, bench.html in {target.name}/")


if __name__ == "__main__":
    main(*sys.argv[1:])
