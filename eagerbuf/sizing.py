"""How SGLang sizes the eager runner's input buffers: three upstream rules and the tight one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from eagerbuf import producers
from eagerbuf._arrays import ceil_align, largest, where
from eagerbuf.config import EngineConfig, given, negate

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "RULES",
    "BufferSize",
    "Rule",
    "buffer_size",
    "ceil_align",
    "max_prefill_buffer_tokens",
    "size_many",
    "sync_align",
]

TOKEN_BYTES = 48  # input_ids, positions, out_cache_loc: int64 each; mrope_positions: 3 x int64
REQUEST_BYTES = 16  # req_pool_indices, seq_lens: int64 each (seq_lens_cpu is on the host)


@dataclass(frozen=True)
class BufferSize:
    """Capacity of the static input buffers: `max_bs` requests and `max_num_tokens` tokens."""

    max_bs: int
    max_num_tokens: int

    @property
    def nbytes(self) -> int:
        """Device bytes of the static slots: 48 a token and 16 a request."""
        return TOKEN_BYTES * self.max_num_tokens + REQUEST_BYTES * self.max_bs

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        rows = [
            ("max_bs", self.max_bs, "requests"),
            ("max_num_tokens", self.max_num_tokens, "tokens"),
            ("nbytes", self.nbytes, "bytes on the device"),
        ]
        return html_table("BufferSize", rows)


@dataclass(frozen=True)
class Rule:
    """One way to size the buffers: what it is, where it lived, and its formulas."""

    name: str
    lived: str
    formula: str
    pads: bool  # whether it pads as MLP sync does, so that a padded batch fits as the raw one does
    max_bs: Callable[[Any], Any]
    max_num_tokens: Callable[[Any], Any]
    needs_pool: Callable[[Any], Any]


def sync_align(config: Any, x: Any) -> Any:
    """`x` padded as MLP sync pads: up to attention TP, then to CP; unchanged without MLP sync."""
    padded = ceil_align(ceil_align(x, config.attn_tp_size), config.cp_align_size)
    return where(config.require_mlp_sync, padded, x)


def padded_extend(config: Any, tokens: Any) -> Any:
    """Tokens of a prefill batch after padding: MLP sync, then scattering over attention TP."""
    aligned = sync_align(config, tokens)
    return where(config.attn_tp_input_scattered, ceil_align(aligned, config.tp_size), aligned)


def padded_decode(config: Any, requests: Any) -> tuple[Any, Any]:
    """(tokens, requests) of a decode or verify batch after padding.

    MLP sync pads the tokens; the batch then has a row for each whole request in them.
    """
    tokens = sync_align(config, requests * config.num_tokens_per_bs)
    return tokens, largest(requests, tokens // config.num_tokens_per_bs)


def max_prefill_buffer_tokens(config: Any) -> Any:
    """Tokens SGLang reserves for prefill: the chunk, or the probe's reach if chunks are dynamic.

    0 with chunking off. Source: PR #28677, `ServerArgs.max_prefill_buffer_tokens` (0.5.14).
    """
    chunk = config.chunk
    grown = largest(chunk, config.max_prefill_tokens, producers.probe_ceiling(chunk))
    return where(config.pp_dynamic_chunking & config.chunking, grown, chunk)


def _requests(config: Any) -> Any:
    return config.max_running_requests


def _aligned_requests(config: Any) -> Any:
    return sync_align(config, config.max_running_requests)


def _padded_requests(config: Any) -> Any:
    return padded_decode(config, config.max_running_requests)[1]


def _chunk_or_pool(config: Any) -> Any:
    prefill = where(config.chunking, config.chunk, given(config.max_total_num_tokens))
    return largest(prefill, config.max_running_requests * config.num_tokens_per_bs)


def prefill_or_decode(config: Any, requests: Any) -> Any:
    """Tokens of rule pr28677 before they are aligned, for `requests` aligned ones."""
    pool = given(config.max_total_num_tokens)
    prefill = where(config.chunking, max_prefill_buffer_tokens(config), pool)
    return largest(prefill, requests * config.num_tokens_per_bs)


def _prefill_buffer_or_pool(config: Any) -> Any:
    return sync_align(config, prefill_or_decode(config, _aligned_requests(config)))


def _pool_at_least(config: Any) -> Any:
    tokens = largest(
        given(config.max_total_num_tokens),
        max_prefill_buffer_tokens(config),
        _aligned_requests(config) * config.num_tokens_per_bs,
    )
    return sync_align(config, tokens)


def _tight(config: Any) -> Any:
    tokens = largest(
        producers.prefill(config),
        producers.profiler_probe(config),
        producers.dynamic_chunk(config),
        producers.decode(config),
    )
    return padded_extend(config, tokens)


def _without_chunk(config: Any) -> Any:
    return negate(config.chunking)


def _without_scheduler_chunk(config: Any) -> Any:
    return negate(config.scheduler_chunking)


def _always(config: Any) -> Any:
    del config
    return True


_RULES = (
    Rule(
        "pr28386",
        "main between two merges of 2026-06-19, in no release",
        "max(chunk if chunk > 0 else max_total_num_tokens, max_bs * num_tokens_per_bs)",
        False,
        _requests,
        _chunk_or_pool,
        _without_chunk,
    ),
    Rule(
        "pr28677",
        "0.5.14",
        "align(max(max_prefill_buffer_tokens if chunk > 0 else max_total_num_tokens, "
        "max_bs * num_tokens_per_bs))",
        True,
        _aligned_requests,
        _prefill_buffer_or_pool,
        _without_chunk,
    ),
    Rule(
        "pr28894",
        "0.5.15 to 0.5.23",
        "align(max(max_total_num_tokens, max_prefill_buffer_tokens, max_bs * num_tokens_per_bs))",
        True,
        _aligned_requests,
        _pool_at_least,
        _always,
    ),
    Rule(
        "tight",
        "eagerbuf: the largest batch that the scheduler and the profiler copy",
        "align(max(prefill, profiler_probe, dynamic_chunk, decode))",
        True,
        _padded_requests,
        _tight,
        _without_scheduler_chunk,
    ),
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})


def find_rule(name: str) -> Rule:
    """The rule called `name`; ValueError listing the known ones."""
    if name not in RULES:
        raise ValueError(f"rule={name!r}: unknown, give one of {', '.join(RULES)}")
    return RULES[name]


def buffer_size(config: EngineConfig, rule: str) -> BufferSize:
    """Size of the static buffers of one rank, in requests and tokens, under `rule` (see RULES).

    ValueError naming max_total_num_tokens where the rule needs the KV pool and it is None.
    """
    chosen = find_rule(rule)
    if config.max_total_num_tokens is None and chosen.needs_pool(config):
        raise ValueError(
            f"max_total_num_tokens=None: rule {rule} needs the size of the KV pool here "
            "(it is in the start-up log)"
        )
    return BufferSize(chosen.max_bs(config), chosen.max_num_tokens(config))


def size_many(frame: DataFrame, rule: str) -> DataFrame:
    """Sizes of many configurations at once, one a row, by the same formulas as `buffer_size`.

    `frame` has columns named as EngineConfig's fields; missing columns take its defaults, NaN
    means None (the default where a field cannot be None). Returns `max_bs` (requests) and
    `max_num_tokens` (tokens) as Int64 on the same index, <NA> where the rule needs a KV pool that
    is not given. ValueError names column and row.
    """
    import numpy as np

    from eagerbuf._frames import config_columns, nullable

    chosen = find_rule(rule)
    config = config_columns(frame)
    missing = (config.max_total_num_tokens == 0) & chosen.needs_pool(config)
    return nullable(
        frame.index,
        max_bs=(chosen.max_bs(config), np.zeros(len(frame), bool)),
        max_num_tokens=(chosen.max_num_tokens(config), missing),
    )
