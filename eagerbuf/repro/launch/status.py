"""Who watches: what is known of each rank, and when that amounts to an outcome."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from eagerbuf.repro.launch.event_log import DONE, READY, Line

OUTCOMES = ("hang", "completed", "crashed", "overtime")
BUSY_S = 0.05  # CPU time of the main thread above which a rank is not blocked; ticks are 0.01 s
LONGEST_TICK_S = 0.5  # of the stall clock: a pause of the watcher itself is no stall of the ranks
LOST_PEER = 3  # exit status of a rank that another rank's end took along


@dataclass
class Sighting:
    """What the watcher knows of one rank; `now` and the lines' `t` are seconds of its own clock.

    `stopped` by SIGSTOP, or `starved` of CPU time, since the look before: see `pulse.Pulse`.
    `ended` is when the watcher first saw `exit_code`.
    """

    rank: int
    lines: list[Line] = field(default_factory=list)
    now: float = 0.0
    cpu_s: float = 0.0
    asleep: bool = False
    exit_code: int | None = None
    stderr: str = ""
    stack: str = ""
    stopped: bool = False
    starved: bool = False
    ended: float | None = None

    @property
    def steps(self) -> list[Line]:
        """The journal's lines that name a step."""
        return [line for line in self.lines if "step" in line]

    @property
    def last(self) -> Line:
        """The last step, or a line that says that there is none."""
        nothing: Line = {"t": 0.0, "step": "not started", "waits": False}
        return next((line for line in reversed(self.lines) if "step" in line), nothing)

    @property
    def done(self) -> bool:
        """Whether the rank has said that it is through."""
        return bool(self.last["step"] == DONE)

    @property
    def ready(self) -> bool:
        """Whether the rank is past imports and rendezvous."""
        return any(line.get("step") == READY for line in self.lines)

    def notes(self, key: str) -> list[Any]:
        """Everything the rank noted under `key`, in order."""
        return [line["note"][key] for line in self.lines if key in line.get("note", {})]

    def look(self, pid: int) -> None:
        """Note the CPU time of the process's main thread and whether it sleeps."""
        try:
            process = psutil.Process(pid)
            self.cpu_s = _main_thread_s(process)
            self.asleep = process.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_IDLE)
        except psutil.Error:
            self.asleep = False

    def blocked(self, cpu_before: float) -> bool:
        """Whether the rank waits for another one and uses no CPU time (a wait on CUDA spins)."""
        if self.done or not self.last["waits"]:
            return self.done
        on_cuda = any(str(device).startswith("cuda") for device in self.notes("device"))
        return on_cuda or (self.asleep and self.cpu_s - cpu_before < BUSY_S)

    @property
    def raised(self) -> bool:
        """Whether it has said what ended it."""
        return bool(self.notes("raised"))

    @property
    def ended_s(self) -> float:
        """When it ended: as it said itself, else its last sign of life if it was killed.

        A killed rank is seen to have ended only after the others have lost it. An abort can be
        the C++ library's answer to a lost peer, so that it counts from when it was seen.
        """
        if self.raised:
            return float(next(ln["t"] for ln in self.lines if "raised" in ln.get("note", {})))
        if (self.exit_code or 0) < 0 and self.exit_code != -signal.SIGABRT:
            return float(self.lines[-1]["t"]) if self.lines else 0.0
        return math.inf if self.ended is None else self.ended


def _main_thread_s(process: psutil.Process) -> float:
    for thread in process.threads():
        if thread.id == process.pid:
            return float(thread.user_time + thread.system_time)
    times = process.cpu_times()
    return float(times.user + times.system)


class StallClock:
    """How long nothing has moved although every rank was ready; any sign of life sets it to 0.

    Imports and rendezvous take their time, so they only count once a rank stands stopped there.
    While a thread waits for a CPU or a disk the clock stands still: that is a slow machine.
    """

    def __init__(self) -> None:
        self.quiet_s = 0.0
        self._seen = -1
        self._cpu: list[float] = []
        self._last = 0.0

    def tick(self, now: float, ranks: Sequence[Sighting]) -> float:
        """Seconds of stall so far, `now` being the watcher's clock in seconds."""
        elapsed, self._last = min(now - self._last, LONGEST_TICK_S), now
        seen = sum(len(rank.lines) for rank in ranks)
        due = all(rank.ready for rank in ranks) or any(rank.stopped for rank in ranks)
        if seen != self._seen or not due or not self._all_held(ranks):
            self.quiet_s, self._seen = 0.0, seen
            self._cpu = [rank.cpu_s for rank in ranks]
        elif not any(rank.starved for rank in ranks):
            self.quiet_s += elapsed
        return self.quiet_s

    def _all_held(self, ranks: Sequence[Sighting]) -> bool:
        return all(r.stopped or r.blocked(cpu) for r, cpu in zip(ranks, self._cpu, strict=True))


def culprit(ranks: Sequence[Sighting]) -> Sighting | None:
    """The rank that ended first, which took the others along; None if all live.

    One that ended without a word was seen to end late, and comes before those that lost a peer.
    """
    ended = [rank for rank in ranks if rank.exit_code is not None]
    first = min(ended, key=lambda rank: rank.ended_s, default=None)
    if first is None or first.exit_code != LOST_PEER:
        return first
    silent = [rank for rank in ended if not rank.raised and rank.exit_code != LOST_PEER]
    return min(silent, key=lambda rank: rank.ended_s, default=first)


def judge(
    ranks: Sequence[Sighting], clock: StallClock, now: float, stall_s: float, limit_s: float
) -> str | None:
    """The outcome, one of OUTCOMES, or None while the run goes on; `now` in seconds since start."""
    if all(rank.done for rank in ranks):
        return "completed"
    if culprit(ranks) is not None:
        return "crashed"
    if clock.tick(now, ranks) >= stall_s:
        return "hang"
    return "overtime" if now >= limit_s else None
