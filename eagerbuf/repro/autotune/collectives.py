"""The attention-TP collectives of a padded batch, run by real ranks at given token counts."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from eagerbuf.repro.launch.outcome import ended_first
from eagerbuf.repro.launch.status import WorkerStatus
from eagerbuf.repro.launch.worker_group import WorkerGroup

if TYPE_CHECKING:
    from pandas import DataFrame

COLLECTIVES = ("reduce_scatter_tensor", "all_gather_into_tensor")
PROGRAM = "eagerbuf.repro.autotune.collective_rank"
MOST_RANKS = 16
_LOG_PREFIX = re.compile(r"^(\[rank\d+\]:)?\[[A-Z]\d{4} [^\]]*\] ")  # rank, time, source line
Case = tuple[int, str]  # token count, collective
Rows = list[dict[str, Any]]


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
    if not counts:
        raise ValueError("num_tokens is empty: give at least one token count")
    cases = [(count, name) for count in counts for name in COLLECTIVES]
    ranks, backend = _count("ranks", ranks, MOST_RANKS), _backend(device, ranks)
    until = time.monotonic() + limit_s
    rows: Rows = []
    while len(rows) < len(cases) * ranks:
        left = cases[len(rows) // ranks :]
        rows += _run(left, ranks, backend, limit_s, until - time.monotonic())
    order = ["num_tokens", "collective", "rank"]
    return pd.DataFrame(rows).sort_values(order, ignore_index=True)


def _run(cases: Sequence[Case], ranks: int, backend: str, limit_s: float, left_s: float) -> Rows:
    """Rows of the cases up to the end, or up to one that was refused by ending the process."""
    job = {"cases": cases, "backend": backend, "limit_s": limit_s}
    command = [sys.executable, "-m", PROGRAM, json.dumps(job)]
    group = WorkerGroup(command, ranks, stall_s=limit_s, limit_s=left_s)
    outcome = group.run()
    if outcome not in ("completed", "crashed"):
        raise RuntimeError(f"the ranks were not done after limit_s={limit_s:g} seconds")
    found = [status.notes("row") for status in group.statuses]
    done = min(map(len, found))
    rows = [row for of_rank in found for row in of_rank[:done]]
    if outcome == "completed":
        return rows
    error = refused(_last_words(group.statuses))
    return rows + [about(*cases[done], rank, ranks, backend) | error for rank in range(ranks)]


def _last_words(statuses: Sequence[WorkerStatus]) -> str:
    """What an aborted rank said last; RuntimeError if the first to end did not abort."""
    first = ended_first(statuses)
    assert first is not None
    last = (first.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if first.exit_code != -signal.SIGABRT:
        raise RuntimeError(f"a rank failed: {last}")
    return last


def refused(line: str) -> dict[str, Any]:
    """The end of a case that a collective refused with this line."""
    return {"done": False, "error": _LOG_PREFIX.sub("", line).strip()}


def about(count: int, name: str, rank: int, ranks: int, backend: str) -> dict[str, Any]:
    """What is known of a case before it runs."""
    import torch

    return {
        "num_tokens": count,
        "collective": name,
        "rank": rank,
        "part_tokens": len(torch.empty(count).tensor_split(ranks)[rank]),
        "backend": backend,
        "device": "cuda" if backend == "nccl" else "cpu",
        "torch": torch.__version__,
    }


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
