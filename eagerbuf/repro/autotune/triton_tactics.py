"""The same grouped product as one Triton kernel; a tactic is a tile configuration (CUDA only)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor
from triton.language import constexpr  # type: ignore[import-not-found, import-untyped, unused-ignore]

from eagerbuf.repro.autotune.cpu_tactics import by_expert


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of one tile of the product, and the warps that compute it."""

    rows: int
    columns: int
    depth: int
    warps: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}, {self.warps} warps"


TILES = (
    Tile(16, 64, 64, 4),
    Tile(16, 128, 64, 4),
    Tile(32, 128, 64, 4),
    Tile(64, 64, 64, 4),
    Tile(64, 128, 64, 8),
    Tile(128, 128, 64, 8),
)


def _multiply(  # type: ignore[no-untyped-def]
    x,
    w,
    gate,
    out,
    order,
    tiles,
    inter,
    top_k,
    hidden: constexpr,
    M: constexpr,
    N: constexpr,
    K: constexpr,
):
    """One tile: up to M (token, slot) pairs of one expert times N columns of its matrix."""
    tile = tiles + 3 * tl.program_id(0)
    at = tl.load(tile + 1) + tl.arange(0, M)
    inside = at < tl.load(tile + 2)
    pair = tl.load(order + at, mask=inside, other=0)
    column = tl.program_id(1) * N + tl.arange(0, N)
    matrix = w + tl.load(tile) * hidden * inter
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, hidden, K):
        k = start + tl.arange(0, K)
        a_in = inside[:, None] & (k < hidden)[None, :]
        b_in = (k < hidden)[:, None] & (column < inter)[None, :]
        a = tl.load(x + (pair // top_k)[:, None] * hidden + k[None, :], mask=a_in, other=0.0)
        b = tl.load(matrix + k[:, None] * inter + column[None, :], mask=b_in, other=0.0)
        total += tl.dot(a, b)
    total *= tl.load(gate + pair, mask=inside, other=0.0)[:, None]
    kept = inside[:, None] & (column < inter)[None, :]
    tl.store(out + pair[:, None] * inter + column[None, :], total, mask=kept)


_kernel = triton.jit(_multiply)


def prepare(tile: Tile, x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Callable[[], Tensor]:
    """A call that multiplies with `tile`; sorting and tile lists are made here, outside timing.

    Shapes as in `cpu_tactics`; the sums over top_k are float32.
    """
    order, counts = by_expert(ids, len(w))
    tiles = tile_list(counts, tile.rows)
    (hidden, inter), top_k = w.shape[1:], ids.shape[1]
    pairs = x.new_empty(ids.numel(), inter, dtype=torch.float32)
    grid = (len(tiles), triton.cdiv(inter, tile.columns))
    tensors = (x, w, gate.reshape(-1).float(), pairs, order, tiles)
    size = {"M": tile.rows, "N": tile.columns, "K": tile.depth, "num_warps": tile.warps}

    def run() -> Tensor:
        _kernel[grid](*tensors, inter, top_k, hidden, **size)
        return pairs.view(*ids.shape, -1).sum(1)

    return run


def tile_list(counts: Tensor, rows: int) -> Tensor:
    """Expert, first pair and end of its expert's pairs of every tile, (tiles, 3).

    `counts`: pairs an expert, the pairs being sorted by expert; a tile holds up to `rows` pairs.
    """
    tiles = (counts + rows - 1) // rows
    expert = torch.arange(len(counts), device=counts.device).repeat_interleave(tiles)
    within = torch.arange(len(expert), device=counts.device) - (tiles.cumsum(0) - tiles)[expert]
    ends = counts.cumsum(0)
    return torch.stack([expert, (ends - counts)[expert] + within * rows, ends[expert]], dim=1)
