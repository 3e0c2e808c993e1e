"""eagerbuf: how SGLang's eager runner sizes its static input buffers, reproduced and settled."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; at run time rooms load when used
    from eagerbuf.admission import admit as admit
    from eagerbuf.buffers import StaticBuffers as StaticBuffers
    from eagerbuf.config import EngineConfig as EngineConfig
    from eagerbuf.diagnose.report import Report as Report
    from eagerbuf.diagnose.verdict import check as check
    from eagerbuf.models import Model as Model
    from eagerbuf.models import find_model as find_model
    from eagerbuf.models import models as models
    from eagerbuf.predictor import ChunkSizePredictor as ChunkSizePredictor
    from eagerbuf.predictor import probe_lengths as probe_lengths
    from eagerbuf.read import Reading as Reading
    from eagerbuf.read import read_config as read_config
    from eagerbuf.read import read_log as read_log
    from eagerbuf.releases import Release as Release
    from eagerbuf.releases import find_release as find_release
    from eagerbuf.repro.autotune import hybrid_bucket as hybrid_bucket
    from eagerbuf.repro.autotune import hybrid_buckets as hybrid_buckets
    from eagerbuf.repro.hang import HangReport as HangReport
    from eagerbuf.repro.hang import run_hang as run_hang
    from eagerbuf.shapes import Shape as Shape
    from eagerbuf.shapes import mlp_sync_pad as mlp_sync_pad
    from eagerbuf.shapes import worst_shapes as worst_shapes
    from eagerbuf.simulate.scheduler import replay as replay
    from eagerbuf.simulate.workloads import load_requests as load_requests
    from eagerbuf.simulate.workloads import sample_requests as sample_requests
    from eagerbuf.sizing import RULES as RULES
    from eagerbuf.sizing import BufferSize as BufferSize
    from eagerbuf.sizing import buffer_size as buffer_size
    from eagerbuf.sizing import ceil_align as ceil_align
    from eagerbuf.sizing import max_prefill_buffer_tokens as max_prefill_buffer_tokens
    from eagerbuf.sizing import size_many as size_many
    from eagerbuf.studies.price import price_rules as price_rules

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
    "studies.price": ("price_rules",),
    "diagnose.report": ("Report",),
    "diagnose.verdict": ("check",),
    "read": ("Reading", "read_config", "read_log"),
    "simulate.workloads": ("load_requests", "sample_requests"),
    "simulate.scheduler": ("replay",),
    "buffers": ("StaticBuffers",),
    "repro.hang": ("HangReport", "run_hang"),
    "repro.autotune": ("hybrid_bucket", "hybrid_buckets"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
__all__ = ["__version__", *sorted(_HOME)]


if not TYPE_CHECKING:  # or any misspelt name would pass as Any

    def __getattr__(name: str) -> Any:
        """Load a room when one of its names is first used, so that importing costs nothing."""
        if name not in _HOME:
            raise AttributeError(f"module 'eagerbuf' has no attribute {name!r}")
        return getattr(import_module(f"eagerbuf.{_HOME[name]}"), name)


class _Package(ModuleType):
    """Keeps names that are functions, although rooms have those names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return __all__
