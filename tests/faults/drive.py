"""Start runs, warm or cold, and let their faults happen when their time has come."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.faults.launcher import waited_s
from tests.faults.plan import LAUNCHER, Fault, Plan
from tests.faults.seen import Rank, Run, alive, left_of

HOME = Path(__file__).resolve().parent.parent.parent
TICK_S = 0.003
PRESSES = 6
LONGEST_RUN_S = 300.0
SLOW_S, STOPPED_S, RUNNING_S = 2.0, 0.15, 0.05  # a slow rank: how long, and its turns


class Server:
    """The process that has loaded torch and forks a launcher, warm, for each run."""

    def __init__(self) -> None:
        self.jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = _start("serve", theirs)

    def left(self) -> list[int]:
        """Its living descendants; to it fall the ranks of a launcher that is gone."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in children if alive(child.pid)]

    def close(self) -> None:
        """Let it end, and every launcher that it still has."""
        self.jobs.close()
        self.process.wait(10)


def _start(how: str, jobs: socket.socket) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.launcher", how]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdin=jobs, cwd=HOME, env=env)
    jobs.close()
    return process


@contextmanager
def started(plan: Plan, folder: Path, server: Server | None, **env: str) -> Iterator[Run]:
    """Start a run in a temporary folder of its own: warm from `server`, cold without one."""
    raising = plan.fault.to_dict() if plan.fault and plan.fault.kind == "raise" else None
    job = {"arguments": plan.arguments, "raising": raising, "most_bytes": plan.most_bytes}
    job["env"] = {"TMPDIR": str(folder)} | env
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    jobs, cold = (server.jobs, None) if server else _cold()
    socket.send_fds(jobs, [json.dumps(job).encode()], [theirs.fileno()])
    theirs.close()
    run = Run(line, folder)
    try:
        yield run
    finally:
        run.close()
        if cold is not None:
            cold.kill()
            cold.wait()
            jobs.close()


def _cold() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return jobs, _start("run", theirs)


def carry_out(plan: Plan, folder: Path, server: Server | None, **env: str) -> Run:
    """One run from its start to its end, with its fault; what was left when it had reported."""
    with started(plan, folder, server, **env) as run:
        waited = waited_s()
        inject(run, plan.fault)
        run.watch_waited_s = waited_s() - waited
        run.left = left_of(run)
        return run


def inject(run: Run, fault: Fault | None) -> None:
    """Wait for the fault's step, let it happen, and wait for the run's end."""
    until = time.monotonic() + LONGEST_RUN_S
    from_outside = fault is not None and fault.kind != "raise"
    while run.ended is None:
        assert time.monotonic() < until, "the run does not end"
        run.hear(TICK_S if from_outside and run.fired is None else 0.3)
        if fault and from_outside and not (run.fired or run.ended) and _due(run, fault):
            _hit(run, fault)


def _due(run: Run, fault: Fault) -> bool:
    if not {fault.rank, fault.seen_by} - {LAUNCHER} <= run.ranks.keys():
        return False
    steps = [s for s in run.ranks[fault.seen_by].steps() if s.startswith(fault.at)]
    return not fault.at or len(steps) > fault.nth


def _hit(run: Run, fault: Fault) -> None:
    run.fired = time.monotonic()
    if fault.rank == LAUNCHER:
        _hit_launcher(run, fault.kind)
        return
    rank = run.ranks[fault.rank]
    if fault.kind == "slow":
        _slow(run, rank)
        return
    rank.signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
    _await_effect(rank.pid)
    run.step_at_fault = rank.last_step()[0]
    run.late = run.all_done()


def _hit_launcher(run: Run, kind: str) -> None:
    assert run.launcher
    for _ in range(PRESSES if kind == "interrupts" else 1):
        run.launcher.signal(signal.SIGKILL if kind == "kill" else signal.SIGINT)
        run.hear(TICK_S)


def _await_effect(pid: int) -> None:
    """Wait until a signal has stopped or ended the process."""
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
                continue
        return
    raise AssertionError(f"process {pid} neither stopped nor ended")


def _slow(run: Run, rank: Rank) -> None:
    """Give the rank a quarter of the time for a while, or to the run's end."""
    until = time.monotonic() + SLOW_S
    while run.ended is None and time.monotonic() < until:
        stopped = time.monotonic()
        rank.signal(signal.SIGSTOP)
        run.hear(STOPPED_S)
        before = rank.ran()
        rank.signal(signal.SIGCONT)
        run.hear(RUNNING_S)
        while run.ended is None and rank.ran() == before:  # on a busy machine its turn comes late
            run.hear(RUNNING_S)
        run.longest_stop_s = max(run.longest_stop_s, time.monotonic() - stopped)
    run.slow_until = time.monotonic()
