"""`python -m tests.repro.placement`: every tensor that a GPU run computes with, on a fake device.

Torch's fake tensors have a device and no data; two of them on different devices in one operator
raise, as real ones do. A build of torch without CUDA lacks the guard that slicing asks for, so the
one of "meta", which does nothing, is put in its place: this is a process of its own.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

DEVICE = "cuda:0"
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
_CUDA, _META = 1, 14


def guard_for_cuda() -> None:
    """Let torch handle fake CUDA tensors, whatever it was built for."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    registry[_CUDA] = registry[_CUDA] or registry[_META]


def hang() -> None:
    """Buffers, a batch, the stage, and what comes from the stage before over gloo."""
    from eagerbuf.buffers import StaticBuffers
    from eagerbuf.repro.hang.groups import Groups
    from eagerbuf.repro.hang.pipeline_rank import PipelineRank
    from eagerbuf.repro.hang.settings import Settings
    from eagerbuf.repro.hang.stage import HIDDEN, Stage

    device = torch.device(DEVICE)
    groups = Groups(0, 2, device, None, None, "gloo")
    settings = Settings(rule="tight")
    buffers, stage = StaticBuffers(settings.size, device), Stage(device)
    rank = PipelineRank(groups, settings, buffers, stage, None)  # type: ignore[arg-type]
    with torch.inference_mode():
        on_device(rank.prefill(640, 0, None))
        on_device(rank.prefill(512, 640, torch.empty(512, HIDDEN, device=groups.wire)))


def copies() -> None:
    """A batch beside the buffers that it is copied into."""
    from eagerbuf.buffers import StaticBuffers
    from eagerbuf.repro.gpu.parts import batch_on
    from eagerbuf.sizing import BufferSize

    buffers = StaticBuffers(BufferSize(4, 64), DEVICE)
    for count in (1, 64):
        batch = batch_on(buffers, count)
        on_device(*(tensor for name, tensor in batch.items() if name != "seq_lens_cpu"))
        buffers.load(batch)


def tactics() -> None:
    """A layer's inputs and its float64 reference."""
    from eagerbuf.repro.autotune.tactics import MoeLayer, reference

    inputs = MoeLayer(64, 32, 8, 2, "bfloat16").inputs(33, DEVICE)
    on_device(*inputs, reference(*inputs))


def tiles() -> None:
    """What is handed to the Triton kernel (needs triton); how many tiles is data, which is not."""
    from eagerbuf.repro.autotune import triton_tactics
    from eagerbuf.repro.autotune.tactics import MoeLayer

    inputs = MoeLayer(64, 32, 8, 2, "bfloat16").inputs(33, DEVICE)

    def repeated(self: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return (self + times).new_zeros(16)

    def counted(self: torch.Tensor, minlength: int) -> torch.Tensor:
        return self.new_zeros(minlength)

    with (
        mock.patch("torch.Tensor.repeat_interleave", repeated),
        mock.patch("torch.Tensor.bincount", counted),
        mock.patch.object(triton_tactics, "_kernel", _Launch()),
    ):
        for tile in triton_tactics.TILES:
            on_device(triton_tactics.prepare(tile, *inputs)())


class _Launch:
    """Stands for the compiled kernel: every tensor that it is given must be on the device."""

    def __getitem__(self, grid: tuple[int, ...]):
        return lambda *given, **_: on_device(*(g for g in given if isinstance(g, torch.Tensor)))


def on_device(*tensors: torch.Tensor) -> None:
    """AssertionError naming a tensor's place among the given if it is not on the device."""
    for at, tensor in enumerate(tensors):
        assert str(tensor.device) == DEVICE, f"tensor {at} is on {tensor.device}"


_to = torch.Tensor.to


def _stays(self: torch.Tensor, where: object, *args: object, **how: object) -> torch.Tensor:
    """Tensor.to without the move to a device."""
    if isinstance(where, (str, torch.device)):
        return _to(self, *args, **how) if args or how else self  # type: ignore[call-overload]
    return _to(self, where, *args, **how)  # type: ignore[call-overload]


def _on_the_host(*args: object, **_: object) -> torch.Tensor:
    return torch.empty(args[2])  # type: ignore[call-overload, no-any-return]


# what a forgotten .to(device) comes down to, by the part in which it is planted
PLANTED = {
    "hang: what came in": ("torch.Tensor.to", _stays),
    "hang: frequencies": ("torch.logspace", _on_the_host),
    "copies: batch": ("torch.ones", lambda shape, dtype, **_: torch.empty(shape, dtype=dtype)),
    "tactics: inputs": ("torch.Tensor.to", _stays),
    "tactics: reference": ("torch.zeros", lambda *s, dtype, **_: torch.empty(*s, dtype=dtype)),
    "tiles: tile list": ("torch.arange", lambda end, **_: torch.empty(end, dtype=torch.int64)),
}


def main(part: str, forgotten: str = "") -> None:
    """Run one part; with `forgotten`, after taking that placement out of it."""
    guard_for_cuda()
    with FakeTensorMode(shape_env=ShapeEnv()):
        if forgotten:
            target, replacement = PLANTED[forgotten]
            with mock.patch(target, replacement):
                globals()[part]()
        else:
            globals()[part]()


if __name__ == "__main__":
    main(*sys.argv[1:])
