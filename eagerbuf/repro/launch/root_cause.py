"""What an outcome is down to: the ranks, each with the step in which it held the others up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from eagerbuf.repro.launch.status import Sighting, culprit


@dataclass(frozen=True, order=True)
class Culprit:
    """A rank that the outcome is down to, and the step that it was in."""

    rank: int
    step: str


def culprits(outcome: str, ranks: Sequence[Sighting]) -> tuple[Culprit, ...]:
    """The ranks that `outcome` is down to; empty for "completed", or where none stands out."""
    if outcome == "crashed":
        return _at_last_step([seen for seen in [culprit(ranks)] if seen])
    if outcome == "hang":
        return _at_last_step(_stopped(ranks)) or _failed_first(ranks)
    if outcome == "overtime":
        return _at_last_step(_stopped(ranks) or _at_work(ranks))
    return ()


def _at_last_step(ranks: Sequence[Sighting]) -> tuple[Culprit, ...]:
    return tuple(Culprit(seen.rank, seen.last["step"]) for seen in ranks)


def _stopped(ranks: Sequence[Sighting]) -> list[Sighting]:
    return [seen for seen in ranks if seen.stopped]


def _at_work(ranks: Sequence[Sighting]) -> list[Sighting]:
    """Ranks that do not wait for another one."""
    return [seen for seen in ranks if not seen.done and not (seen.last["waits"] and seen.asleep)]


def _failed_first(ranks: Sequence[Sighting]) -> tuple[Culprit, ...]:
    """The rank whose start-up failed first, unless it did on all: with the step that failed."""
    failed = [found for found in map(_failed_at, ranks) if found]
    if not failed or len(failed) == len(ranks):
        return ()
    return (min(failed)[1],)


def _failed_at(seen: Sighting) -> tuple[float, Culprit] | None:
    """When the start-up of this rank failed, and at which step; None if it did not."""
    steps = seen.steps
    for before, line in pairwise(steps):
        if "failure" in line.get("note", {}):
            return line["t"], Culprit(seen.rank, before["step"])
    return None
