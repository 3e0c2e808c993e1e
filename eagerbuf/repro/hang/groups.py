"""How the ranks find each other: a group for control traffic and one for the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.repro.launch.supervised import Assignment

TIMEOUT_MARGIN_S = 60.0  # the launcher decides, not torch's own time-out


@dataclass(frozen=True)
class Groups:
    """A rank among the others: upstream too has a CPU group and a device group of the pipeline."""

    rank: int
    ranks: int
    device: torch.device
    control: Any
    pipeline: Any
    backend: str

    @property
    def is_first(self) -> bool:
        """Whether this is the first stage, which profiles and admits requests."""
        return self.rank == 0

    @property
    def is_last(self) -> bool:
        """Whether this is the last stage."""
        return self.rank == self.ranks - 1

    @property
    def wire(self) -> torch.device:
        """Where tensors lie while the pipeline group carries them (gloo sends from the host)."""
        return self.device if self.backend == "nccl" else torch.device("cpu")


def check_cuda() -> None:
    """ValueError where torch sees no CUDA device."""
    if not torch.cuda.is_available():
        raise ValueError("device='cuda': torch sees no CUDA device here, use 'cpu' or 'auto'")


def pick_device(wanted: str, rank: int) -> torch.device:
    """The device of this rank; GPUs are shared when there are fewer of them than ranks.

    ValueError for "cuda" where torch sees no device.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    check_cuda()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def join(assignment: Assignment, wanted: str, limit_s: float) -> Groups:
    """Meet all ranks. NCCL carries the pipeline group where every rank has a GPU of its own."""
    rank, ranks = assignment.rank, assignment.workers
    device = pick_device(wanted, rank)
    seconds = limit_s + TIMEOUT_MARGIN_S
    timeout, store = timedelta(seconds=seconds), assignment.store(seconds)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timeout)
    own_gpu = device.type == "cuda" and ranks <= torch.cuda.device_count()
    backend = "nccl" if own_gpu and dist.is_nccl_available() else "gloo"
    pipeline = dist.new_group(backend=backend, timeout=timeout)
    return Groups(rank, ranks, device, dist.group.WORLD, pipeline, backend)
