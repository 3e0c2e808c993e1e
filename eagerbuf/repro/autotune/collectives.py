"""The attention-TP collectives of a padded batch, run by real ranks at given token counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eagerbuf.repro.autotune.ranks import run_ranks

if TYPE_CHECKING:
    from pandas import DataFrame

COLLECTIVES = ("reduce_scatter_tensor", "all_gather_into_tensor")
MOST_RANKS = 16


def run_collectives(
    num_tokens: Iterable[int], ranks: int = 4, *, device: str = "auto", limit_s: float = 60.0
) -> DataFrame:
    """Both collectives at each distinct token count over `ranks` ranks of attention TP.

    Each rank takes its part of the batch as SGLang 0.5.14 does (`tensor_split`), and a result is
    compared with the sum or the batch it must be. One row a count, collective and rank: columns
    num_tokens, collective, rank, part_tokens (the rank's part), done (bool), error (as raised,
    less the log's time stamp; "" if none), backend, device, torch. `device` "auto" takes NCCL
    where every rank has a GPU, else gloo on the CPU. RuntimeError if a rank fails otherwise or
    `limit_s` seconds pass; ValueError for an argument out of its limits.
    """
    import pandas as pd

    counts = list(dict.fromkeys(_count("num_tokens", count, 2**20) for count in num_tokens))
    job = {"counts": counts, "backend": _backend(device, ranks), "limit_s": limit_s}
    found = run_ranks(
        "eagerbuf.repro.autotune.collective_rank", job, _count("ranks", ranks, MOST_RANKS), limit_s
    )
    table = pd.DataFrame([row for rows in found for row in rows])
    return table.sort_values(["num_tokens", "collective", "rank"], ignore_index=True)


def _count(name: str, value: int, most: int) -> int:
    if not 1 <= value <= most:
        raise ValueError(f"{name}={value}: must be between 1 and {most}")
    return int(value)


def _backend(device: str, ranks: int) -> str:
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device={device!r}: unknown, give one of auto, cpu, cuda")
    own_gpus = torch.cuda.device_count() >= ranks
    if device == "cuda" and not own_gpus:
        raise ValueError(
            f"device='cuda': {ranks} ranks need a GPU each, {torch.cuda.device_count()} here; "
            "give device='cpu'"
        )
    return "nccl" if own_gpus and device != "cpu" else "gloo"
