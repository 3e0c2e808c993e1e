"""The pipeline's event loop: requests over the control group, hidden states over the pipeline's."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from eagerbuf.repro.hang.stage import HIDDEN

if TYPE_CHECKING:
    from eagerbuf.predictor import ChunkSizePredictor
    from eagerbuf.repro.hang.start_up import Rank

ROUNDS = 4  # the first one is idle: a server that has just started has no requests


def event_loop(rank: Rank, predictor: ChunkSizePredictor | None) -> None:
    """Serve a few rounds; one micro-batch a stage is in flight, each a long request in chunks.

    Order of messages as in SGLang's `event_loop_pp` (srt/managers/scheduler_pp_mixin.py), except
    that the last stage's tokens go to the first stage only.
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
    loop.drain()


def _next_chunk(rank: Rank, predictor: ChunkSizePredictor | None, history: int) -> int:
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

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.groups = rank.groups
        self.label = ""
        self.sent_requests: list[tuple[Any, torch.Tensor]] = []
        self.sent_results: list[tuple[Any, torch.Tensor]] = []
        self.in_flight: deque[str] = deque()

    def pass_requests(self, tokens: int) -> int:
        """Tokens of this micro-batch: the first stage's decision, handed on from stage to stage."""
        message = torch.tensor([tokens])
        if not self.groups.is_first:
            self.receive(message, self.groups.rank - 1, self.groups.control, "requests")
        if not self.groups.is_last:
            self.commit(self.sent_requests, "requests")
            self.send(message, self.groups.rank + 1, self.groups.control, self.sent_requests)
        return int(message.item())

    def run_batch(self, tokens: int, history: int) -> None:
        """Receive, compute, send on; the first stage takes back the oldest result in between."""
        received = self.receive_hidden(tokens)
        self.commit(self.sent_results, "results")
        self.rank.journal.step(f"{self.label}: run {tokens} tokens")
        hidden = self.rank.prefill(tokens, history, received)
        if self.groups.is_first:
            self.take_result_if_due()
        result = self.rank.stage.next_token(hidden) if self.groups.is_last else hidden
        target = (self.groups.rank + 1) % self.groups.ranks
        self.send(result.to(self.groups.wire), target, self.groups.pipeline, self.sent_results)

    def receive_hidden(self, tokens: int) -> torch.Tensor | None:
        if self.groups.is_first:
            return None
        hidden = torch.empty(tokens, HIDDEN, device=self.groups.wire)
        self.receive(hidden, self.groups.rank - 1, self.groups.pipeline, "hidden states")
        return hidden

    def take_result_if_due(self) -> None:
        if len(self.in_flight) == self.groups.ranks - 1:
            self.take_result()
        self.in_flight.append(self.label)

    def take_result(self) -> None:
        token = torch.empty(1, dtype=torch.int64, device=self.groups.wire)
        what = f"the token of {self.in_flight.popleft()}"
        self.receive(token, self.groups.ranks - 1, self.groups.pipeline, what)

    def drain(self) -> None:
        """Wait for everything that is still under way."""
        while self.in_flight:
            self.take_result()
        self.commit(self.sent_requests, "requests")
        self.commit(self.sent_results, "results")

    def send(self, tensor: torch.Tensor, to: int, group: Any, pending: list[Any]) -> None:
        pending.append((dist.isend(tensor, to, group=group), tensor))

    def receive(self, tensor: torch.Tensor, source: int, group: Any, what: str) -> None:
        self.rank.journal.step(f"{self.label}: receive {what} from rank {source}", waits=True)
        dist.recv(tensor, source, group=group)
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)  # NCCL returns before the data is there

    def commit(self, pending: list[tuple[Any, torch.Tensor]], what: str) -> None:
        """Wait until what was sent before has been received: where rank 0 ends up in the hang."""
        if pending:
            self.rank.journal.step(f"{self.label}: wait for the last send of {what}", waits=True)
        for work, _ in pending:
            work.wait()
        pending.clear()
