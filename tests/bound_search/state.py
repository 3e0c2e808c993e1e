"""What a scheduler finds when it makes a batch, and the batch that it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from eagerbuf.admission import admit
from eagerbuf.config import EngineConfig
from eagerbuf.simulate.scheduler.rank import Batch
from eagerbuf.simulate.scheduler.rows import Padding


class State(NamedTuple):
    """A queue and what it meets; every number in tokens, `mixed_decode` in requests.

    `prompts` wait in order; `carried`: what a half-done request still needs; `history`: what of
    it is done; `chunk`: the size predicted for it, None for the static one.
    """

    prompts: tuple[int, ...] = ()
    carried: int = 0
    history: int = 0
    mixed_decode: int = 0
    ignore_eos: bool = False
    chunk: int | None = None


Admission = Callable[[EngineConfig, State], Sequence[int]]


def admitted(config: EngineConfig, state: State) -> list[int]:
    """Tokens that `admit` takes of each request."""
    return admit(
        state.prompts,
        config,
        carried=state.carried,
        mixed_decode=state.mixed_decode,
        chunk=state.chunk,
        ignore_eos=state.ignore_eos,
    )


def label(config: EngineConfig, state: State) -> str:
    """Which producer a prefill batch of this state belongs to."""
    if state.chunk is not None:
        return "dynamic_chunk"
    if config.scheduler_chunking:
        return "mixed" if state.mixed_decode else "prefill"
    late = state.ignore_eos and config.disable_radix_cache
    return "late_look" if late else "whole_prefill"


def prefill_batch(config: EngineConfig, state: State, admission: Admission) -> Batch | None:
    """The batch before padding, None where nothing is admitted.

    A release that goes below zero tokens (mixed decode at or over the chunk) makes no batch.
    """
    taken = admission(config, state)
    if not taken or min(taken) < 1:
        return None
    riding = state.mixed_decode
    return Batch("mixed" if riding else "prefill", sum(taken) + riding, len(taken) + riding)


class Step(NamedTuple):
    """One batch of this rank, and those of the other DP ranks in the same step."""

    producer: str
    batch: Batch
    state: State | None = None
    others: tuple[Batch | None, ...] = ()


def padded(padding: Padding, step: Step) -> tuple[int, int]:
    """(tokens, requests) of the largest rank after padding."""
    rows = padding.rows((step.batch, *step.others), 0)
    if len(rows) == 1:
        return rows[0][4:]
    return max(row[4] for row in rows), max(row[5] for row in rows)
