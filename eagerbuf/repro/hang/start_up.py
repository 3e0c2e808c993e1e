"""What one pipeline rank does: start-up with the latency profile, then the event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.buffers import StaticBuffers
from eagerbuf.predictor import ChunkSizePredictor, probe_lengths
from eagerbuf.repro.hang.dist_env import Place
from eagerbuf.repro.hang.event_loop import event_loop
from eagerbuf.repro.hang.groups import Groups, join
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.hang.stage import VOCAB, Stage, milliseconds, profile
from eagerbuf.repro.launch.event_log import DONE, READY, Journal

Samples = tuple[list[int], list[float]]


@dataclass(frozen=True)
class Rank:
    """One rank at work: its place, what it was asked to do, its static buffers and its layers."""

    groups: Groups
    settings: Settings
    buffers: StaticBuffers
    stage: Stage
    journal: Journal

    def prefill(self, num_tokens: int, history: int, received: torch.Tensor | None) -> torch.Tensor:
        """Hidden states (num_tokens, 64) of one request's chunk, through the static buffers.

        `received` are the hidden states of the stage before; the first stage embeds token ids.
        RuntimeError if the chunk does not fit the buffers.
        """
        views = self.buffers.load(one_request(num_tokens, history))
        if received is None:
            received = self.stage.embed(views["input_ids"], views["positions"])
        return self.stage.forward(received.to(self.groups.device))


def one_request(num_tokens: int, history: int) -> dict[str, torch.Tensor]:
    """A batch of one request's next `num_tokens` tokens, a tensor for each static slot."""
    positions = torch.arange(history, history + num_tokens)
    length = torch.tensor([history + num_tokens])
    return {
        "input_ids": positions % VOCAB,
        "positions": positions,
        "out_cache_loc": positions,
        "mrope_positions": positions.expand(3, -1),
        "req_pool_indices": torch.zeros(1, dtype=torch.int64),
        "seq_lens": length,
        "seq_lens_cpu": length,
    }


def run_rank(settings: Settings, place: Place, journal: Journal, listen: int | None) -> None:
    """The whole life of a rank, from the rendezvous to the last round."""
    torch.set_num_threads(1)
    journal.step("rendezvous", waits=True)
    groups = join(place, settings.device, settings.limit_s, listen)
    buffers = StaticBuffers(settings.size, groups.device)
    rank = Rank(groups, settings, buffers, Stage(groups.device), journal)
    dist.barrier(groups.control)
    where = {"device": str(groups.device), "backend": groups.backend, "torch": torch.__version__}
    journal.step(READY, **where, buffer_nbytes=buffers.nbytes)
    with torch.inference_mode():
        predictor = init_chunked_prefill(rank)
        journal.note(model=_model(predictor))
        event_loop(rank, predictor)
    journal.step("barrier after the last round", waits=True)
    dist.barrier(groups.control)
    journal.step(DONE)


def _model(predictor: ChunkSizePredictor | None) -> dict[str, Any]:
    if predictor is None:
        return {"enabled": False, "a": None, "b": None, "c": None}
    return {"enabled": True, "a": predictor.a, "b": predictor.b, "c": predictor.c}


def init_chunked_prefill(rank: Rank) -> ChunkSizePredictor | None:
    """The fitted predictor, or None: dynamic chunking is off on this rank.

    "swallow" is SGLang up to 0.5.19: each rank catches its own failure, whoever still waits for
    it. "broadcast" is PR #37675 (0.5.20): rank 0 tells all ranks.
    """
    try:
        if rank.settings.on_failure == "swallow":
            return profile_and_init_predictor(rank)
        return profile_and_fit(rank)
    except Exception as error:  # as upstream catches it
        rank.journal.step("dynamic chunking disabled", failure=str(error))
        return None


def profile_and_init_predictor(rank: Rank) -> ChunkSizePredictor:
    """Up to 0.5.19: a failing profile leaves rank 0 before the broadcast that the others are in."""
    samples = profile_prefill_latency(rank) if rank.groups.is_first else ([], [])
    data: list[Any] = list(samples)
    rank.journal.step("broadcast of the samples", waits=True)
    dist.broadcast_object_list(data, src=0, group=rank.groups.pipeline)
    return fit(rank, (data[0], data[1]))


def profile_and_fit(rank: Rank) -> ChunkSizePredictor:
    """From 0.5.20: a failure travels as None, over the CPU group and from world rank 0."""
    box: list[Samples | None] = [None]
    if rank.groups.is_first:
        box[0] = _try_to_profile(rank)
    rank.journal.step("broadcast of the samples or of the failure", waits=True)
    dist.broadcast_object_list(box, src=0, group=rank.groups.control)
    if box[0] is None:
        raise RuntimeError("rank 0 could not profile")
    return fit(rank, box[0])


def _try_to_profile(rank: Rank) -> Samples | None:
    try:
        return profile_prefill_latency(rank)
    except Exception as error:  # as upstream catches it
        rank.journal.step("profile failed", failure=str(error))
        return None


def profile_prefill_latency(rank: Rank) -> Samples:
    """Token counts and milliseconds of the probes, after a warm-up of one chunk."""
    device = rank.groups.device
    rank.journal.step("warm-up")
    rank.prefill(rank.settings.chunk, 0, None)
    lengths = probe_lengths(rank.settings.chunk)

    def measure(length: int) -> float:
        return milliseconds(lambda: rank.prefill(length, 0, None), device)

    return lengths, profile(lengths, measure, rank.journal)


def fit(rank: Rank, samples: Samples) -> ChunkSizePredictor:
    """The same model on every rank; ValueError, on every rank alike, where upstream raises it."""
    rank.journal.step("fit of the latency model")
    predictor = ChunkSizePredictor().fit(*samples)
    predictor.target_ms(rank.settings.chunk)
    return predictor
