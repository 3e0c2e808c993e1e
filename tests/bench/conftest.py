"""The trace to replay, the released wheels, and one thread for torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
import pytest
import torch

from eagerbuf import load_requests, sample_requests
from tests.bench.clock import cpu
from tests.upstream import wheels

TRACE = "azure-2023-conversation"
REQUESTS = 19_366  # of that trace
EMPTY: Mapping[str, Any] = MappingProxyType({})
Measure = Callable[..., Any]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _wheels() -> None:
    wheels.fill([wheels.sglang(version) for version in wheels.NEEDED], print)


class Rival:
    """Something else that does the same work, run once before each round of ours."""

    def __init__(self, run: Callable[..., Any], setup: Callable[[], Any] = tuple) -> None:
        self.run, self.setup = run, setup
        self.answer: Any = None
        self.seconds: list[float] = []

    def go(self) -> None:
        given = self.setup()
        start = cpu()
        self.answer = self.run(given)
        self.seconds.append(cpu() - start)


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """Time `run`, and its rivals turn by turn with it; notes what it was, for the table."""

    def timed(
        run: Callable[[], Any], rivals: Mapping[str, Rival] = EMPTY, *, rounds: int, **note: Any
    ) -> Any:
        def others() -> None:
            for rival in rivals.values():
                rival.go()

        answer = benchmark.pedantic(run, setup=others, rounds=rounds, warmup_rounds=1)
        least = {side: min(rival.seconds) for side, rival in rivals.items()}
        benchmark.extra_info.update(note, rivals=least)
        return answer

    return timed


@pytest.fixture(scope="session")
def trace() -> pd.DataFrame:
    """The trace of EAGERBUF_TRACE; without it as many requests, drawn from stored quantiles.

    A CSV of several traces (a column `workload`) gives the one of TRACE.
    """
    path = os.environ.get("EAGERBUF_TRACE", "")
    if not path:
        return sample_requests(TRACE, REQUESTS)
    requests = load_requests(path)
    columns = pd.read_csv(path, nrows=0).columns if path.endswith(".csv") else []
    if "workload" in columns:
        chosen = pd.read_csv(path, usecols=["workload"])["workload"] == TRACE
        requests = requests[chosen.to_numpy()].reset_index(drop=True)
    return requests
