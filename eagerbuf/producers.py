"""The largest batch each producer of shapes can make, in tokens, before the scheduler pads it.

One formula for a single configuration and for columns. `pool` below is `max_total_num_tokens`.
"""

from __future__ import annotations

from typing import Any

from eagerbuf._arrays import largest, smallest, where
from eagerbuf.config import given, negate

DYNAMIC_CHUNK_ALIGNMENT = 64  # tokens; the chunk predictor rounds to max(page_size, this)


def probe_tokens(chunk: Any) -> Any:
    """The profiler's longest probe, int(1.25 * chunk) tokens (exact in whole numbers)."""
    return 5 * chunk // 4


def probe_ceiling(chunk: Any) -> Any:
    """What SGLang reserves for that probe, ceil(1.25 * chunk) tokens (PR #28677)."""
    return -(-5 * chunk // 4)


def profiles(config: Any) -> Any:
    """Whether start-up sends probes: PP dynamic chunking with a chunk that the scheduler uses."""
    return config.pp_dynamic_chunking & config.scheduler_chunking


def profile_fails(config: Any) -> Any:
    """Whether the profile is certain to fail: PP dynamic chunking with no chunk to multiply."""
    return config.pp_dynamic_chunking & negate(config.scheduler_chunking)


def profiler_probe(config: Any) -> Any:
    """Tokens of the longest probe, 0 where none is sent."""
    return where(profiles(config), probe_tokens(config.chunk), 0)


def alignment_unit(config: Any) -> Any:
    """Tokens the chunk predictor rounds down to a multiple of, and never goes below."""
    return largest(config.page_size, DYNAMIC_CHUNK_ALIGNMENT)


def dynamic_chunk(config: Any) -> Any:
    """Tokens of the largest predicted chunk, 0 without a predictor.

    The latency model is convex, so a prediction never exceeds the chunk, except that it is at
    least one alignment unit where `max_prefill_tokens` allows one.
    """
    unit = alignment_unit(config)
    reachable_unit = where(unit <= config.max_prefill_tokens, unit, 0)
    return where(profiles(config), largest(config.chunk, reachable_unit), 0)


def longest_prompt(config: Any) -> Any:
    """Tokens of the longest prompt one prefill can hold: min(context_len, pool) - 1."""
    pool = given(config.max_total_num_tokens)
    context = given(config.context_len)
    return where(context > 0, smallest(context, pool), pool) - 1


def whole_prefill(config: Any) -> Any:
    """Tokens of the largest prefill batch when prompts are admitted whole; needs the pool.

    The first request is always taken; more only while they fit what is left of
    `max_prefill_tokens`. With the radix cache off, `ignore_eos` requests take a path that looks
    at what is left only after adding.
    """
    longest = longest_prompt(config)
    late_look = config.max_prefill_tokens - 1 + longest
    bound = where(
        config.disable_radix_cache, late_look, largest(config.max_prefill_tokens, longest)
    )
    return smallest(largest(bound, longest), given(config.max_total_num_tokens))


def prefill(config: Any) -> Any:
    """Tokens of the largest prefill batch, decode tokens of a mixed batch included."""
    return where(config.scheduler_chunking, config.scheduler_chunk, whole_prefill(config))


def decode(config: Any) -> Any:
    """Tokens of the largest decode or verify batch: max_running_requests * num_tokens_per_bs."""
    return config.max_running_requests * config.num_tokens_per_bs
