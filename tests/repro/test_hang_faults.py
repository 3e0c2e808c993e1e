"""Faults in the ranks of `run_hang`: whatever befalls whichever rank, the report names it.

A dozen runs by default, 40 with the slow ones; EAGERBUF_FAULTS=500 makes it 500. Every run is
drawn from its number (tests/faults/plan.py). Ranks are killed, frozen and slowed by signals from
outside, as their event logs name the step; one that raises is a rank program of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.drive import Server, carry_out
from tests.faults.expect import SLACK_S, expected, patience_s
from tests.faults.plan import Plan, draw, draw_launcher, unharmed
from tests.faults.seen import KILLED, NOTHING, Run

DOZEN = 12
COUNT = max(DOZEN, int(os.environ.get("EAGERBUF_FAULTS", "40")))
AT_ONCE = 4
BUSY_S = 30.0
SEEDS = [
    pytest.param(seed, id=str(draw(seed)), marks=[pytest.mark.slow] if seed >= DOZEN else [])
    for seed in range(COUNT)
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One process with torch loaded, for all warm runs of this file."""
    served = Server()
    yield served
    left = served.left()
    served.close()
    assert left == []


@pytest.fixture(scope="module")
def runs(request, server, tmp_path_factory) -> Iterator[dict[int, Future[Run]]]:
    """The runs of every selected seed, a few at a time, ahead of the tests that look at them."""
    seeds = [
        item.callspec.params["seed"]
        for item in request.session.items
        if "runs" in getattr(item, "fixturenames", ()) and item.module is request.module
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            seed: pool.submit(start, draw(seed), tmp_path_factory.mktemp("tmp"), server)
            for seed in seeds
        }


def start(plan: Plan, folder: Path, server: Server) -> Run:
    """Carry out a plan, its ranks warm or cold as it says."""
    return carry_out(plan, folder, None if plan.cold else server)


def check(plan: Plan, run: Run, more_s: float = 0.0) -> None:
    """The right outcome, the guilty rank at its step, in time, and nothing left.

    Waiting for a CPU does not count; `more_s` is for a machine that is kept busy on purpose.
    """
    assert run.error == ""
    assert run.left == []
    assert run.report is not None
    wanted, said = expected(plan, run), run.report["text"]
    if wanted.or_completed and run.report["outcome"] == "completed":
        return
    assert run.report["outcome"] == wanted.outcome, said
    blamed = tuple((found["rank"], found["step"]) for found in run.report["culprits"])
    assert blamed == wanted.culprits, said
    assert wanted.reason in run.report["reason"]
    if wanted.by is not None:
        assert run.ended <= wanted.by + patience_s(run) + more_s, said


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_befalls_a_rank_is_named(seed: int, runs: dict[int, Future[Run]]):
    check(draw(seed), runs[seed].result())


@pytest.mark.parametrize("seed", range(3 * 5 * max(1, COUNT // 80)))
def test_nothing_outlives_whoever_called(seed: int, server: Server, tmp_path: Path):
    """The caller is killed, or interrupted once or as by a key held down, at any step."""
    plan = draw_launcher(seed)
    run = carry_out(plan, tmp_path, server)
    assert plan.fault
    if run.report is not None:  # it was through when the signal came
        check(plan, run)
        return
    assert run.fired is not None
    assert run.error == (KILLED if plan.fault.kind == "kill" else "KeyboardInterrupt: ")
    assert run.left == []
    assert run.ended <= run.fired + SLACK_S + patience_s(run)


def test_a_temporary_folder_that_takes_no_file_does_not_matter(server: Server, tmp_path: Path):
    plan = unharmed(0)
    check(plan, carry_out(plan, tmp_path, server, TMPDIR="/proc/self"))


@pytest.mark.parametrize("most_bytes", [0, 100, 3000])
def test_a_full_disk_is_a_crash_of_the_rank_that_meets_it(
    most_bytes: int, server: Server, tmp_path: Path
):
    """No file grows: at once, at the second step, or among the probes."""
    run = carry_out(unharmed(1, most_bytes), tmp_path, server)
    assert (run.error, run.left) == ("", [])
    assert run.report is not None
    assert run.report["outcome"] == "crashed", run.report["text"]
    (blamed,) = run.report["culprits"]
    assert blamed["step"] in (run.ranks[blamed["rank"]].steps() or [NOTHING])
    if most_bytes > 2000:  # room for the traceback
        assert "File too large" in run.report["reason"]


def at_once(plans: list[Plan], folder: Path, server: Server | None) -> list[Run]:
    """The plans carried out all at the same time."""
    folders = [folder / str(plan.seed) for plan in plans]
    for own in folders:
        own.mkdir()
    with ThreadPoolExecutor(len(plans)) as pool:
        return list(pool.map(carry_out, plans, folders, [server] * len(plans)))


@pytest.mark.slow
def test_twenty_runs_at_once_end_each_as_it_should(server: Server, tmp_path: Path):
    plans = [unharmed(seed) for seed in range(20)]
    for plan, run in zip(plans, at_once(plans, tmp_path, server), strict=True):
        check(plan, run, BUSY_S)


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Two processes a core that do nothing but use it, with precedence over the ranks."""
    command = [sys.executable, "-c", "while True: pass"]
    loads = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for load in loads:
        load.kill()
        load.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("busy_cores")
def test_a_slow_machine_changes_no_outcome(server: Server, tmp_path: Path):
    """Runs that complete stay completed, runs that hang stay hangs, while all cores are busy."""
    plans = [unharmed(seed) for seed in range(4)]
    for plan, run in zip(plans, at_once(plans, tmp_path, server), strict=True):
        check(plan, run, BUSY_S)
