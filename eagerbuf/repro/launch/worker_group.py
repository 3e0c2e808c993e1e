"""Starts workers on this machine, watches them, ends them: nothing of a run outlives its call."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from eagerbuf.engine.interrupts import Interrupts
from eagerbuf.repro.launch.outcome import StallClock, ended_first, judge
from eagerbuf.repro.launch.status import WorkerStatus
from eagerbuf.repro.launch.supervised import LOST_PEER
from eagerbuf.repro.launch.worker import Files, Worker

POLL_S = 0.1
STACK_S = 2.5  # how long the workers may take to write their stacks, all together
GRACE_S = 1.0  # how long to look for the worker whose end took the others along
EXIT_S = 2.0  # how long released workers may take to end, all together


class WorkerGroup:
    """One run of `workers` processes of the same command, whose program calls `supervised`.

    After `stall_s` seconds in which no worker moves it is a hang; it is over after `limit_s`.
    """

    def __init__(
        self, command: Sequence[str], workers: int, *, stall_s: float, limit_s: float
    ) -> None:
        self.command = command
        self.limits = stall_s, limit_s
        self.size = workers
        self.workers: list[Worker] = []
        self._interrupts = Interrupts()
        self._zero = time.monotonic()

    def run(self) -> str:
        """The outcome of one whole run; every worker has ended when it returns or raises."""
        with self._interrupts.noted():
            try:
                self._start()
                return self._watch()
            finally:
                self._end()

    @property
    def statuses(self) -> tuple[WorkerStatus, ...]:
        """What is known of each worker, by rank."""
        return tuple(worker.status for worker in self.workers)

    def seconds(self) -> float:
        """Seconds since the run's start."""
        return time.monotonic() - self._zero

    def _start(self) -> None:
        with socket.socket() as meeting:  # rank 0 gets the socket that all of them meet at
            meeting.bind(("127.0.0.1", 0))
            meeting.listen(self.size)
            for rank in range(self.size):
                self.workers.append(Worker(rank, partial(self._popen, rank, meeting)))

    def _popen(self, rank: int, meeting: socket.socket, files: Files) -> subprocess.Popen[bytes]:
        passed = {name: files[name].fileno() for name in ("log", "stack")}
        passed |= {"listen": meeting.fileno()} if rank == 0 else {}
        given = {"rank": rank, "workers": self.size, "port": meeting.getsockname()[1]}
        given |= {"parent": os.getpid(), "listen": None, **passed}
        return subprocess.Popen(
            self.command,
            env=_environment(given | {"start": self._zero}),
            pass_fds=tuple(passed.values()),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=files["stderr"],
            start_new_session=True,  # a terminal's Ctrl-C is for the launcher alone
        )

    def _watch(self) -> str:
        """Look at the workers until there is an outcome; stacks are taken before any is ended."""
        clock = StallClock()
        with progress_bar() as bar:
            while (outcome := judge(self._look(), clock, self.seconds(), *self.limits)) is None:
                bar.set_description_str(f"rank 0: {self.statuses[0].last['step']}")
                self._pause(POLL_S)
        if outcome == "crashed":
            self._find_culprit()
        elif outcome == "completed":
            self._release()
        else:
            self._take_stacks()
        return outcome

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        self._interrupts.let_through()

    def _look(self) -> Sequence[WorkerStatus]:
        for worker in self.workers:
            worker.look(self.seconds())
        now = self.seconds()  # one moment for all: the launcher too may wait for a CPU
        for status in self.statuses:
            status.now = now
        return self.statuses

    def _find_culprit(self) -> None:
        """Look on for a while: the first end to be seen may only be another one's consequence."""
        until, found = time.monotonic() + GRACE_S, None
        while time.monotonic() < until and (found is None or found.exit_code == LOST_PEER):
            self._pause(POLL_S)
            found = ended_first(self._look())

    def _release(self) -> None:
        """Let workers that are through end by themselves."""
        for worker in self.workers:
            worker.release()
        until = time.monotonic() + EXIT_S
        for worker in self.workers:
            worker.wait(until - time.monotonic())
        self._look()

    def _take_stacks(self) -> None:
        """Ask for the stack of every worker that has come up, those that stand stopped at last.

        They must go on to write it, which would set the others free.
        """
        asked = [w for w in self.workers if w.status.lines and w.status.exit_code is None]
        until = time.monotonic() + STACK_S
        self._await_stacks([w for w in asked if not w.status.stopped], until - STACK_S / 2)
        self._await_stacks([w for w in asked if w.status.stopped], until)

    def _await_stacks(self, asked: Sequence[Worker], until: float) -> None:
        for worker in asked:
            worker.ask_for_stack()
        while False in [worker.has_stack() for worker in asked] and time.monotonic() < until:
            self._pause(POLL_S / 10)

    def _end(self) -> None:
        """End all workers before waiting for any, as the end of one wakes the others."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.reap()


def _environment(given: dict[str, Any]) -> dict[str, str]:
    """One thread a worker, the loopback device, and where the package is if it is not installed."""
    own = {"OMP_NUM_THREADS": "1", "EAGERBUF_WORKER": json.dumps(given)}
    if sys.platform == "linux":
        own["GLOO_SOCKET_IFNAME"] = "lo"
    home = Path(__file__).resolve().parents[3]
    if home.name not in ("site-packages", "dist-packages"):
        paths = (str(home), os.environ.get("PYTHONPATH"))
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return os.environ | own


def progress_bar() -> Any:
    """What rank 0 does, on a terminal's standard error; nothing in notebooks and logs."""
    from tqdm import tqdm

    return tqdm(disable=None, bar_format="{desc} [{elapsed}]", leave=False, file=sys.stderr)
