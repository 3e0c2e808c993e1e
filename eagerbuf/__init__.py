"""eagerbuf: how SGLang's eager runner sizes its static input buffers, reproduced and settled."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_ROOMS = {
    "config": ("EngineConfig",),
    "sizing": (
        "RULES",
        "BufferSize",
        "buffer_size",
        "ceil_align",
        "max_prefill_buffer_tokens",
        "size_many",
    ),
    "predictor": ("ChunkSizePredictor", "probe_lengths"),
    "shapes": ("Shape", "mlp_sync_pad", "worst_shapes"),
    "admission": ("admit",),
    "releases": ("Release", "find_release"),
    "models": ("Model", "find_model", "models"),
    "check": ("Report", "check"),
    "read": ("Reading", "read_config", "read_log"),
    "workloads": ("load_requests", "sample_requests"),
    "replay": ("replay",),
    "buffers": ("StaticBuffers",),
    "hang": ("HangReport", "run_hang"),
    "autotune": ("hybrid_bucket", "hybrid_buckets"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    """Load a room when one of its names is first used, so that importing costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'eagerbuf' has no attribute {name!r}")
    return getattr(import_module(f"eagerbuf.{_HOME[name]}"), name)


class _Package(ModuleType):
    """Keeps `eagerbuf.check` and `eagerbuf.replay` functions, although rooms have those names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return __all__
