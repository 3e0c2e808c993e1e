"""What a run is asked to do, checked, and the engine configuration that it stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import index
from typing import Any

from eagerbuf.config import EngineConfig
from eagerbuf.sizing import BufferSize, buffer_size, find_rule

LEAST_RANKS, MOST_RANKS = 2, 8
ON_FAILURE = ("rank0_only", "broadcast")
DEVICES = ("auto", "cpu", "cuda")
MAX_RUNNING_REQUESTS = 4


@dataclass(frozen=True)
class Settings:
    """Arguments of `run_hang`; `chunk` in tokens, `stall_s` and `limit_s` in seconds.

    ValueError naming the field, its value and the limit.
    """

    ranks: int = 2
    rule: str = "pr28386"
    on_failure: str = "rank0_only"
    chunk: int = 512
    device: str = "auto"
    stall_s: float = 3.0
    limit_s: float = 90.0

    def __post_init__(self) -> None:
        self._check_count("ranks", LEAST_RANKS, MOST_RANKS)
        self._check_count("chunk", 1, None)
        find_rule(self.rule)
        _check_choice("on_failure", self.on_failure, ON_FAILURE)
        _check_choice("device", self.device, DEVICES)
        self._check_seconds("stall_s", 0.0)
        self._check_seconds("limit_s", self.stall_s)

    def _check_count(self, name: str, least: int, most: int | None) -> None:
        value = getattr(self, name)
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        try:
            number = index(value)
        except TypeError:
            raise ValueError(f"{name}={value!r}: give a whole number, {wanted}") from None
        if isinstance(value, bool) or number < least or (most is not None and number > most):
            raise ValueError(f"{name}={value!r}: must be {wanted}")
        object.__setattr__(self, name, number)

    def _check_seconds(self, name: str, above: float) -> None:
        value = getattr(self, name)
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name}={value!r}: give a number of seconds") from None
        if not (math.isfinite(seconds) and seconds > above):
            limit = f"stall_s={above}" if name == "limit_s" else above
            raise ValueError(f"{name}={value!r}: must be finite and greater than {limit}")
        object.__setattr__(self, name, seconds)

    @property
    def config(self) -> EngineConfig:
        """The engine that the ranks stand for: one pipeline stage a rank, chunks dynamic."""
        return EngineConfig(
            chunked_prefill_size=self.chunk,
            max_running_requests=MAX_RUNNING_REQUESTS,
            max_total_num_tokens=16384 + 8 * self.chunk,
            context_len=1024 + 8 * self.chunk,
            pp_size=self.ranks,
            enable_dynamic_chunking=True,
        )

    @property
    def size(self) -> BufferSize:
        """Static buffers of one rank under `rule`."""
        return buffer_size(self.config, self.rule)


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r}: unknown, give one of {', '.join(choices)}")
