"""Recorded runs of SGLang's own engine (data/engine_runs.jsonl), and how to repeat one."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagerbuf._csv import find_data
from eagerbuf.engine.environment import ROOT, known_releases
from eagerbuf.engine.report import OUTCOMES, EngineReport
from eagerbuf.engine.run import run_engine

if TYPE_CHECKING:
    from pandas import DataFrame

FILE = "engine_runs.jsonl"
STUDIES = (
    "documented",  # the deployment of SGLang's documentation: PP 4, chunk 12,288
    "matrix",  # every release x (its own sizing, main's) x (radix cache on, off)
    "configurations",  # what else 0.5.19 does with its radix cache
    "one rank alone",  # a TP rank of stage 0 that fails its profile, its peers do not
    "agreement",  # the same, where the TP ranks of stage 0 agree before they go on
    "small vocabulary",  # probes draw token ids below 10,000
    "batch axis",  # DP attention at full load, an odd number of requests a rank
    "autotune",  # the release's own dummy run through the model
    "other",  # mixed chunks, PP with DP attention, scattered inputs, the benchmark
)


@dataclass(frozen=True)
class RecordedRun:
    """One run: what was asked for, and how it ended.

    `rule`: the sizing put in, None for the release's own; `model`, `switches`: as in `run_engine`
    (a switch's file beside the tests); `requests`: (prompt, output) tokens; `failure`: SGLang's own
    line; `blocked_in`: a rank's tag -> its calls, innermost first; `max_bs`, `max_num_tokens`: the
    sizes of its eager runner's buffers; `seconds`: on two cores, busy ones at times.
    """

    study: str
    release: str
    rule: str | None
    flags: list[str]
    model: dict[str, Any]
    switches: dict[str, Any]
    requests: list[list[int]]
    date: str
    versions: str
    outcome: str
    failure: str | None
    blocked_in: dict[str, str]
    max_bs: int | None
    max_num_tokens: int | None
    seconds: float

    @property
    def radix_cache(self) -> bool:
        """Whether the radix cache was on."""
        return "--disable-radix-cache" not in self.flags

    def again(self, *, stall_s: float = 4.0, limit_s: float = 240.0) -> EngineReport:
        """The same run now; EngineMissing where SGLang is not set up."""
        return run_engine(
            self.release,
            flags=self.flags,
            rule=self.rule,
            requests=self.requests or None,
            model=self.model,
            switches={_at(name): value for name, value in self.switches.items()},
            stall_s=stall_s,
            limit_s=limit_s,
        )


def _at(switch: str) -> str:
    return str(Path(ROOT, switch)) if switch.endswith(".py") else switch


def run_from(line: str) -> RecordedRun:
    """The run of one line of the file; ValueError for what it cannot be."""
    run = RecordedRun(**json.loads(line))
    for name, known in (("study", STUDIES), ("outcome", OUTCOMES), ("release", known_releases())):
        if (value := getattr(run, name)) not in known:
            raise ValueError(f"{name}={value!r}: give one of {', '.join(known)}")
    return run


@cache
def recorded_runs(study: str | None = None) -> tuple[RecordedRun, ...]:
    """The recorded runs, of one study or all; ValueError for a study that there is not."""
    if study not in (None, *STUDIES):
        raise ValueError(f"study={study!r}: give one of {', '.join(STUDIES)}")
    runs = map(run_from, Path(find_data(FILE)).read_text("utf-8").splitlines())
    return tuple(run for run in runs if study in (None, run.study))


def runs_table(study: str | None = None) -> DataFrame:
    """The same as a table: the columns of RecordedRun, and radix_cache."""
    import pandas as pd

    names = [field.name for field in fields(RecordedRun)]
    rows = [
        {name: getattr(run, name) for name in (*names, "radix_cache")}
        for run in recorded_runs(study)
    ]
    return pd.DataFrame(rows, columns=[*names, "radix_cache"])
