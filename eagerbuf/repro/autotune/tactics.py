"""Times real candidate kernels for one MoE layer's grouped product; they are not FlashInfer's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

Run = Callable[[], Any]
FEWEST_ROUNDS, MOST_ROUNDS = 7, 31
LAUNCHES = 10  # a GPU round times this many calls, so that starting the clock does not count


@dataclass(frozen=True)
class MoeLayer:
    """Sizes of the grouped product: every token times the matrices of `top_k` of its experts."""

    hidden: int
    inter: int
    experts: int
    top_k: int
    dtype: str

    @property
    def tolerance(self) -> float:
        """Largest difference from the reference, relative to its largest entry."""
        return 1e-5 if self.dtype == "float32" else 1e-2

    def inputs(self, num_tokens: int, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x, w, ids and gate of a batch, as `cpu_tactics` describes them; the same every time."""
        import torch

        seeded = torch.Generator().manual_seed(0)
        dtype = getattr(torch, self.dtype)
        w = torch.randn(self.experts, self.hidden, self.inter, generator=seeded)
        x = torch.randn(num_tokens, self.hidden, generator=seeded)
        scores = torch.rand(num_tokens, self.experts, generator=seeded).topk(self.top_k)
        w, gate = (w / self.hidden**0.5).to(device, dtype), scores.values.softmax(1).to(device)
        return x.to(device, dtype), w, scores.indices.to(device), gate


LAYERS = {
    "cpu": MoeLayer(hidden=256, inter=128, experts=16, top_k=2, dtype="float32"),
    "cuda": MoeLayer(hidden=2048, inter=1024, experts=64, top_k=8, dtype="bfloat16"),
}


@dataclass(frozen=True)
class Timings:
    """Measured times. `rounds`: num_tokens, tactic, round, ms; a round ran every tactic once.

    `ran` says what was measured on which device; `worst_error` is the largest difference of any
    tactic from the float64 reference, relative to the reference's largest entry.
    """

    rounds: DataFrame
    ran: str
    torch: str
    layer: MoeLayer
    worst_error: float

    def summary(self) -> DataFrame:
        """Columns num_tokens, tactic, median_ms, low_ms, high_ms (quartiles), rounds."""
        from eagerbuf.repro.autotune.regret import summarise

        return summarise(self.rounds)


def time_tactics(
    num_tokens: Iterable[int],
    *,
    device: str = "auto",
    layer: MoeLayer | None = None,
    budget_s: float = 4.0,
) -> Timings:
    """Time every tactic at each token count, tactics in turn so that drift meets all alike.

    On CUDA the tactics are Triton tiles, on the CPU five torch formulations on one thread. A count
    gets 7 to 31 rounds, as `budget_s` seconds allow. ArithmeticError if a tactic is wrong;
    ValueError for a token count below 1.
    """
    import pandas as pd
    import torch

    device = _pick(device)
    layer = layer or LAYERS[device]
    counts = sorted({_count(n) for n in num_tokens})
    rows: list[dict[str, Any]] = []
    errors, deadline = [], time.perf_counter() + budget_s
    with _one_thread():
        for at, count in enumerate(counts):
            runs = _runs(layer.inputs(count, device), device)
            errors.append(_verify(runs, layer, count, device))
            share_s = (deadline - time.perf_counter()) / (len(counts) - at)
            rows += [{"num_tokens": count, **row} for row in _rounds(runs, device, share_s)]
    return Timings(pd.DataFrame(rows), _ran(device), torch.__version__, layer, max(errors))


def _count(n: int) -> int:
    if n < 1:
        raise ValueError(f"num_tokens={n}: must be at least 1")
    return int(n)


def _pick(device: str) -> str:
    import torch

    if device not in ("auto", *LAYERS):
        raise ValueError(f"device={device!r}: unknown, give one of auto, {', '.join(LAYERS)}")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def _ran(device: str) -> str:
    import torch

    if device == "cpu":
        return "torch formulations on the CPU, one thread"
    return f"Triton tiles on {torch.cuda.get_device_name()}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """One CPU thread for the measurement: two threads on a busy machine time the other work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before)


def _runs(inputs: tuple[Tensor, Tensor, Tensor, Tensor], device: str) -> Mapping[str, Run]:
    """A call for each tactic, everything prepared that a tactic need not do for each batch."""
    from functools import partial

    if device == "cuda":
        from eagerbuf.repro.autotune import triton_tactics as tiles

        return {str(tile): tiles.prepare(tile, *inputs) for tile in tiles.TILES}
    from eagerbuf.repro.autotune.cpu_tactics import TACTICS

    return {name: partial(tactic, *inputs) for name, tactic in TACTICS.items()}


def reference(x: Tensor, w: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """The definition in float64: each expert's product, weighed by what its tokens give it."""
    import torch

    out = torch.zeros(len(x), w.shape[2], dtype=torch.float64, device=x.device)
    for expert, matrix in enumerate(w.double()):
        weight = (gate.double() * (ids == expert)).sum(1, keepdim=True)
        out += weight * (x.double() @ matrix)
    return out


def _verify(runs: Mapping[str, Run], layer: MoeLayer, count: int, device: str) -> float:
    """Run every tactic once, which warms it up; the largest relative error of any."""
    expected = reference(*layer.inputs(count, device))
    scale = float(expected.abs().max())
    errors = {name: float((run() - expected).abs().max()) / scale for name, run in runs.items()}
    for name, error in errors.items():
        if not error <= layer.tolerance:
            raise ArithmeticError(
                f"tactic {name!r} at {count} tokens: off by {error:.2g} of the largest entry, "
                f"more than {layer.tolerance:g}"
            )
    return max(errors.values())


def _rounds(runs: Mapping[str, Run], device: str, share_s: float) -> Iterator[dict[str, Any]]:
    ms = clock(device)
    end, names = time.perf_counter() + share_s, list(runs)
    for number in range(MOST_ROUNDS):
        if number >= FEWEST_ROUNDS and time.perf_counter() > end:
            return
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            yield {"tactic": name, "round": number, "ms": ms(runs[name])}


def clock(device: str) -> Callable[[Run], float]:
    """What gives the milliseconds of a call on this device."""
    return _gpu_ms if device.startswith("cuda") else _cpu_ms


def _cpu_ms(run: Run) -> float:
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


def _gpu_ms(run: Run) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(LAUNCHES):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / LAUNCHES
