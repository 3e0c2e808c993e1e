"""A pipeline rank: its groups, its static buffers and its stage."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eagerbuf.buffers import StaticBuffers
from eagerbuf.repro.hang.groups import Groups
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.hang.stage import VOCAB, Stage
from eagerbuf.repro.launch.event_log import EventLog


@dataclass(frozen=True)
class PipelineRank:
    """One rank at work: its place, what it was asked to do, its static buffers and its layers."""

    groups: Groups
    settings: Settings
    buffers: StaticBuffers
    stage: Stage
    log: EventLog

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
