"""A run seen from outside: its processes, what its ranks wrote, and what was left of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.launcher import LONGEST

NOTHING, KILLED = "not started", "killed"
GONE_S = 3.0


@dataclass
class Process:
    """A process, by its id and by a handle that never means another one."""

    pid: int
    handle: int

    def signal(self, number: int) -> None:
        """Send a signal; a process that has ended gets none, and no other one in its place."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)

    def close(self) -> None:
        """Let go of the process."""
        os.close(self.handle)


@dataclass
class Rank(Process):
    """One rank: its process, and its event log, which stays readable when the rank is gone."""

    log: int
    zero: float
    text: bytes | None = None

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the event log so far."""
        text = self._read()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def close(self) -> None:
        """Let go of the process and of the log, of which the text is kept."""
        self.text = self._read()
        super().close()
        os.close(self.log)

    def _read(self) -> bytes:
        if self.text is not None:
            return self.text
        return os.pread(self.log, os.fstat(self.log).st_size, 0)

    def steps(self) -> list[str]:
        """The names of its steps so far."""
        return [line["step"] for line in self.lines() if "step" in line]

    def ran(self) -> int:
        """How often its main thread has been switched to and from."""
        try:
            return sum(psutil.Process(self.pid).num_ctx_switches())
        except psutil.NoSuchProcess:
            return -1

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
    launcher: Process | None = None
    report: dict[str, Any] | None = None
    error: str = ""
    fired: float | None = None
    ended: float | None = None
    step_at_fault: str = ""
    late: bool = False  # the fault came when every rank was through
    slow_until: float = 0.0
    longest_stop_s: float = 0.0
    watch_waited_s: float = 0.0  # for a CPU, by whoever watches the run
    left: list[str] = field(default_factory=list)

    def hear(self, seconds: float) -> None:
        """Take in what the launcher says within `seconds`; nothing comes after the end."""
        if self.ended is not None:
            return
        self.line.settimeout(seconds)
        try:
            data, files, _, _ = socket.recv_fds(self.line, LONGEST, 2)
        except TimeoutError:
            return
        except ConnectionResetError:
            data, files = b"", []
        self._note(json.loads(data) if data else {"ended": KILLED}, files)

    def _note(self, told: dict[str, Any], files: list[int]) -> None:
        if "launcher" in told:
            self.launcher = Process(told["pid"], *files)
        elif "rank" in told:
            self.ranks[told["rank"]] = Rank(told["pid"], *files, told["zero"])
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
        for process in filter(None, [self.launcher, *self.ranks.values()]):
            if self.ended is None or self.left:
                process.signal(signal.SIGKILL)
            process.close()
        self.line.close()


def alive(pid: int) -> bool:
    """Whether there is such a process and it is more than a record of its end."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def left_of(run: Run) -> list[str]:
    """What is left of a run; a killed launcher cannot wait for the end of its ranks."""
    until = time.monotonic() + (GONE_S if run.error == KILLED else 0.0)
    while (left := _left_of(run)) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def _left_of(run: Run) -> list[str]:
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
