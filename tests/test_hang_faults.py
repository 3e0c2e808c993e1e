"""Faults in the ranks of `run_hang`: whatever befalls whichever rank, the report names it.

A dozen runs by default, 40 with the slow ones; EAGERBUF_FAULTS=500 makes it 500. Every run is
drawn from its number (tests/faults/plan.py). Ranks are killed, frozen and slowed by signals from
outside, as their journals name the step; one that raises is a rank program of the tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.drive import Run, Server, carry_out
from tests.faults.expect import expected
from tests.faults.plan import Plan, draw

DOZEN = 12
COUNT = max(DOZEN, int(os.environ.get("EAGERBUF_FAULTS", "40")))
AT_ONCE = 4
SEEDS = [
    pytest.param(seed, id=str(draw(seed)), marks=[pytest.mark.slow] if seed >= DOZEN else [])
    for seed in range(COUNT)
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One process with torch loaded, for all warm runs of this file."""
    served = Server()
    yield served
    served.close()


@pytest.fixture(scope="module")
def runs(request, server, tmp_path_factory) -> Iterator[dict[int, Future[Run]]]:
    """The runs of every selected seed, a few at a time, ahead of the tests that look at them."""
    seeds = [
        item.callspec.params["seed"]
        for item in request.session.items
        if item.module is request.module and "seed" in item.fixturenames
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            seed: pool.submit(start, draw(seed), tmp_path_factory.mktemp("tmp"), server)
            for seed in seeds
        }


def start(plan: Plan, folder: Path, server: Server) -> Run:
    """Carry out a plan, its ranks warm or cold as it says."""
    return carry_out(plan, folder, None if plan.cold else server)


def check(plan: Plan, run: Run) -> None:
    """The right outcome, the guilty rank at its step, in time, and nothing left."""
    assert run.error == ""
    assert run.left == []
    assert run.report is not None
    wanted, said = expected(plan, run), run.report["text"]
    assert run.report["outcome"] == wanted.outcome, said
    blamed = tuple((found["rank"], found["step"]) for found in run.report["culprits"])
    assert blamed == wanted.culprits, said
    assert wanted.reason in run.report["reason"]
    if wanted.by is not None:
        assert run.ended <= wanted.by, said


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_befalls_a_rank_is_named(seed: int, runs: dict[int, Future[Run]]):
    check(draw(seed), runs[seed].result())
