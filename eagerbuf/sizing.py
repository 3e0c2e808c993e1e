"""How SGLang sizes the eager runner's input buffers: the whole formula.

From the top: what each batch source can send, the padding of the scheduler, the four rules, and
the size of a configuration or of a table of them. Numbers are tokens unless said otherwise; one
formula serves an int and a column. `pool` is `max_total_num_tokens`, the tokens of the KV pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from eagerbuf._arrays import Int, largest, smallest, where
from eagerbuf._arrays import ceil_align as ceil_align
from eagerbuf.config import EngineConfig, given, negate, over

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.config import Config

DYNAMIC_CHUNK_ALIGNMENT = 64  # tokens; the chunk predictor rounds to max(page_size, this)
TOKEN_BYTES = 48  # input_ids, positions, out_cache_loc: int64 each; mrope_positions: 3 x int64
REQUEST_BYTES = 16  # req_pool_indices, seq_lens: int64 each (seq_lens_cpu is on the host)


# --- what SGLang reserves for prefill (PR #28677) ---


def max_prefill_buffer_tokens(config: Config[Int]) -> Int:
    """Tokens SGLang reserves for prefill: the chunk, or the probe's reach if chunks are dynamic.

    0 with chunking off. Source: PR #28677, `ServerArgs.max_prefill_buffer_tokens` (0.5.14).
    """
    grown = largest(config.chunk, config.max_prefill_tokens, probe_ceiling(config.chunk))
    return where(config.pp_dynamic_chunking & config.chunking, grown, config.chunk)


# --- what each batch source can send, in tokens, before the scheduler pads it ---


def prefill(config: Config[Int]) -> Int:
    """The largest prefill batch, decode tokens of a mixed batch included."""
    return where(config.scheduler_chunking, config.scheduler_chunk, whole_prefill(config))


def whole_prefill(config: Config[Int]) -> Int:
    """The largest prefill batch when prompts are admitted whole; needs the pool.

    The first request is always taken; more only while they fit what is left of
    `max_prefill_tokens`. With the radix cache off, `ignore_eos` requests take a path that looks
    at what is left only after adding.
    """
    longest = longest_prompt(config)
    late_look = config.max_prefill_tokens - 1 + longest
    early_look = largest(config.max_prefill_tokens, longest)
    bound = where(config.disable_radix_cache, late_look, early_look)
    return smallest(largest(bound, longest), given(config.max_total_num_tokens))


def longest_prompt(config: Config[Int]) -> Int:
    """The longest prompt one prefill can hold: min(context_len, pool) - 1."""
    pool = given(config.max_total_num_tokens)
    context = given(config.context_len)
    return where(over(context, 0), smallest(context, pool), pool) - 1


def profiler_probe(config: Config[Int]) -> Int:
    """The longest probe of the latency profiler, 0 where none is sent."""
    return where(config.profiles, probe_tokens(config.chunk), 0)


def probe_tokens(chunk: Int) -> Int:
    """What the profiler sends: int(1.25 * chunk), exact in whole numbers."""
    return 5 * chunk // 4


def probe_ceiling(chunk: Int) -> Int:
    """What SGLang reserves for that probe: ceil(1.25 * chunk)."""
    return -(-5 * chunk // 4)


def dynamic_chunk(config: Config[Int]) -> Int:
    """The largest predicted chunk, 0 without a predictor.

    The latency model is convex, so a prediction never exceeds the chunk, except that it is at
    least one alignment unit where `max_prefill_tokens` allows one.
    """
    unit = alignment_unit(config.page_size)
    reachable_unit = where(unit <= config.max_prefill_tokens, unit, 0)
    return where(config.profiles, largest(config.chunk, reachable_unit), 0)


def alignment_unit(page_size: Int) -> Int:
    """What the chunk predictor rounds down to a multiple of, and never goes below."""
    return largest(page_size, DYNAMIC_CHUNK_ALIGNMENT)


def decode(config: Config[Int]) -> Int:
    """The largest decode or verify batch: max_running_requests * num_tokens_per_bs."""
    return config.max_running_requests * config.num_tokens_per_bs


# --- how the scheduler pads a batch ---


def sync_align(config: Config[Int], x: Int) -> Int:
    """`x` padded as MLP sync pads: up to attention TP, then to CP; unchanged without MLP sync."""
    padded = ceil_align(ceil_align(x, config.attn_tp_size), config.cp_align_size)
    return where(config.require_mlp_sync, padded, x)


def padded_extend(config: Config[Int], tokens: Int) -> Int:
    """Tokens of a prefill batch after padding: MLP sync, then scattering over attention TP."""
    aligned = sync_align(config, tokens)
    return where(config.attn_tp_input_scattered, ceil_align(aligned, config.tp_size), aligned)


def padded_decode(config: Config[Int], requests: Int) -> tuple[Int, Int]:
    """(tokens, requests) of a decode or verify batch after padding.

    MLP sync pads the tokens; the batch then has a row for each whole request in them.
    """
    tokens = sync_align(config, requests * config.num_tokens_per_bs)
    return tokens, largest(requests, tokens // config.num_tokens_per_bs)


# --- the rules: three of SGLang, and the largest batch that is copied ---


class Formula(Protocol):
    """From a configuration to a number, or from a table of them to a column."""

    def __call__(self, config: Config[Int], /) -> Int:
        """The number, or the column."""


@dataclass(frozen=True)
class Rule:
    """One way to size the buffers: what it is, where it lived, and its formulas."""

    name: str
    lived: str
    formula: str
    pads: bool  # whether it pads as MLP sync does, so that a padded batch fits as the raw one does
    max_bs: Formula
    max_num_tokens: Formula
    needs_pool: Callable[[Config[Any]], Any]  # a bool, or a column of them


def _aligned_requests(config: Config[Int]) -> Int:
    return sync_align(config, config.max_running_requests)


def _padded_requests(config: Config[Int]) -> Int:
    return padded_decode(config, config.max_running_requests)[1]


def _chunk_or_pool(config: Config[Int]) -> Int:
    prefill = where(config.chunking, config.chunk, given(config.max_total_num_tokens))
    return largest(prefill, decode(config))


def prefill_or_decode(config: Config[Int], requests: Int) -> Int:
    """Tokens of rule pr28677 before they are aligned, for `requests` aligned ones."""
    pool = given(config.max_total_num_tokens)
    prefill = where(config.chunking, max_prefill_buffer_tokens(config), pool)
    return largest(prefill, requests * config.num_tokens_per_bs)


def _prefill_buffer_or_pool(config: Config[Int]) -> Int:
    return sync_align(config, prefill_or_decode(config, _aligned_requests(config)))


def _pool_at_least(config: Config[Int]) -> Int:
    tokens = largest(
        given(config.max_total_num_tokens),
        max_prefill_buffer_tokens(config),
        _aligned_requests(config) * config.num_tokens_per_bs,
    )
    return sync_align(config, tokens)


def _largest_copied(config: Config[Int]) -> Int:
    sent = largest(prefill(config), profiler_probe(config), dynamic_chunk(config), decode(config))
    return padded_extend(config, sent)


_RULES = (
    Rule(
        "pr28386",
        "main between two merges of 2026-06-19, in no release",
        "max(chunk if chunk > 0 else max_total_num_tokens, max_bs * num_tokens_per_bs)",
        False,
        lambda config: config.max_running_requests,
        _chunk_or_pool,
        lambda config: negate(config.chunking),
    ),
    Rule(
        "pr28677",
        "0.5.14",
        "align(max(max_prefill_buffer_tokens if chunk > 0 else max_total_num_tokens, "
        "max_bs * num_tokens_per_bs))",
        True,
        _aligned_requests,
        _prefill_buffer_or_pool,
        lambda config: negate(config.chunking),
    ),
    Rule(
        "pr28894",
        "0.5.15 to 0.5.23",
        "align(max(max_total_num_tokens, max_prefill_buffer_tokens, max_bs * num_tokens_per_bs))",
        True,
        _aligned_requests,
        _pool_at_least,
        lambda _: True,
    ),
    Rule(
        "tight",
        "eagerbuf: the largest batch that the scheduler and the profiler copy",
        "align(max(prefill, profiler_probe, dynamic_chunk, decode))",
        True,
        _padded_requests,
        _largest_copied,
        lambda config: negate(config.scheduler_chunking),
    ),
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})


def find_rule(name: str) -> Rule:
    """The rule called `name`; ValueError listing the known ones."""
    if name not in RULES:
        raise ValueError(f"rule={name!r}: unknown, give one of {', '.join(RULES)}")
    return RULES[name]


# --- the size of one configuration, and of a table of them ---


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
