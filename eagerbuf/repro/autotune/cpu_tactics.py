"""Five ways to multiply tokens by their experts' matrices with torch on the CPU.

All take `x` (tokens, hidden), `w` (experts, hidden, inter), `ids` (tokens, top_k: experts) and
`gate` (tokens, top_k: weights), and return the gated sum over the experts, (tokens, inter).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor, arange, bmm, cat, empty_like

Tactic = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def expert_loop(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """For each expert: gather its tokens, multiply, add to the result."""
    out = x.new_zeros(len(x), w.shape[2])
    for expert, matrix in enumerate(w):
        token, slot = (ids == expert).nonzero(as_tuple=True)
        out.index_add_(0, token, (x[token] @ matrix) * gate[token, slot, None])
    return out


def sorted_segments(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Sort the (token, expert) pairs by expert and multiply segment by segment."""
    order, counts = by_expert(ids, len(w))
    segments = x[order // ids.shape[1]].split(counts.tolist())
    rows = cat([rows @ matrix for rows, matrix in zip(segments, w, strict=True)])
    pairs = empty_like(rows)
    pairs[order] = rows
    return (pairs.view(*ids.shape, -1) * gate.unsqueeze(-1)).sum(1)


def padded_batch(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Pad every expert to the busiest one's tokens and multiply all in one bmm."""
    order, counts = by_expert(ids, len(w))
    token, expert = order // ids.shape[1], ids.reshape(-1)[order]
    place = arange(len(order)) - (counts.cumsum(0) - counts)[expert]
    padded = x.new_zeros(len(w), int(counts.max()), x.shape[1])
    padded[expert, place] = x[token]
    rows = bmm(padded, w)[expert, place] * gate.reshape(-1)[order, None]
    return x.new_zeros(len(x), w.shape[2]).index_add_(0, token, rows)


def all_experts(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Multiply every token by every expert, then weigh; most gates are zero."""
    gates = x.new_zeros(len(x), len(w)).scatter_(1, ids, gate)
    return bmm(gates.unsqueeze(1), (x @ w).transpose(0, 1)).squeeze(1)


def stacked_inputs(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Weigh a copy of the token for every expert, then one tall product over all experts."""
    gates = x.new_zeros(len(x), len(w)).scatter_(1, ids, gate)
    return (gates.unsqueeze(2) * x.unsqueeze(1)).flatten(1) @ w.flatten(0, 1)


def by_expert(ids: Tensor, experts: int) -> tuple[Tensor, Tensor]:
    """The flattened (token, slot) pairs in order of their expert, and pairs an expert."""
    flat = ids.reshape(-1)
    return flat.argsort(stable=True), flat.bincount(minlength=experts)


TACTICS: Mapping[str, Tactic] = MappingProxyType(
    {
        "expert loop": expert_loop,
        "sorted segments": sorted_segments,
        "padded batch": padded_batch,
        "all experts": all_experts,
        "stacked inputs": stacked_inputs,
    }
)
