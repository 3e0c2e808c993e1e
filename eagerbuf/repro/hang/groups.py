"""How the ranks find each other: a group for control traffic and one for the pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.repro.hang.dist_env import Place

TIMEOUT_MARGIN_S = 60.0  # the watcher decides, not torch's own time-out


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
        """Whether this is the last stage, which makes the tokens."""
        return self.rank == self.ranks - 1

    @property
    def wire(self) -> torch.device:
        """Where tensors lie while the pipeline group carries them (gloo sends from the host)."""
        return self.device if self.backend == "nccl" else torch.device("cpu")


def check_device(wanted: str) -> None:
    """ValueError for "cuda" where torch sees no CUDA device."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda': torch sees no CUDA device here, use 'cpu' or 'auto'")


def pick_device(wanted: str, place: Place) -> torch.device:
    """The device of this rank; GPUs are shared when there are fewer of them than ranks.

    ValueError for "cuda" where torch sees no device.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cpu":
        return torch.device("cpu")
    check_device(wanted)
    device = torch.device("cuda", place.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def join(place: Place, wanted: str, limit_s: float, listen: int | None) -> Groups:
    """Meet all ranks; `listen` is an open listening socket, if rank 0 was given one.

    NCCL carries the pipeline group where every rank has a GPU of its own, gloo otherwise.
    """
    device = pick_device(wanted, place)
    timeout = timedelta(seconds=limit_s + TIMEOUT_MARGIN_S)
    meeting = _store(place, timeout, listen)
    dist.init_process_group("gloo", timeout=timeout, **meeting)
    own_gpu = device.type == "cuda" and place.local_ranks <= torch.cuda.device_count()
    answers: list[Any] = [None] * place.ranks
    dist.all_gather_object(answers, own_gpu and dist.is_nccl_available())
    backend = "nccl" if all(answers) else "gloo"
    pipeline = dist.new_group(backend=backend, timeout=timeout)
    return Groups(place.rank, place.ranks, device, dist.group.WORLD, pipeline, backend)


def _store(place: Place, timeout: timedelta, listen: int | None) -> dict[str, Any]:
    """Arguments of the rendezvous: the environment's, or a store on a socket opened beforehand."""
    if "EAGERBUF_LAUNCHED" not in os.environ:
        return {"init_method": "env://"}
    store = dist.TCPStore(
        place.address,
        place.port,
        place.ranks,
        is_master=place.rank == 0,
        timeout=timeout,
        master_listen_fd=listen,
        use_libuv=False,  # which took no listening socket up to torch 2.6
    )
    return {"store": store, "rank": place.rank, "world_size": place.ranks}


def open_store(place: Place, limit_s: float) -> Any:
    """A connection of its own to the store at the rendezvous address, for reports beside the work.

    Waits up to `limit_s` seconds for the store to be there; keys are apart from torch's.
    """
    timeout = timedelta(seconds=limit_s)
    store = dist.TCPStore(place.address, place.port, is_master=False, timeout=timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"eagerbuf/{attempt}", store)
