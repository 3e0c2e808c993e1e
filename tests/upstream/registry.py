"""The released input buffers: `build_eager_registry`, filled as the eager runner fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from types import SimpleNamespace
from typing import Any

import torch

from tests.upstream.engine import GETTERS, SRT
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

REGISTRY = f"{SRT}/model_executor/cuda_graph_buffer_registry.py"
SLOTS = (
    "input_ids",
    "positions",
    "out_cache_loc",
    "mrope_positions",
    "req_pool_indices",
    "seq_lens",
    "seq_lens_cpu",
)
_FIELDS = [(slot, Any, field(default=None)) for slot in SLOTS]
Batch = make_dataclass("Batch", [("batch_size", int), *_FIELDS])


class Registry:
    """One release's static buffers on the CPU; `load` is the eager runner's load_batch."""

    def __init__(self, wheel: Wheel, max_bs: int, max_num_tokens: int) -> None:
        settings = SimpleNamespace(num_dp_ranks=1, dp_size=1)
        stubs = dict.fromkeys(GETTERS, lambda: settings) | {
            "share_input_buffer": lambda _, buffer, *__: buffer,  # no other runner
        }
        room = Room(wheel, stubs)
        build = room.piece("build_eager_registry", REGISTRY)
        self.buffers = build(
            device=torch.device("cpu"),
            max_bs=max_bs,
            max_num_token=max_num_tokens,
            cache_loc_dtype=torch.int64,
        )
        runner = f"{SRT}/model_executor/runner/eager_runner.py"
        self._load = room.piece("EagerRunner.load_batch", runner)

    def load(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Copy a batch in and return its views; torch's error where it does not fit."""
        forward = Batch(batch_size=len(batch["seq_lens"]), **batch)
        views = self._load(SimpleNamespace(_eager_registry=self.buffers), forward)
        return {name: getattr(views, name) for name in batch}

    def rows(self, name: str) -> torch.Tensor:
        """The whole buffer of a slot."""
        buffer: torch.Tensor = self.buffers.get_slot(name).buffer
        return buffer
