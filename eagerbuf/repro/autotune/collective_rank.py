"""What the ranks of `run_collectives` do, as a program of its own."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
from datetime import timedelta
from tempfile import TemporaryFile
from traceback import print_exc
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from eagerbuf.repro.autotune.collectives import COLLECTIVES
from eagerbuf.repro.autotune.ranks import Job, fork_ranks
from eagerbuf.repro.launch.guard import die_with_parent

WIDTH = 16  # numbers a token; what is refused or not depends on rows alone
_LOG_PREFIX = re.compile(r"^(\[rank\d+\]:)?\[[A-Z]\d{4} [^\]]*\] ")  # rank, time, source line
Case = tuple[int, str]  # token count, collective


def work(job: Job, rank: int) -> list[dict[str, Any]]:
    """One row a token count and collective, as `run_collectives` describes them."""
    cases = [(count, name) for count in job["counts"] for name in COLLECTIVES]
    return [_apart(job, rank, case) for case in cases]


def _apart(job: Job, rank: int, case: Case) -> dict[str, Any]:
    """A case in a process of its own: gloo up to torch 2.6 refuses by ending the process.

    RuntimeError if it ends otherwise, with the last line that it said.
    """
    parent = os.getpid()
    with TemporaryFile("w+") as row, TemporaryFile("w+") as said:
        child = os.fork() or _child(job, rank, case, parent, row.fileno(), said.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        row.seek(0)
        said.seek(0)
        if status == 0:
            return dict(json.load(row))
        last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
    if status != -signal.SIGABRT:
        raise RuntimeError(last)
    return _about(job, rank, case) | _refused(last)


def _child(job: Job, rank: int, case: Case, parent: int, row: int, said: int) -> NoReturn:
    status = 1
    try:
        die_with_parent(parent)
        os.dup2(said, 2)  # where torch's own threads write too
        faulthandler.disable()  # its dump would follow the reason
        os.write(row, json.dumps(_row(job, rank, case)).encode())
        status = 0
    except BaseException:
        with open(2, "w", closefd=False) as errors:
            print_exc(file=errors)
    finally:
        os._exit(status)


def _join(job: Job, rank: int, case: Case) -> torch.device:
    torch.set_num_threads(1)
    device = _device(job, rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ranks, limit = job["ranks"], timedelta(seconds=job["limit_s"])
    store = dist.FileStore(f"{job['meeting']}-{case[0]}-{case[1]}", ranks)
    dist.init_process_group(job["backend"], store=store, rank=rank, world_size=ranks, timeout=limit)
    # A process that gloo ends at once would break the connection of one that still joins.
    store.set(f"joined {rank}", "")
    store.wait([f"joined {other}" for other in range(ranks)], limit)
    return device


def _device(job: Job, rank: int) -> torch.device:
    return torch.device("cuda", rank) if job["backend"] == "nccl" else torch.device("cpu")


def _about(job: Job, rank: int, case: Case) -> dict[str, Any]:
    """What is known of a case before it runs."""
    count, name = case
    return {
        "num_tokens": count,
        "collective": name,
        "rank": rank,
        "part_tokens": len(torch.empty(count).tensor_split(job["ranks"])[rank]),
        "backend": job["backend"],
        "device": _device(job, rank).type,
        "torch": torch.__version__,
    }


def _row(job: Job, rank: int, case: Case) -> dict[str, Any]:
    count, name = case
    device = _join(job, rank, case)
    batch = torch.arange(count * WIDTH, dtype=torch.float32, device=device).view(count, WIDTH)
    part = batch.tensor_split(job["ranks"])[rank]
    ended: dict[str, Any] = {"done": True, "error": ""}
    try:
        _run(name, batch, part, job["ranks"])
    except (RuntimeError, ValueError) as refused:
        ended = _refused(str(refused).splitlines()[0])
    dist.barrier()
    return _about(job, rank, case) | ended


def _refused(line: str) -> dict[str, Any]:
    return {"done": False, "error": _LOG_PREFIX.sub("", line).strip()}


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
