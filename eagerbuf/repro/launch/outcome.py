"""When what is known of the workers amounts to an outcome, and which of them it is down to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from eagerbuf.repro.launch.status import WorkerStatus
from eagerbuf.repro.launch.supervised import LOST_PEER

OUTCOMES = ("hang", "completed", "crashed", "overtime")
LONGEST_TICK_S = 0.5  # of the stall clock: a pause of the launcher itself is no stall


class StallClock:
    """How long nothing has moved although every worker was ready; a sign of life sets it to 0.

    Imports and rendezvous take their time, so they only count once a worker stands stopped there.
    While a thread waits for a CPU or a disk the clock stands still: that is a slow machine.
    """

    def __init__(self) -> None:
        self.quiet_s = 0.0
        self._seen = -1
        self._cpu: list[float] = []
        self._last = 0.0

    def tick(self, now: float, workers: Sequence[WorkerStatus]) -> float:
        """Seconds of stall so far, `now` being the launcher's clock in seconds."""
        elapsed, self._last = min(now - self._last, LONGEST_TICK_S), now
        seen = sum(len(worker.lines) for worker in workers)
        due = all(worker.ready for worker in workers) or any(w.stopped for w in workers)
        if seen != self._seen or not due or not self._all_held(workers):
            self.quiet_s, self._seen = 0.0, seen
            self._cpu = [worker.cpu_s for worker in workers]
        elif not any(worker.starved for worker in workers):
            self.quiet_s += elapsed
        return self.quiet_s

    def _all_held(self, workers: Sequence[WorkerStatus]) -> bool:
        return all(w.stopped or w.blocked(cpu) for w, cpu in zip(workers, self._cpu, strict=True))


def judge(
    workers: Sequence[WorkerStatus], clock: StallClock, now: float, stall_s: float, limit_s: float
) -> str | None:
    """The outcome, one of OUTCOMES, or None while the run goes on; `now` in seconds since start."""
    if all(worker.done for worker in workers):
        return "completed"
    if ended_first(workers) is not None:
        return "crashed"
    if clock.tick(now, workers) >= stall_s:
        return "hang"
    return "overtime" if now >= limit_s else None


def ended_first(workers: Sequence[WorkerStatus]) -> WorkerStatus | None:
    """The worker that ended first, which took the others along; None if all live.

    One that ended without a word was seen to end late, and comes before those that lost a peer.
    """
    ended = [worker for worker in workers if worker.exit_code is not None]
    first = min(ended, key=lambda worker: worker.ended_s, default=None)
    if first is None or first.exit_code != LOST_PEER:
        return first
    silent = [worker for worker in ended if not worker.raised and worker.exit_code != LOST_PEER]
    return min(silent, key=lambda worker: worker.ended_s, default=first)


@dataclass(frozen=True, order=True)
class Culprit:
    """A rank that the outcome is down to, and the step that it was in."""

    rank: int
    step: str


def root_cause(outcome: str, workers: Sequence[WorkerStatus]) -> tuple[Culprit, ...]:
    """The workers that `outcome` is down to; empty for "completed", or where none stands out.

    crashed: the one that ended first, at its last step. hang: those that stand stopped, else the
    one whose start-up failed first, if it did not on all, at the step that failed. overtime: those
    that stand stopped, else those that waited for no other.
    """
    stopped = [worker for worker in workers if worker.stopped]
    if outcome == "crashed":
        return _at_last_step(filter(None, [ended_first(workers)]))
    if outcome == "hang":
        return _at_last_step(stopped) or _failed_first(workers)
    if outcome == "overtime":
        return _at_last_step(stopped or [worker for worker in workers if _works(worker)])
    return ()


def _at_last_step(workers: Iterable[WorkerStatus]) -> tuple[Culprit, ...]:
    return tuple(Culprit(worker.rank, worker.last["step"]) for worker in workers)


def _works(worker: WorkerStatus) -> bool:
    return not worker.done and not (worker.last["waits"] and worker.asleep)


def _failed_first(workers: Sequence[WorkerStatus]) -> tuple[Culprit, ...]:
    failed = [found for found in map(_failed_at, workers) if found]
    return () if not failed or len(failed) == len(workers) else (min(failed)[1],)


def _failed_at(worker: WorkerStatus) -> tuple[float, Culprit] | None:
    """When the start-up of this worker failed, and at which step; None if it did not."""
    for before, line in pairwise(worker.steps):
        if "failure" in line.get("note", {}):
            return line["t"], Culprit(worker.rank, before["step"])
    return None
