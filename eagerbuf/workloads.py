"""Requests to replay: lengths sampled from four public traces, or read from a trace file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from eagerbuf._data import data_path
from eagerbuf.traces import load_requests

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray
    from pandas import DataFrame

__all__ = ["Workload", "load_requests", "load_workloads", "sample_requests", "workload_names"]

COLUMNS = ("workload", "requests", "duration_s", "quantile", "prompt_tokens", "output_tokens")
QUANTILES = tuple(round(0.005 * i, 3) for i in range(201))
MAX_SAMPLES = 10_000_000


@dataclass(frozen=True)
class Workload:
    """One trace: `requests` seen in `duration_s` seconds, and token counts at QUANTILES."""

    name: str
    requests: int
    duration_s: int
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    @property
    def rate(self) -> float:
        """Mean arrivals in requests a second."""
        return self.requests / self.duration_s


def load_workloads(path: Path) -> dict[str, Workload]:
    """The workloads of a quantile table, by name; ValueError with file, line and reason.

    Each has one row for each of QUANTILES, in order, with token counts that never fall and the
    same `requests` and `duration_s` in all of them.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path.name}, line 1: columns must be {','.join(COLUMNS)}")
        found: dict[str, list[_Row]] = {}
        for row in reader:
            parsed = _row(row, f"{path.name}, line {reader.line_num}")
            found.setdefault(parsed.name, []).append(parsed)
    if not found:
        raise ValueError(f"{path.name}: no workload in it")
    return {name: _workload(rows) for name, rows in found.items()}


@cache
def _workloads() -> dict[str, Workload]:
    return load_workloads(data_path("workload_quantiles.csv"))


def workload_names() -> tuple[str, ...]:
    """Names of the workloads that `sample_requests` knows."""
    return tuple(_workloads())


def sample_requests(workload: str, n: int, *, seed: int = 0) -> DataFrame:
    """`n` requests like those of `workload`: prompt_tokens, output_tokens, arrival_s (seconds).

    Lengths are drawn through the inverse of the stored quantiles, interpolated between them and
    rounded to whole tokens; prompt and output independently, since the table keeps no joint
    distribution. Arrivals are Poisson at the trace's mean rate. The same seed gives the same
    requests, and a smaller `n` the first of them. ValueError for an unknown workload, or `n`
    outside 1 to 10 million.
    """
    import numpy as np
    import pandas as pd

    known = _workloads()
    if workload not in known:
        raise ValueError(f"workload={workload!r}: unknown, give one of {', '.join(known)}")
    if not 1 <= n <= MAX_SAMPLES:
        raise ValueError(f"n={n}: give 1 to {MAX_SAMPLES} requests")
    source = known[workload]
    prompts, outputs, gaps = (
        np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(3)
    )
    arrivals = gaps.exponential(1 / source.rate, n).cumsum()
    return pd.DataFrame(
        {
            "prompt_tokens": _inverse(prompts.random(n), source.prompt_tokens),
            "output_tokens": _inverse(outputs.random(n), source.output_tokens),
            "arrival_s": arrivals.round(6),
        }
    )


def _inverse(uniform: NDArray[float64], tokens: tuple[int, ...]) -> NDArray[int64]:
    """Token counts at the given quantiles, between the stored ones by linear interpolation."""
    import numpy as np

    return np.rint(np.interp(uniform, QUANTILES, tokens)).astype(np.int64)


@dataclass(frozen=True)
class _Row:
    where: str
    name: str
    requests: int
    duration_s: int
    quantile: float
    prompt_tokens: int
    output_tokens: int


def _row(row: dict[str, str], where: str) -> _Row:
    if None in row or None in row.values():
        raise ValueError(f"{where}: must have {len(COLUMNS)} fields")
    if not row["workload"]:
        raise ValueError(f"{where}: workload is empty")
    counts = {name: _count(row, name, where) for name in COLUMNS[1:3] + COLUMNS[4:]}
    try:
        quantile = float(row["quantile"])
    except ValueError:
        quantile = math.nan
    return _Row(where, row["workload"], quantile=quantile, **counts)


def _count(row: dict[str, str], name: str, where: str) -> int:
    text = row[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= 1):
        raise ValueError(f"{where}: {name}={text!r} must be a whole number of 1 to 999999999")
    return int(text)


def _workload(rows: list[_Row]) -> Workload:
    for problem in _problems(rows):
        raise ValueError(problem)
    first = rows[0]
    prompts, outputs = (tuple(getattr(row, name) for row in rows) for name in COLUMNS[4:])
    return Workload(first.name, first.requests, first.duration_s, prompts, outputs)


def _problems(rows: list[_Row]) -> Iterator[str]:
    """What is wrong with the rows of one workload, each with its line."""
    for row, expected in zip(rows, QUANTILES, strict=False):
        if row.quantile != expected:
            yield f"{row.where}: quantile of {row.name} must be {expected}, the next of 0 to 1"
    if len(rows) != len(QUANTILES):
        yield f"{rows[-1].where}: {row.name} has {len(rows)} quantiles, not {len(QUANTILES)}"
    for before, row in pairwise(rows):
        if (row.requests, row.duration_s) != (before.requests, before.duration_s):
            yield f"{row.where}: requests and duration_s of {row.name} must stay the same"
        for name in COLUMNS[4:]:
            if getattr(row, name) < getattr(before, name):
                yield f"{row.where}: {name}={getattr(row, name)} is less than the row before"
