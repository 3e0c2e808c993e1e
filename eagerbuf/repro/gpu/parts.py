"""What runs on the device, part by part; each yields its rows as it finds them (see record.py)."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from eagerbuf.sizing import BufferSize

if TYPE_CHECKING:
    from torch import Tensor

    from eagerbuf.buffers import StaticBuffers
    from eagerbuf.repro.autotune import MoeLayer

Row = dict[str, Any]
Run = Callable[[], Any]
HANG_RULES = ("pr28386", "pr28677")  # one chunk, and what 0.5.14 reserves
# (max_running_requests, alignment): the pull request's own case, and four rare ones
CASES = ((2047, 8), (4, 8), (16, 32), (32, 64), (2048, 12))
REQUESTS = 128
ROUNDS = 9


class Skipped(Exception):
    """This machine cannot run a part; the message says why."""


@dataclass(frozen=True)
class Scale:
    """How large everything is: as recorded on a GPU, or small enough for a rehearsal."""

    chunk: int = 8192
    copied_tokens: tuple[int, ...] = tuple(1 << power for power in range(18))
    bandwidth_bytes: int = 1 << 30
    layer: MoeLayer | None = None
    budget_s: float = 30.0
    unaligned: int = 2047


def rehearsal() -> Scale:
    """Seconds on a CPU."""
    from eagerbuf.repro.autotune import MoeLayer

    layer = MoeLayer(hidden=16, inter=8, experts=4, top_k=2, dtype="float32")
    return Scale(64, (1, 64, 1024), 1 << 20, layer, 0.0, 63)


def machine(device: str, _scale: Scale) -> Iterator[Row]:
    """Device, driver and versions, one row."""
    import torch

    cuda = device.startswith("cuda")
    properties = torch.cuda.get_device_properties(0) if cuda else None
    yield {
        "device": properties.name if properties else "CPU",
        "devices": torch.cuda.device_count() if cuda else 1,
        "capability": f"{properties.major}.{properties.minor}" if properties else "",
        "memory_bytes": properties.total_memory if properties else 0,
        "driver": _driver(),
        "cuda": torch.version.cuda or "",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "eagerbuf": sys.modules["eagerbuf"].__version__,
    }


def _driver() -> str:
    """The kernel module's version, empty where there is none."""
    path = Path("/proc/driver/nvidia/version")
    text = path.read_text() if path.exists() else ""
    found = re.search(r"Module.*?\s(\d+\.[\d.]+)\s", text)
    return found[1] if found else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def hang(device: str, scale: Scale) -> Iterator[Row]:
    """The start-up with buffers, stage and profile on the device, under both sizes."""
    from eagerbuf.repro.hang import run_hang

    for rule in HANG_RULES:
        report = run_hang(rule=rule, chunk=scale.chunk, device=device, limit_s=90.0)
        model = report.to_dict()["model"][0]
        yield {
            "rule": rule,
            "chunk": scale.chunk,
            "buffer_tokens": report.settings.size.max_num_tokens,
            "outcome": report.outcome,
            "failure": report.failure,
            "seconds": round(report.seconds, 3),
            "device": report.where.get("device", ""),
            "backend": report.where.get("backend", ""),
            "probes": len(report.samples),
            **{name: model[name] for name in "abc"},
            "samples": report.samples[["num_tokens", "latency_ms"]].to_numpy().tolist(),
            "blocked_in": report.ranks["blocked_in"].tolist(),
        }


def copies(device: str, scale: Scale) -> Iterator[Row]:
    """Batches on the device copied into static buffers there, beside the device's own copy."""

    import torch

    from eagerbuf.buffers import StaticBuffers
    from eagerbuf.repro.autotune.tactics import clock

    ms = clock(device)
    target, source = torch.zeros(2, scale.bandwidth_bytes // 8, dtype=torch.int64, device=device)
    device_gb_s = _gb_s(source.nbytes, _median(ms, partial(target.copy_, source)))
    buffers = StaticBuffers(BufferSize(REQUESTS, max(scale.copied_tokens)), device)
    for num_tokens in scale.copied_tokens:
        batch = batch_on(buffers, num_tokens)
        nbytes = sum(tensor.nbytes for tensor in batch.values())
        taken = _median(ms, partial(buffers.load, batch))
        row = {"num_tokens": num_tokens, "nbytes": nbytes, "us": 1000 * taken}
        yield row | {"gb_s": _gb_s(nbytes, taken), "device_gb_s": device_gb_s}


def _median(ms: Callable[[Run], float], run: Run) -> float:
    """Milliseconds of a call, after one that warms up."""
    run()
    return median(ms(run) for _ in range(ROUNDS))


def batch_on(buffers: StaticBuffers, num_tokens: int) -> dict[str, Tensor]:
    """A batch where the buffers are: one request a token, up to their requests."""
    import torch

    lengths = {"tokens": num_tokens, "requests": min(num_tokens, buffers.size.max_bs)}
    return {
        slot.name: torch.ones(
            slot.shape(lengths[slot.axis]),
            dtype=torch.int64,
            device="cpu" if slot.on_host else buffers.device,
        )
        for slot in buffers.slots.values()
    }


def _gb_s(nbytes: int, ms: float) -> float:
    return nbytes / max(ms, 1e-9) / 1e6


def tactics(device: str, scale: Scale) -> Iterator[Row]:
    """The regret table of notebook 02; on CUDA the tactics are tiles of one Triton kernel."""
    import pandas as pd

    from eagerbuf.repro import autotune

    cases = pd.concat([autotune.misshape_table([most], [unit]) for most, unit in CASES])
    counts = autotune.counts_to_time(cases)
    timings = autotune.time_tactics(
        counts, device=device, layer=scale.layer, budget_s=scale.budget_s
    )
    found = autotune.regrets(cases, timings.rounds)
    told = {"ran": timings.ran, "worst_error": timings.worst_error}
    for row in found.drop(columns="dummy_tokens").to_dict("records"):
        yield row | told


def collectives(device: str, scale: Scale) -> Iterator[Row]:
    """An unaligned row count, which attention TP refuses, and the aligned one: NCCL's words."""
    import torch

    from eagerbuf.repro.autotune import run_collectives

    if device == "cuda" and torch.cuda.device_count() < 2:
        raise Skipped("one device: NCCL's refusal of an unaligned row count needs two")
    table = run_collectives([scale.unaligned, scale.unaligned + 1], 2, device=device)
    yield from table.drop(columns="torch").to_dict("records")


def engine(device: str, scale: Scale) -> Iterator[Row]:
    """SGLang 0.5.14 itself, two stages where there are two devices; no compiled kernels."""
    import torch

    from eagerbuf.engine import EngineMissing, run_engine

    stages = 2 if device == "cpu" or torch.cuda.device_count() > 1 else 1
    flags = ["--pp-size", str(stages), "--chunked-prefill-size", str(scale.chunk)]
    flags += ["--enable-dynamic-chunking"] if stages > 1 else []
    switches = {str(Path(__file__).with_name("on_cuda.py")): device} if device == "cuda" else {}
    for rule in (None, "pr28386"):
        try:
            report = run_engine(
                "0.5.14", flags=flags, rule=rule, requests=8, switches=switches, limit_s=120.0
            )
        except EngineMissing as missing:
            raise Skipped(str(missing)) from None
        yield {
            "release": report.release,
            "flags": " ".join(flags),
            "rule": rule,
            "device": device,
            "outcome": report.outcome,
            "failure": report.failure,
            "seconds": round(report.seconds, 3),
            "last_step": report.steps[-1] if report.steps else "",
            "batches": len(report.batches),
        }


# name -> what runs, and how many seconds it may take
PARTS: dict[str, tuple[Callable[[str, Scale], Iterator[Row]], float]] = {
    "machine": (machine, 60.0),
    "hang": (hang, 200.0),
    "copies": (copies, 60.0),
    "tactics": (tactics, 150.0),
    "collectives": (collectives, 60.0),
    "engine": (engine, 240.0),
}
