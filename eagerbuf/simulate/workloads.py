"""Requests to replay: lengths sampled from four public traces, or read from a trace file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from eagerbuf._csv import Row, decimal, rows, text, whole
from eagerbuf._data import data_path
from eagerbuf.simulate.traces import load_requests

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray
    from pandas import DataFrame

__all__ = ["Workload", "load_requests", "load_workloads", "sample_requests", "workload_names"]

COUNT = whole(1, 999_999_999)
SCHEMA = {
    "workload": text,
    "requests": COUNT,
    "duration_s": COUNT,
    "quantile": decimal(0, 1),
    "prompt_tokens": COUNT,
    "output_tokens": COUNT,
    "source": text,
}
TOKENS = ("prompt_tokens", "output_tokens")
SAME = ("requests", "duration_s", "source")
QUANTILES = tuple(round(0.005 * i, 3) for i in range(201))
MAX_SAMPLES = 10_000_000


@dataclass(frozen=True)
class Workload:
    """One trace: `requests` seen in `duration_s` seconds, and token counts at QUANTILES.

    `source` is the trace's own file.
    """

    name: str
    requests: int
    duration_s: int
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    source: str = ""

    @property
    def rate(self) -> float:
        """Mean arrivals in requests a second."""
        return self.requests / self.duration_s


def load_workloads(path: Path) -> dict[str, Workload]:
    """The workloads of a quantile table, by name; ValueError with file, line and reason.

    Each has one row for each of QUANTILES, in order, with token counts that never fall and the
    same `requests`, `duration_s` and `source` in all of them.
    """
    found: dict[str, list[Row]] = {}
    for row in rows(path.read_bytes(), path.name, SCHEMA):
        found.setdefault(row.values["workload"], []).append(row)
    return {name: _workload(name, group) for name, group in found.items()}


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


def _workload(name: str, group: list[Row]) -> Workload:
    for problem in _problems(name, group):
        raise ValueError(problem)
    first = group[0].values
    prompts, outputs = (tuple(row.values[column] for row in group) for column in TOKENS)
    return Workload(name, first["requests"], first["duration_s"], prompts, outputs, first["source"])


def _problems(name: str, group: list[Row]) -> Iterator[str]:
    """What is wrong with the rows of one workload, each with its line."""
    for row, expected in zip(group, QUANTILES, strict=False):
        if row.values["quantile"] != expected:
            yield f"{row.where}: quantile of {name} must be {expected}, the next of 0 to 1"
    if len(group) != len(QUANTILES):
        yield f"{group[-1].where}: {name} has {len(group)} quantiles, not {len(QUANTILES)}"
    for before, row in pairwise(group):
        if any(row.values[column] != before.values[column] for column in SAME):
            yield f"{row.where}: {', '.join(SAME)} of {name} must stay the same"
        for column in TOKENS:
            if row.values[column] < before.values[column]:
                yield f"{row.where}: {column}={row.values[column]} is less than the row before"
