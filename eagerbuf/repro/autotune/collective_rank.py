"""`python -m eagerbuf.repro.autotune.collective_rank JOB`: one rank of `run_collectives`."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.repro.autotune.collectives import about, refused
from eagerbuf.repro.launch.event_log import DONE, READY
from eagerbuf.repro.launch.supervised import Assignment, supervised

WIDTH = 16  # numbers a token; what is refused or not depends on rows alone


def main(argument: str) -> None:
    """Be a rank; `argument` holds cases, backend and limit_s as a JSON object."""
    job = json.loads(argument)
    supervised(lambda assignment: work(job, assignment))


def work(job: dict[str, Any], assignment: Assignment) -> None:
    """Log one row a case (token count, collective), as `run_collectives` describes them."""
    log, rank, ranks = assignment.log, assignment.rank, assignment.workers
    torch.set_num_threads(1)
    log.step("rendezvous", waits=True)
    device = _join(job, assignment)
    log.step(READY)
    for count, name in job["cases"]:
        log.step(f"{name} of {count} tokens", waits=True)
        batch = torch.arange(count * WIDTH, dtype=torch.float32, device=device).view(count, WIDTH)
        ended = run_case(name, batch, rank, ranks)
        log.note(row=about(count, name, rank, ranks, job["backend"]) | ended)
        dist.barrier()
    log.step(DONE)


def _join(job: dict[str, Any], assignment: Assignment) -> torch.device:
    device = torch.device("cpu")
    if job["backend"] == "nccl":
        device = torch.device("cuda", assignment.rank)
        torch.cuda.set_device(device)
    dist.init_process_group(
        job["backend"],
        store=assignment.store(job["limit_s"]),
        rank=assignment.rank,
        world_size=assignment.workers,
        timeout=timedelta(seconds=job["limit_s"]),
    )
    return device


def run_case(name: str, batch: torch.Tensor, rank: int, ranks: int) -> dict[str, Any]:
    """Run one collective on this rank's part; ArithmeticError if its result is not what it must be.

    Returns `done` and `error`. Gloo up to torch 2.6 refuses by ending the process.
    """
    part = batch.tensor_split(ranks)[rank]
    try:
        if name == "reduce_scatter_tensor":
            got, expected = torch.empty_like(part), part * ranks
            dist.reduce_scatter_tensor(got, batch.clone())
        else:
            got, expected = torch.empty_like(batch), batch
            dist.all_gather_into_tensor(got, part.clone())
    except (RuntimeError, ValueError) as error:
        return refused(str(error).splitlines()[0])
    if not torch.equal(got, expected):
        raise ArithmeticError(f"{name} of {len(batch)} tokens gave a wrong result")
    return {"done": True, "error": ""}


if __name__ == "__main__":
    main(sys.argv[1])
