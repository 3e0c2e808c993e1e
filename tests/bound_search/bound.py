"""What a producer's batches are held against: its own ceiling, and the buffer of a rule."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from eagerbuf import sizing
from eagerbuf.config import EngineConfig
from eagerbuf.shapes import worst_shapes
from eagerbuf.simulate.scheduler.rows import Padding
from eagerbuf.sizing import buffer_size
from tests.bound_search.state import Step, padded

# producer -> the shape of `worst_shapes` that bounds it
PRODUCERS = {
    "prefill": "prefill",
    "mixed": "prefill",
    "whole_prefill": "prefill",
    "late_look": "prefill",
    "dynamic_chunk": "dynamic_chunk",
    "profiler_probe": "profiler_probe",
    "decode": "decode",
    "verify": "decode",
}
PROBES_UNCLIPPED = "0.5.14"  # the release whose shapes are modelled: probes are not clipped


class Limit(NamedTuple):
    """Tokens of a producer's largest batch before and after padding, and `slack`: what whole
    pages (or alignment units) may leave of it before padding."""

    raw: int
    padded: int
    slack: int


class Bounds:
    """The ceilings of one configuration, in tokens and requests, before and after padding."""

    def __init__(self, config: EngineConfig, rule: str = "tight") -> None:
        self.config = config
        self.size = buffer_size(config, rule)
        self.padding = Padding(config)
        self._limits: dict[str, Limit] = {}

    @cached_property
    def _shapes(self) -> dict[str, int | None]:
        shapes = worst_shapes(self.config, PROBES_UNCLIPPED)
        return {shape.producer: shape.num_tokens for shape in shapes}

    def of(self, producer: str) -> Limit:
        """The largest batch of a producer, by its formula."""
        if producer not in self._limits:
            name = PRODUCERS[producer]
            padded = self._shapes[name]
            assert padded is not None  # only without a KV pool, where no buffer could be sized
            raw = getattr(sizing, name)(self.config)
            self._limits[producer] = Limit(raw, padded, self._slack(producer))
        return self._limits[producer]

    def _slack(self, producer: str) -> int:
        page = self.config.page_size
        if producer == "dynamic_chunk":
            unit: int = sizing.alignment_unit(self.config.page_size)
            return unit + page
        if producer in ("prefill", "mixed", "late_look"):
            return page - 1
        return page if producer == "whole_prefill" else 0

    def padded(self, step: Step) -> tuple[int, int]:
        """(tokens, requests) of a step after padding, the largest of all DP ranks."""
        return padded(self.padding, step)

    def exceeded(self, tokens: int, requests: int) -> bool:
        """Whether a padded batch is larger than the buffer on either axis."""
        return tokens > self.size.max_num_tokens or requests > self.size.max_bs
