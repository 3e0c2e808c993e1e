"""Record the batches of the named deployments anew: `python -m eagerbuf.studies.recording`."""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagerbuf.engine.environment import ROOT
from eagerbuf.engine.record import batches_of, serve_and_record
from eagerbuf.engine.report import EngineReport
from eagerbuf.engine.run import Lists
from eagerbuf.simulate.workloads import workload_names
from eagerbuf.studies.deployments import find_deployment
from eagerbuf.studies.recorded import (
    BATCHES,
    RUNS,
    SETUPS,
    SHAPE,
    START_UP,
    STATIC,
    Setup,
    served,
)

if TYPE_CHECKING:
    from pandas import DataFrame

SMOOTH = "SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR"

MOST_OUTPUT = 64  # tokens of a request; longer outputs repeat the same decode batches
LIMIT_S = 900.0


def main(argv: Sequence[str] | None = None) -> int:
    """Record the named deployments, or those whose names contain a word given, and write both."""
    parser = argparse.ArgumentParser(
        prog="python -m eagerbuf.studies.recording", description=__doc__
    )
    parser.add_argument("words", nargs="*", help="of a deployment's name; all by default")
    parser.add_argument("--into", type=Path, default=ROOT / "data", help="a folder")
    asked = parser.parse_args(argv)
    chosen = [s for s in SETUPS if not asked.words or any(w in s.deployment for w in asked.words)]
    for setup in chosen:
        write(asked.into, setup, record(setup))
    return 0


def record(setup: Setup, release: str = "0.5.14") -> EngineReport:
    """Serve all workloads, one after the other, in one run of the deployment."""
    deployment = find_deployment(setup.deployment)
    smooth = {} if deployment.smooth_factor is None else {SMOOTH: str(deployment.smooth_factor)}
    os.environ.update(smooth)
    try:
        return serve_and_record(
            Lists(
                served(setup.deployment, workload, setup.requests, MOST_OUTPUT)
                for workload in workload_names()
            ),
            release,
            flags=setup.flags.split(),
            model=setup.model,
            limit_s=LIMIT_S,
        )
    finally:
        for name in smooth:
            del os.environ[name]


def write(folder: Path, setup: Setup, report: EngineReport) -> None:
    """Put a run's batches into both tables, in place of those of the same deployment."""
    frame = batches_of(report)
    fit = frame.attrs["model"]
    unfitted = not fit and find_deployment(setup.deployment).config.profiles
    workloads = [START_UP, *workload_names()]
    runs = [
        {
            "deployment": setup.deployment,
            "workload": workloads[number],
            "requests": setup.requests if number else None,
            "most_output": MOST_OUTPUT if number else None,
            "scaled": setup.scaled + (STATIC if unfitted else ""),
            **fit,
            "release": report.release,
            "date": datetime.now(timezone.utc).date().isoformat(),
            "source": "python -m eagerbuf.studies.recording",
            "rows": _in_runs(part),
        }
        for number, part in frame.groupby("requests")
    ]
    kept = [row for row in _stored(folder) if row["deployment"] != setup.deployment]
    order = [each.deployment for each in SETUPS]
    _store(folder, sorted(kept + runs, key=lambda row: order.index(row["deployment"])))


def _in_runs(part: DataFrame) -> list[list[Any]]:
    """Each rank's batches in order, equal ones that follow each other as one row."""
    rows = part.sort_values(["rank", "step"], kind="stable")[["rank", *SHAPE]]
    return [
        [*row, len(list(same))] for row, same in groupby(rows.itertuples(index=False, name=None))
    ]


def _stored(folder: Path) -> list[dict[str, Any]]:
    if not (folder / "recorded_runs.csv").exists():
        return []
    with (folder / "recorded_runs.csv").open(newline="") as runs_file:
        runs = list(csv.DictReader(runs_file))
    with (folder / "recorded_batches.csv").open(newline="") as batches_file:
        batches = list(csv.reader(batches_file))[1:]
    return [{**run, "rows": [row[1:] for row in batches if row[0] == run["run"]]} for run in runs]


def _store(folder: Path, runs: list[dict[str, Any]]) -> None:
    with (folder / "recorded_runs.csv").open("w", newline="") as runs_file:
        writer = csv.DictWriter(runs_file, RUNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**run, "run": number} for number, run in enumerate(runs, 1))
    with (folder / "recorded_batches.csv").open("w", newline="") as batches_file:
        lines = csv.writer(batches_file, lineterminator="\n")
        lines.writerow(BATCHES)
        lines.writerows([number, *row] for number, run in enumerate(runs, 1) for row in run["rows"])


if __name__ == "__main__":
    sys.exit(main())
