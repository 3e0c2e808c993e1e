"""Requests to replay: lengths sampled from four public traces, or read from a trace file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eagerbuf._csv import table
from eagerbuf.simulate.traces import load_requests

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray
    from pandas import DataFrame

__all__ = ["Workload", "load_requests", "sample_requests", "workload_names"]

SCHEMA = {
    "workload": str,
    "requests": int,
    "duration_s": int,
    "quantile": float,
    "prompt_tokens": int,
    "output_tokens": int,
    "source": str,
}
TOKENS = ("prompt_tokens", "output_tokens")
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


@cache
def _workloads() -> dict[str, Workload]:
    """The workloads that ship with the package, by name: a row for each of QUANTILES."""
    rows = table("workload_quantiles.csv", SCHEMA)
    return {
        name: _workload(name, list(own)) for name, own in groupby(rows, lambda r: r["workload"])
    }


def _workload(name: str, rows: list[dict[str, Any]]) -> Workload:
    prompts, outputs = (
        tuple(row[f"{kind}_tokens"] for row in rows) for kind in ("prompt", "output")
    )
    same = {column: rows[0][column] for column in ("requests", "duration_s", "source")}
    return Workload(name, prompt_tokens=prompts, output_tokens=outputs, **same)


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
