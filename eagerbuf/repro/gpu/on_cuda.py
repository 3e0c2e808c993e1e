"""A switch of run_engine: SGLang on a CUDA device, without its compiled kernels."""

from __future__ import annotations

import os
from typing import Any


def turn_on(device: str) -> None:
    """Put model, buffers and KV pool on `device`; layers take the torch form that SGLang has."""
    import arguments  # type: ignore[import-not-found]
    import sitecustomize as inside  # type: ignore[import-not-found]

    os.environ["SGLANG_USE_CPU_ENGINE"] = "0"
    arguments.CPU.update(device=device, dtype="bfloat16")
    inside.STAND_INS["sglang.srt.utils.common.is_cuda"] = "False: sgl_kernel's operators are absent"
    why = "shows pages in notebooks"  # and is not among the wheels that are carried along
    inside.ABSENT["IPython"], inside.STAND_INS["IPython"] = why, f"an empty module: {why}"
    inside.after("sglang.srt.utils.common")(_without_compiled_kernels)
    inside.after("sglang.srt.layers.rotary_embedding.base")(_torch_rotation)


def _without_compiled_kernels(module: Any) -> None:
    module.is_cuda = lambda: False


def _torch_rotation(module: Any) -> None:
    module._is_cpu = True  # else it asks vllm for a kernel
