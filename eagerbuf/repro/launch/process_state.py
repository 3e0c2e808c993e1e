"""Whether a process's threads run, sleep, are kept from running, or stand stopped."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

_STATE = re.compile(r"^State:\s+(\w)", re.MULTILINE)
_SWITCHES = re.compile(r"ctxt_switches:\s+(\d+)")
_STOPPED, _KEPT = "T", "RD"  # by a signal; waiting for a CPU or a disk
Threads = dict[str, tuple[str, int]]  # thread -> state, context switches so far


class ProcessState:
    """Two looks at a process tell what one cannot: a thread that has not run in between.

    Where there is no /proc, it is never said to be stopped or starved.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: Threads = {}
        self.stopped = False
        self.starved = False

    def look(self) -> None:
        """Set `stopped` and `starved` from what was so at the last look and still is.

        `stopped`: by SIGSTOP, and no thread has run. `starved`: some thread has work to do but got
        no CPU or waits for a disk, so that its standing still says nothing.
        """
        threads = _threads(self._pid)
        still = {state for tid, (state, _) in threads.items() if self._same(tid, threads)}
        self.stopped = still == {_STOPPED} and threads.keys() == self._before.keys()
        self.starved = any(state in _KEPT for state in still)
        self._before = threads

    def _same(self, tid: str, threads: Threads) -> bool:
        return threads[tid] == self._before.get(tid)


def _threads(pid: int) -> Threads:
    found: Threads = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = (task / "status").read_text()
            switches = sum(map(int, _SWITCHES.findall(status)))
            state = _STATE.search(status)
            found[task.name] = (state[1] if state else "", switches)
    except OSError:  # the process or one of its threads has just ended
        return {}
    return found


def main_thread(pid: int) -> tuple[float, bool] | None:
    """CPU seconds of a process's main thread and whether it sleeps; None if it is gone."""
    try:
        process = psutil.Process(pid)
        asleep = process.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_IDLE)
        for thread in process.threads():
            if thread.id == pid:
                return thread.user_time + thread.system_time, asleep
        times = process.cpu_times()  # where threads are not numbered as their process is
        return times.user + times.system, asleep
    except psutil.Error:
        return None
