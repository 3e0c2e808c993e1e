"""Runs seen from outside: what their ranks wrote, when the fault came, and what was left."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.launcher import LONGEST
from tests.faults.plan import Fault, Plan

HOME = Path(__file__).resolve().parent.parent.parent
TICK_S = 0.003
LONGEST_RUN_S = 300.0
NOTHING = "not started"
SLOW_S, STOPPED_S, RUNNING_S = 2.0, 0.15, 0.05  # a slow rank: how long, and its turns


@dataclass
class Rank:
    """One rank: its process, and its journal, which stays readable when the rank is gone."""

    pid: int
    handle: int
    journal: int
    zero: float
    text: bytes = b""

    def signal(self, number: int) -> None:
        """Send a signal; a process that has ended gets none, and no other one in its place."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the journal so far."""
        text = self._read()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def close(self) -> None:
        """Let go of the process and of the journal, of which the text is kept."""
        self.text = self._read()
        os.close(self.handle)
        os.close(self.journal)

    def _read(self) -> bytes:
        if self.text:
            return self.text
        return os.pread(self.journal, os.fstat(self.journal).st_size, 0)

    def steps(self) -> list[str]:
        """The names of its steps so far."""
        return [line["step"] for line in self.lines() if "step" in line]

    def last_step(self) -> tuple[str, float]:
        """Its last step and when it wrote that, on this machine's monotonic clock."""
        steps = [line for line in self.lines() if "step" in line]
        return (steps[-1]["step"], self.zero + steps[-1]["t"]) if steps else (NOTHING, self.zero)


@dataclass
class Run:
    """One run as far as it has come. `report` is HangReport.to_dict, and its text as "text"."""

    line: socket.socket
    folder: Path
    ranks: dict[int, Rank] = field(default_factory=dict)
    launcher: int = 0
    report: dict[str, Any] | None = None
    error: str = ""
    fired: float | None = None
    ended: float | None = None
    step_at_fault: str = ""
    late: bool = False  # the fault came when every rank was through
    slow_until: float = 0.0
    left: list[str] = field(default_factory=list)

    def hear(self, seconds: float) -> None:
        """Take in what the launcher says within `seconds`."""
        self.line.settimeout(seconds)
        try:
            data, files, _, _ = socket.recv_fds(self.line, LONGEST, 1)
        except TimeoutError:
            return
        except ConnectionResetError:
            data, files = b"", []
        self._note(json.loads(data) if data else {"ended": "killed"}, files)

    def _note(self, told: dict[str, Any], files: list[int]) -> None:
        if "launcher" in told:
            self.launcher = told["launcher"]
        elif "rank" in told:
            handle = os.pidfd_open(told["pid"])
            self.ranks[told["rank"]] = Rank(told["pid"], handle, files[0], told["zero"])
        else:
            self.ended = time.monotonic()
            if files:
                with os.fdopen(files[0]) as file:
                    file.seek(0)
                    self.report = json.load(file)
            else:
                self.error = told["ended"]

    def all_done(self) -> bool:
        """Whether every rank says that it is through."""
        return bool(self.ranks) and all(r.last_step()[0] == "done" for r in self.ranks.values())

    def close(self) -> None:
        """End what a failed run has left, and let go of what was held."""
        for rank in self.ranks.values():
            rank.signal(signal.SIGKILL)
            rank.close()
        self.line.close()


def alive(pid: int) -> bool:
    """Whether there is such a process and it is more than a record of its end."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def left_of(run: Run) -> list[str]:
    """What still lives of a run's ranks and their sessions, and what lies in its folder."""
    sessions = {rank.pid for rank in run.ranks.values()}
    living = [pid for pid in psutil.pids() if pid in sessions or _session(pid) in sessions]
    found = [f"process {pid}" for pid in living if alive(pid)]
    return found + [str(path) for path in run.folder.iterdir()]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


class Server:
    """The process that has loaded torch and forks a launcher, warm, for each run."""

    def __init__(self) -> None:
        self.jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = _start("serve", theirs)

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
    job = {"arguments": plan.arguments, "raising": raising, "env": {"TMPDIR": str(folder)} | env}
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
        inject(run, plan.fault)
        run.left = left_of(run)
        return run


def inject(run: Run, fault: Fault | None) -> None:
    """Wait for the fault's step, let it happen, and wait for the run's end."""
    until = time.monotonic() + LONGEST_RUN_S
    while run.ended is None:
        assert time.monotonic() < until, "the run does not end"
        run.hear(TICK_S)
        if fault is None or fault.kind == "raise":
            run.hear(0.5)
        elif run.fired is None and _due(run, fault):
            _hit(run, fault)


def _due(run: Run, fault: Fault) -> bool:
    if not {fault.rank, fault.seen_by} <= run.ranks.keys():
        return False
    steps = [s for s in run.ranks[fault.seen_by].steps() if s.startswith(fault.at)]
    return not fault.at or len(steps) > fault.nth


def _hit(run: Run, fault: Fault) -> None:
    rank = run.ranks[fault.rank]
    run.fired = time.monotonic()
    if fault.kind == "slow":
        _slow(run, rank)
        return
    rank.signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
    _await_effect(rank.pid)
    run.step_at_fault = rank.last_step()[0]
    run.late = run.all_done()


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
        rank.signal(signal.SIGSTOP)
        run.hear(STOPPED_S)
        rank.signal(signal.SIGCONT)
        run.hear(RUNNING_S)
    run.slow_until = time.monotonic()
