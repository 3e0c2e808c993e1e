"""A small pipeline stage that really computes, and a clock for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

HIDDEN, HEADS, LAYERS, VOCAB = 64, 8, 2, 1024


class Stage:
    """Attention-only transformer layers over one chunk, without a KV cache.

    Without MLP layers the quadratic part of the latency stands out of the noise of a busy CPU.
    Attention is not causal: under a causal mask the CPU kernel skips blocks of 512 keys, and that
    kink in the latency would be the kernel's, not the length's.
    """

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)

        def weight(*shape: int) -> torch.Tensor:
            return (torch.randn(*shape, generator=generator) / math.sqrt(HIDDEN)).to(device)

        self.embedding = weight(VOCAB, HIDDEN)
        self.layers = [(weight(3 * HIDDEN, HIDDEN), weight(HIDDEN, HIDDEN)) for _ in range(LAYERS)]
        self.frequencies = torch.logspace(0, -4, HIDDEN, device=device)

    def embed(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Hidden states (tokens, 64) of token ids and positions, both (tokens,)."""
        return self.embedding[input_ids] + torch.sin(positions[:, None] * self.frequencies)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The stage's layers; hidden states (tokens, 64) in and out."""
        for qkv, out in self.layers:
            parts = linear(hidden, qkv).view(-1, 3, HEADS, HIDDEN // HEADS)
            query, key, value = parts.permute(1, 2, 0, 3).unsqueeze(1).unbind(0)
            mixed = scaled_dot_product_attention(query, key, value)[0]
            hidden = hidden + linear(mixed.transpose(0, 1).reshape(-1, HIDDEN), out)
        return hidden


def milliseconds(run: Callable[[], object], device: torch.device) -> float:
    """Time of one call: wall clock between synchronisations on CUDA (as upstream), else CPU time.

    CPU time of this thread leaves out what other processes of a busy machine take.
    """
    if device.type != "cuda":
        start = time.thread_time()
        run()
        return (time.thread_time() - start) * 1e3
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - start) * 1e3
