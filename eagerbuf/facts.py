"""What is known of a deployment: buffers as lower bounds and shapes, with unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eagerbuf.config import DEFAULTS, FIELDS, FLAGS, OPTIONAL, Columns, EngineConfig, given
from eagerbuf.releases import Release
from eagerbuf.shapes import Shape, worst_shapes
from eagerbuf.sizing import BufferSize, Rule

# the fields that decide each producer's tokens (the pool, where it matters, is None already)
TOKENS_NEED = {
    "prefill": ("chunked_prefill_size",),
    "profiler_probe": ("chunked_prefill_size",),
    "dynamic_chunk": ("chunked_prefill_size", "page_size"),
    "decode": ("max_running_requests", "num_tokens_per_bs"),
    "autotune_dummy": ("max_running_requests", "num_tokens_per_bs"),
    "autotune_extend": ("chunked_prefill_size",),
}
PADDING_NEEDS = ("tp_size", "dp_size", "attn_cp_size", "cp_zigzag")
NO_COPY = "SGLANG_EAGER_INPUT_NO_COPY"


@dataclass(frozen=True)
class Bound:
    """Capacity under a rule; with `at_least` a lower bound, `max_bs` None where not known."""

    max_bs: int | None
    max_num_tokens: int
    at_least: bool

    @property
    def nbytes(self) -> int:
        """Device bytes of that capacity."""
        return BufferSize(self.max_bs or 0, self.max_num_tokens).nbytes


@dataclass(frozen=True)
class Deployment:
    """Effective values, which of them are unknown, where each came from, and the release asked."""

    values: Mapping[str, Any]
    unknown: frozenset[str]
    sources: Mapping[str, str]
    release: Release
    copies: bool = True  # False under SGLANG_EAGER_INPUT_NO_COPY
    bench: tuple[tuple[int, int], ...] = ()

    @cached_property
    def known(self) -> EngineConfig:
        """The configuration with the least value in place of each unknown field."""
        absent = {n for n in FIELDS if self.values[n] is None and n not in OPTIONAL} | self.unknown
        least = {name: None if name in OPTIONAL else DEFAULTS.get(name, 1) for name in absent}
        if "chunked_prefill_size" in self.unknown:
            least["chunked_prefill_size"] = 1
        return EngineConfig(**{**self.values, **least})

    def variants(self) -> list[Deployment]:
        """This deployment, and for each unknown flag the one that has it on."""
        flags = [name for name in FIELDS if name in FLAGS and name in self.unknown]
        on = [
            replace(self, values={**self.values, name: True}, unknown=self.unknown - {name})
            for name in flags
        ]
        return [self, *on]

    def bound(self, rule: Rule) -> Bound:
        """Capacity under `rule`: a term that needs something unknown counts as 0."""
        config = self.known
        needs_pool = bool(rule.needs_pool(config))
        lacks_pool = needs_pool and config.max_total_num_tokens is None
        zero = dict.fromkeys(("chunked_prefill_size", "max_running_requests"), 0)
        values = {name: given(getattr(config, name)) for name in FIELDS}
        values |= {name: 0 for name in zero if name in self.unknown}
        if not needs_pool:
            values["max_total_num_tokens"] = 0  # keeps the pool out of an unknown chunk's place
        columns = Columns(**values)
        at_least = lacks_pool or bool(self.unknown - {"max_total_num_tokens", "context_len"})
        requests = None if "max_running_requests" in self.unknown else int(rule.max_bs(columns))
        return Bound(requests, max(0, int(rule.max_num_tokens(columns))), at_least)

    def shapes(self) -> list[Shape]:
        """`worst_shapes` of the release, None where an unknown field decides."""
        return [self._mask(shape) for shape in worst_shapes(self.known, self.release.release)]

    def _mask(self, shape: Shape) -> Shape:
        tokens_need = set(TOKENS_NEED.get(shape.producer, ()))
        padding = set(PADDING_NEEDS) if self.known.require_mlp_sync else set()
        if self.unknown & (tokens_need | padding):
            shape = shape._replace(num_tokens=None)
        if "max_running_requests" in self.unknown or self.unknown & padding:
            shape = shape._replace(bs=1 if shape.producer == "profiler_probe" else None)
        return shape if self.copies else shape._replace(copied=False)

    def most_tokens(self, shape: Shape, rule: Rule, bound: Bound) -> int | None:
        """An upper bound of the shape's tokens where it is unknown: every token needs a KV slot.

        Where the buffer holds the same term as the shape, whatever its value, that is the bound.
        """
        if shape.num_tokens is not None:
            return shape.num_tokens
        if self._covered(shape, rule):
            return bound.max_num_tokens
        return None if shape.producer == "decode" else self.known.max_total_num_tokens

    def _covered(self, shape: Shape, rule: Rule) -> bool:
        config = self.known
        if not (rule.pads or not config.require_mlp_sync):
            return False
        if shape.producer == "decode":
            return True
        by_the_chunk = not (config.pp_dynamic_chunking or config.admits_whole_prompts)
        unknown_chunk = "chunked_prefill_size" in self.unknown
        return (
            shape.producer == "prefill"
            and unknown_chunk
            and by_the_chunk
            and not config.attn_tp_input_scattered
        )

    def covers_requests(self, rule: Rule) -> bool:
        """Whether the request axis holds every batch, however many requests there are."""
        return rule.pads or not self.known.require_mlp_sync


def describe(source: Any, release: Release) -> Deployment:
    """A Deployment from an EngineConfig or from a Reading (config, values, unknown, sources)."""
    if isinstance(source, EngineConfig):
        values = {name: getattr(source, name) for name in FIELDS}
        unknown = {"max_total_num_tokens", "context_len"}
        missing = frozenset(name for name in unknown if values[name] is None)
        return Deployment(values, missing, dict.fromkeys(FIELDS, "option"), release)
    values = {name: source.values.get(name, DEFAULTS.get(name)) for name in FIELDS}
    missing = frozenset(source.unknown) & set(FIELDS)
    missing |= {n for n in ("max_total_num_tokens", "context_len") if values[n] is None}
    bench = bench_shapes(source.bench)
    return Deployment(values, missing, source.sources, release, not source.no_copy, bench)


def bench_shapes(bench: Any) -> tuple[tuple[int, int], ...]:
    """(batch size, input length) of every run of a benchmark, from (batch sizes, lengths)."""
    if not bench:
        return ()
    batches, lengths = bench
    return tuple((int(b), int(n)) for b in batches for n in lengths)
