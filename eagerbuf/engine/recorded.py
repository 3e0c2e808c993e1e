"""Runs of SGLang's own engine that were recorded (data/engine_runs.csv), and how to repeat one."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagerbuf._csv import Reads, maybe, table
from eagerbuf.engine.environment import ROOT
from eagerbuf.engine.report import OUTCOMES, EngineReport
from eagerbuf.engine.run import run_engine

if TYPE_CHECKING:
    from pandas import DataFrame

STUDIES = (
    "matrix",  # every release x (its own sizing, main's) x (radix cache on, off)
    "configurations",  # what else 0.5.19 does with its radix cache
    "one rank alone",  # a TP rank of stage 0 that fails its profile, its peers do not
    "agreement",  # the same, where the TP ranks of stage 0 agree before they go on
    "small vocabulary",  # probes draw token ids below 10,000
    "batch axis",  # DP attention at full load, an odd number of requests a rank
    "autotune",  # the release's own dummy run through the model
    "other",  # mixed chunks, PP with DP attention, scattered inputs, the benchmark
)


def _study(field: str) -> str:
    if field not in STUDIES:
        raise ValueError(f"{field!r} is no study, give one of {', '.join(STUDIES)}")
    return field


def _outcome(field: str) -> str:
    if field not in OUTCOMES:
        raise ValueError(f"{field!r} is no outcome, give one of {', '.join(OUTCOMES)}")
    return field


def _words(field: str) -> tuple[str, ...]:
    return tuple(shlex.split(field))


def _pairs(field: str) -> tuple[tuple[int, int], ...]:
    """Prompt and output tokens of each request, as "1000:8 30:8"; "14*20:24" for 14 alike."""
    found: list[tuple[int, int]] = []
    for word in field.split():
        count, _, pair = word.rpartition("*")
        prompt, output = pair.split(":")
        found += [(int(prompt), int(output))] * int(count or 1)
    return tuple(found)


SCHEMA: dict[str, Reads] = {
    "study": _study,
    "release": str,
    "rule": maybe(str),
    "flags": _words,
    "model": lambda field: dict(json.loads(field or "{}")),
    "switches": lambda field: dict(json.loads(field or "{}")),
    "requests": _pairs,
    "date": str,
    "versions": str,
    "outcome": _outcome,
    "failure": maybe(str),
    "blocked_in": lambda field: dict(json.loads(field or "{}")),
    "max_bs": maybe(int),
    "max_num_tokens": maybe(int),
    "seconds": float,
}


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
    flags: tuple[str, ...]
    model: dict[str, Any]
    switches: dict[str, Any]
    requests: tuple[tuple[int, int], ...]
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


@cache
def recorded_runs(study: str | None = None) -> tuple[RecordedRun, ...]:
    """The recorded runs, of one study or all; ValueError for a study there is none of."""
    if study is not None:
        _study(study)
    runs = (RecordedRun(**row) for row in table("engine_runs.csv", SCHEMA))
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
