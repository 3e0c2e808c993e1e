"""The start-up of a pipeline rank: the latency profile, the broadcast, the fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist

from eagerbuf.predictor import ChunkSizePredictor, probe_lengths
from eagerbuf.repro.hang.pipeline_rank import PipelineRank
from eagerbuf.repro.hang.stage import milliseconds
from eagerbuf.repro.launch.event_log import EventLog

Samples = tuple[list[int], list[float]]
LEAST_SWEEPS, MOST_SWEEPS, ENOUGH_MS = 2, 12, 1000.0


def init_chunked_prefill(rank: PipelineRank) -> ChunkSizePredictor | None:
    """The fitted predictor, or None: dynamic chunking is off on this rank.

    "rank0_only" is SGLang up to 0.5.19: each rank catches its own failure, whoever still waits for
    it. "broadcast" is PR #37675 (0.5.20): rank 0 tells all ranks.
    """
    try:
        if rank.settings.on_failure == "rank0_only":
            return profile_and_init_predictor(rank)
        return profile_and_fit(rank)
    except Exception as error:  # as upstream catches it
        rank.log.step("dynamic chunking disabled", failure=str(error))
        return None


def profile_and_init_predictor(rank: PipelineRank) -> ChunkSizePredictor:
    """Up to 0.5.19: a failing profile leaves rank 0 before the broadcast that the others are in."""
    samples = profile_prefill_latency(rank) if rank.groups.is_first else ([], [])
    data: list[Any] = list(samples)
    rank.log.step("broadcast of the samples", waits=True)
    dist.broadcast_object_list(data, src=0, group=rank.groups.pipeline)
    return fit(rank, (data[0], data[1]))


def profile_and_fit(rank: PipelineRank) -> ChunkSizePredictor:
    """From 0.5.20: a failure travels as None, over the CPU group and from world rank 0."""
    box = [_try_to_profile(rank) if rank.groups.is_first else None]
    rank.log.step("broadcast of the samples or of the failure", waits=True)
    dist.broadcast_object_list(box, src=0, group=rank.groups.control)
    if box[0] is None:
        raise RuntimeError("rank 0 could not profile")
    return fit(rank, box[0])


def _try_to_profile(rank: PipelineRank) -> Samples | None:
    try:
        return profile_prefill_latency(rank)
    except Exception as error:  # as upstream catches it
        rank.log.step("profile failed", failure=str(error))
        return None


def profile_prefill_latency(rank: PipelineRank) -> Samples:
    """Token counts and milliseconds of the probes, after a warm-up of one chunk."""
    rank.log.step("warm-up")
    rank.prefill(rank.settings.chunk, 0, None)
    lengths = probe_lengths(rank.settings.chunk)

    def measure(length: int) -> float:
        return milliseconds(lambda: rank.prefill(length, 0, None), rank.groups.device)

    return lengths, sweep(lengths, measure, rank.log)


def sweep(lengths: Sequence[int], measure: Callable[[int], float], log: EventLog) -> list[float]:
    """Least milliseconds of a prefill of each length over several sweeps, in the order given.

    Upstream sweeps once; the least of a few sweeps drops what else the machine was doing. Short
    probes need more of them: at least 2, then up to 12 until a second was measured in all.
    """
    best, measured = [math.inf] * len(lengths), 0.0
    for number in range(MOST_SWEEPS):
        if number >= LEAST_SWEEPS and measured >= ENOUGH_MS:
            break
        for i, length in enumerate(lengths):
            log.step(f"sweep {number + 1}, probe {i + 1} of {len(lengths)}: {length} tokens")
            latency = measure(length)
            measured, best[i] = measured + latency, min(best[i], latency)
            log.note(sample=[i, length, best[i]])
    return best


def fit(rank: PipelineRank, samples: Samples) -> ChunkSizePredictor:
    """The same model on every rank; ValueError, on every rank alike, where upstream raises it."""
    rank.log.step("fit of the latency model")
    predictor = ChunkSizePredictor().fit(*samples)
    predictor.target_ms(rank.settings.chunk)
    return predictor
