"""What the notebook on the releases shows: live where a wheel is cached, else as recorded here.

`python -m tests.upstream.evidence` records it anew; all releases must be cached for that
(`python -m tests.upstream fill --all`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from eagerbuf.engine.stacks import relative
from eagerbuf.repro.hang import HangReport
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.status import WorkerStatus
from notebooks.site.outputs import write_whole
from tests.upstream import facts, wheels
from tests.upstream.compare import run
from tests.upstream.formulas import formulas
from tests.upstream.startup import SIZES, run_released
from tests.upstream.wheels import FLASHINFER, NEEDED, Wheel, WheelMissing, sglang

FOLDER = Path(__file__).parent / "recorded"
RUNS = ("0.5.14 old", "0.5.14 released", "0.5.23 old")  # release and size of the static buffers
COMPARED = (*map(sglang, NEEDED), FLASHINFER)
CASES = 300  # of each formula


def sources() -> str:
    """Which releases are read and run live, in one line."""
    known = list(map(sglang, wheels.known_releases()))
    live = [wheel.version for wheel in known if wheel.cached]
    if not live:
        return "no released wheel is cached (make upstream gets them): all results are recorded"
    return f"live from the wheels of {', '.join(live)}; {len(known) - len(live)} releases recorded"


def start_up(release: str, size: str) -> HangReport:
    """Two ranks through the released start-up, now; without the wheel the recorded run."""
    if sglang(release).cached:
        return run_released(release, size)
    return _report(json.loads((FOLDER / "runs.json").read_text("utf-8"))[f"{release} {size}"])


def matrix() -> DataFrame:
    """One row a release, as `facts.row` reads it from the wheel.

    And how the start-up of two ranks ended when it was recorded, with buffers of the old and of
    the release's own size (`old_size`, `released_size`; empty without an eager runner); without a
    radix cache, which 0.5.19 hangs with (`radix_cache_fails_profile`).
    """
    rows = recorded("matrix").set_index("release", drop=False)
    for wheel in map(sglang, rows.release):
        if wheel.cached:
            rows.loc[wheel.version] = pd.Series(facts.row(wheel))
    ended = recorded("start_ups").pivot(index="release", columns="size", values="outcome")
    return rows.join(ended.add_suffix("_size")).fillna("").reset_index(drop=True)


def listed() -> DataFrame:
    """The same releases as data/releases.csv lists them, to hold the matrix against."""
    return DataFrame([row for row in wheels.releases() if row["release"][0].isdigit()])


def comparisons() -> DataFrame:
    """Ours against theirs on a few hundred seeded cases: columns formula, wheel, cases, differ."""
    rows = recorded("comparisons").astype({"cases": int, "differ": int})
    live = {str(wheel): list(_compared(wheel)) for wheel in COMPARED if wheel.cached}
    now = DataFrame([row for found in live.values() for row in found], columns=rows.columns)
    return pd.concat([rows[~rows.wheel.isin(live)], now], ignore_index=True)


def differences() -> DataFrame:
    """The same as a table: a row a formula, a column a wheel, "0 of 300" where none differs."""
    rows = comparisons()
    shown = rows.assign(shown=rows.differ.astype(str) + " of " + rows.cases.astype(str))
    table = shown.pivot(index="formula", columns="wheel", values="shown")
    names = {str(wheel): str(wheel).removeprefix("sglang ") for wheel in COMPARED}
    return table[list(names)].rename(columns=names).fillna("")


def recorded(name: str) -> DataFrame:
    """A recorded table, every cell as text."""
    return pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)


def _compared(wheel: Wheel) -> Iterator[dict[str, Any]]:
    for comparison in formulas(wheel):
        outcome = run(comparison, wheel, CASES)
        first, *others = comparison.name.partition(":")[0].split(", ")
        name = f"{first} and {len(others)} more" if others else first
        counts = {"cases": outcome.cases, "differ": outcome.differ}
        yield {"formula": name, "wheel": str(wheel), **counts}


def _report(held: dict[str, Any]) -> HangReport:
    statuses = tuple(WorkerStatus(**seen) for seen in held["statuses"])
    return HangReport(held["outcome"], held["seconds"], Settings(**held["settings"]), statuses)


def _held(report: HangReport) -> dict[str, Any]:
    """A run without anything that belongs to one machine, its journal marked as recorded."""
    seen = [_lasting(sighting) for sighting in report.statuses]
    for line in (line for sighting in seen for line in sighting["lines"]):
        line["t"] = round(line["t"], 3)
        if "program" in line.get("note", {}):
            line["note"]["program"] += ", recorded"
    ended = {"outcome": report.outcome, "seconds": round(report.seconds, 3)}
    return ended | {"settings": asdict(report.settings), "statuses": seen}


def _lasting(sighting: WorkerStatus) -> dict[str, Any]:
    stack = relative(sighting.stack)
    return asdict(replace(sighting, now=round(sighting.now, 3), stack=stack, stderr=""))


def main() -> int:
    """Record everything anew: the matrix, the comparisons and the start-up of every release."""
    releases = list(map(sglang, wheels.known_releases()))
    missing = [str(wheel) for wheel in (*releases, FLASHINFER) if not wheel.cached]
    if missing:
        raise WheelMissing(f"not cached: {', '.join(missing)}")
    FOLDER.mkdir(exist_ok=True)
    _write("matrix", [facts.row(wheel) for wheel in releases])
    _write("comparisons", [row for wheel in COMPARED for row in _compared(wheel)])
    runs = dict(_start_ups([wheel.version for wheel in releases if facts.eager_runner(wheel)]))
    _write("start_ups", [_ended(name, report) for name, report in runs.items()])
    held = {name: _held(runs[name]) for name in RUNS}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in held.items())
    write_whole(FOLDER / "runs.json", "{\n" + ",\n".join(lines) + "\n}\n")
    return 0


def _start_ups(versions: list[str]) -> Iterator[tuple[str, HangReport]]:
    for version in versions:
        for size in SIZES:
            report = run_released(version, size)
            print(f"{version}, {size} size: {report.outcome}", file=sys.stderr, flush=True)
            yield f"{version} {size}", report


def _ended(name: str, report: HangReport) -> dict[str, Any]:
    release, size = name.split()
    on = int(report.model.enabled.fillna(False).sum())
    return {
        "release": release,
        "size": size,
        "outcome": report.outcome,
        "ranks_with_dynamic_chunking": on,
        "probes": len(report.samples),
        "failure": report.failure or "",
    }


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    write_whole(FOLDER / f"{name}.csv", DataFrame(rows).to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    sys.exit(main())
