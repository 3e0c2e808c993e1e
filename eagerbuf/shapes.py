"""Every batch source, the largest shape it can make, and the padding of MLP sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eagerbuf import sizing
from eagerbuf._arrays import ceil_align
from eagerbuf.config import EngineConfig
from eagerbuf.releases import Release, find_release
from eagerbuf.sizing import (
    find_rule,
    max_prefill_buffer_tokens,
    padded_decode,
    padded_extend,
)


class Shape(NamedTuple):
    """The largest batch of one source: tokens and requests after the scheduler's padding.

    `num_tokens` or `bs` is None where it depends on a KV pool of unknown size. `copied`: whether
    it is copied into the eager runner's buffers. `in_scheduler`: whether the scheduler or its
    profiler makes it.
    """

    producer: str
    num_tokens: int | None
    bs: int | None
    copied: bool
    in_scheduler: bool
    formula: str


def mlp_sync_pad(
    num_tokens: Sequence[int], *, attn_tp_size: int, cp_align_size: int, is_extend: bool
) -> tuple[str, list[int]]:
    """Token counts of the DP ranks (one entry a rank) as MLP sync pads them, and its mode.

    Each count is aligned to `attn_tp_size`, then to `cp_align_size`. Mode "max_len" pads all to
    the largest, "sum_len" does not; an extend batch over more than one rank uses "sum_len".
    Source: `prepare_mlp_sync_batch` and `get_dp_padding_mode` of SGLang 0.5.14 (models without
    state-space layers). ValueError without a rank or with a negative count.
    """
    counts = [int(n) for n in num_tokens]
    if not counts or min(counts) < 0:
        raise ValueError(f"num_tokens={counts}: give a count >= 0 for each DP rank")
    padded = [ceil_align(ceil_align(n, attn_tp_size), cp_align_size) for n in counts]
    most, ranks = max(padded), len(padded)
    if (is_extend and ranks > 1) or 2 * sum(padded) < most * ranks:
        return "sum_len", padded
    return "max_len", [most] * ranks


def worst_shapes(config: EngineConfig, release: str | None = None) -> list[Shape]:
    """The largest shape of every batch source that exists under `config` in `release`.

    Sources (`producer`): prefill, profiler_probe, dynamic_chunk, decode, autotune_dummy,
    autotune_extend, benchmark. `release` None means the newest known. ValueError for an unknown
    release.
    """
    known = find_release(release)
    found = [_prefill(config), *_profiler(config, known), _decode(config)]
    if known.sizing_rule is not None:
        found += _autotune(config, known, known.sizing_rule)
    return [*found, _benchmark(config)]


def _extend(config: EngineConfig, producer: str, tokens: int, bs: int, formula: str) -> Shape:
    return Shape(producer, padded_extend(config, tokens), bs, True, True, formula)


def _prefill(config: EngineConfig) -> Shape:
    requests = config.max_running_requests
    if config.scheduler_chunking:
        tokens = sizing.prefill(config)
        return _extend(config, "prefill", tokens, min(requests, tokens), "chunk")
    late = config.disable_radix_cache
    bound = "max_prefill_tokens - 1 + longest" if late else "max(max_prefill_tokens, longest)"
    formula = f"min({bound}, max_total_num_tokens)"
    if config.max_total_num_tokens is None:
        return Shape("prefill", None, requests, True, True, formula)
    tokens = sizing.prefill(config)
    return _extend(config, "prefill", tokens, min(requests, tokens), formula)


def _profiler(config: EngineConfig, known: Release) -> list[Shape]:
    if not config.profiles:
        return []
    probe, formula = sizing.profiler_probe(config), "int(1.25 * chunk)"
    if known.probe_clipped_to_context and config.context_len is not None:
        probe, formula = min(probe, config.context_len), "min(int(1.25 * chunk), context_len)"
    chunk = sizing.dynamic_chunk(config)
    unit = "max(chunk, max(page_size, 64) if max_prefill_tokens allows it)"
    return [
        _extend(config, "profiler_probe", probe, 1, formula),
        _extend(config, "dynamic_chunk", chunk, min(config.max_running_requests, chunk), unit),
    ]


def _decode(config: EngineConfig) -> Shape:
    tokens, requests = padded_decode(config, config.max_running_requests)
    formula = "align(max_running_requests * num_tokens_per_bs)"
    return Shape("decode", tokens, requests, True, True, formula)


def _autotune(config: EngineConfig, known: Release, rule: str) -> list[Shape]:
    requests = find_rule(rule).max_bs(config)
    tokens = requests * config.num_tokens_per_bs
    formula = "max_bs * num_tokens_per_bs, in buffers of its own"
    shapes = [Shape("autotune_dummy", tokens, requests, False, False, formula)]
    ceiling = max_prefill_buffer_tokens(config)
    if known.extend_autotune and ceiling > 0:
        text = "max_prefill_buffer_tokens, in buffers of its own; off unless asked for"
        shapes.append(Shape("autotune_extend", ceiling, 1, False, False, text))
    return shapes


def _benchmark(config: EngineConfig) -> Shape:
    """A benchmark that bypasses the scheduler is bounded by the KV pool alone."""
    pool = config.max_total_num_tokens
    return Shape("benchmark", pool, None, True, False, "batch size * input length, within the pool")
