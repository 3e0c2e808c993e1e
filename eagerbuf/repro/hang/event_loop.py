"""The pipeline's event loop: requests over the control group, hidden states over the pipeline's."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.predictor import ChunkSizePredictor
from eagerbuf.repro.hang.pipeline_rank import PipelineRank
from eagerbuf.repro.hang.stage import HIDDEN

ROUNDS = 4  # the first one is idle: a server that has just started has no requests


def event_loop(rank: PipelineRank, predictor: ChunkSizePredictor | None) -> None:
    """Serve a few rounds; one micro-batch a stage is in flight, each a long request in chunks.

    Order of messages as in SGLang's `event_loop_pp` (srt/managers/scheduler_pp_mixin.py), without
    the tokens that its last stage sends back.
    """
    loop = _Loop(rank)
    history = [0] * rank.groups.ranks
    for round_ in range(ROUNDS):
        for micro_batch in range(rank.groups.ranks):
            loop.label = f"round {round_}, micro-batch {micro_batch}"
            tokens = _next_chunk(rank, predictor, history[micro_batch]) if round_ else 0
            tokens = loop.pass_requests(tokens)
            if tokens:
                loop.run_batch(tokens, history[micro_batch])
            history[micro_batch] += tokens
    loop.label = "last round"
    loop.commit("requests")
    loop.commit("hidden states")


def _next_chunk(rank: PipelineRank, predictor: ChunkSizePredictor | None, history: int) -> int:
    config, chunk = rank.settings.config, rank.settings.chunk
    if predictor is None or config.context_len is None:
        return chunk
    predicted = predictor.predict(
        history,
        chunk,
        page_size=config.page_size,
        context_len=config.context_len,
        max_chunk_size=config.max_prefill_tokens,
    )
    return predicted or chunk


class _Loop:
    """Sends in flight, and the order in which a stage waits for them."""

    def __init__(self, rank: PipelineRank) -> None:
        self.rank, self.groups = rank, rank.groups
        self.label = ""
        self.sent: dict[str, list[tuple[Any, torch.Tensor]]] = {"requests": [], "hidden states": []}

    def pass_requests(self, tokens: int) -> int:
        """Tokens of this micro-batch: the first stage's decision, handed on from stage to stage."""
        message = torch.tensor([tokens])
        if not self.groups.is_first:
            self.receive(message, self.groups.control, "requests")
        if not self.groups.is_last:
            self.commit("requests")
            self.send(message, self.groups.control, "requests")
        return int(message.item())

    def run_batch(self, tokens: int, history: int) -> None:
        """Receive, compute, send on."""
        received = None
        if not self.groups.is_first:
            received = torch.empty(tokens, HIDDEN, device=self.groups.wire)
            self.receive(received, self.groups.pipeline, "hidden states")
        self.commit("hidden states")
        self.rank.log.step(f"{self.label}: run {tokens} tokens")
        hidden = self.rank.prefill(tokens, history, received)
        if not self.groups.is_last:
            self.send(hidden.to(self.groups.wire), self.groups.pipeline, "hidden states")

    def send(self, tensor: torch.Tensor, group: Any, what: str) -> None:
        """Start to send to the next stage; `commit` waits for it."""
        work = dist.isend(tensor, self.groups.rank + 1, group=group)
        self.sent[what].append((work, tensor))

    def receive(self, tensor: torch.Tensor, group: Any, what: str) -> None:
        """Wait for the stage before."""
        source = self.groups.rank - 1
        self.rank.log.step(f"{self.label}: receive {what} from rank {source}", waits=True)
        dist.recv(tensor, source, group=group)
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)  # NCCL returns before the data is there

    def commit(self, what: str) -> None:
        """Wait until what was sent before has been received: where rank 0 ends up in the hang."""
        if self.sent[what]:
            self.rank.log.step(f"{self.label}: wait for the last send of {what}", waits=True)
        for work, _ in self.sent[what]:
            work.wait()
        self.sent[what].clear()
