"""What the ranks of `run_collectives` do: `python -m eagerbuf.autotune.rank FOLDER`."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.autotune.collectives import COLLECTIVES
from eagerbuf.autotune.ranks import Job, fork_ranks

WIDTH = 16  # numbers a token; what is refused or not depends on rows alone
_LOG_PREFIX = re.compile(r"^(\[rank\d+\]:)?\[[A-Z]\d{4} [^\]]*\] ")  # rank, time, source line


def work(job: Job, rank: int) -> list[dict[str, Any]]:
    """One row a token count and collective, as `run_collectives` describes them."""
    device = _join(job, rank)
    rows = [
        _row(name, count, rank, job["ranks"], device)
        for count in job["counts"]
        for name in COLLECTIVES
    ]
    dist.barrier()
    about = {"backend": job["backend"], "device": device.type, "torch": torch.__version__}
    return [row | about for row in rows]


def _join(job: Job, rank: int) -> torch.device:
    torch.set_num_threads(1)
    nccl = job["backend"] == "nccl"
    device = torch.device("cuda", rank) if nccl else torch.device("cpu")
    if nccl:
        torch.cuda.set_device(device)
    dist.init_process_group(
        job["backend"],
        init_method=job["meeting"],
        rank=rank,
        world_size=job["ranks"],
        timeout=timedelta(seconds=job["limit_s"]),
    )
    return device


def _row(name: str, count: int, rank: int, ranks: int, device: torch.device) -> dict[str, Any]:
    batch = torch.arange(count * WIDTH, dtype=torch.float32, device=device).view(count, WIDTH)
    part = batch.tensor_split(ranks)[rank]
    row = {"num_tokens": count, "collective": name, "rank": rank, "part_tokens": len(part)}
    try:
        _run(name, batch, part, ranks)
    except (RuntimeError, ValueError) as refused:
        first_line = str(refused).splitlines()[0]
        return row | {"done": False, "error": _LOG_PREFIX.sub("", first_line).strip()}
    return row | {"done": True, "error": ""}


def _run(name: str, batch: torch.Tensor, part: torch.Tensor, ranks: int) -> None:
    """Run one collective and compare; ArithmeticError if its result is not what it must be."""
    if name == "reduce_scatter_tensor":
        got, expected = torch.empty_like(part), part * ranks
        dist.reduce_scatter_tensor(got, batch.clone())
    else:
        got, expected = torch.empty_like(batch), batch
        dist.all_gather_into_tensor(got, part.clone())
    if not torch.equal(got, expected):
        raise ArithmeticError(f"{name} of {len(batch)} tokens gave a wrong result")


if __name__ == "__main__":
    fork_ranks(sys.argv[1], work)
