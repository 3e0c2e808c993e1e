"""The three remarks of the review of PR #28677, each left out once: what breaks, what is wasted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from eagerbuf._arrays import ceil_align, largest, where
from eagerbuf.config import EngineConfig
from eagerbuf.shapes import worst_shapes
from eagerbuf.sizing import BufferSize, buffer_size, prefill_or_decode, sync_align

if TYPE_CHECKING:
    from pandas import DataFrame


def static_chunk_too(config: EngineConfig) -> BufferSize:
    """Remark 1 left out: `max_prefill_tokens` counts for static chunks as well."""
    size = buffer_size(config, "pr28677")
    reserved = sync_align(config, largest(config.chunk, config.max_prefill_tokens))
    return BufferSize(size.max_bs, largest(size.max_num_tokens, reserved))


def no_cp_step(config: EngineConfig) -> BufferSize:
    """Remark 2 left out: padding follows attention TP only, not the CP step after it."""
    return _sized(config, lambda x: ceil_align(x, config.attn_tp_size))


def raw_token_ceiling(config: EngineConfig) -> BufferSize:
    """Remark 3 left out: the request axis is aligned, the token axis is not."""
    requests = sync_align(config, config.max_running_requests)
    return BufferSize(requests, prefill_or_decode(config, requests))


REMARKS: Mapping[str, Callable[[EngineConfig], BufferSize]] = {
    "max_prefill_tokens only if dynamic": static_chunk_too,
    "mirror the CP step": no_cp_step,
    "align the token ceiling": raw_token_ceiling,
}


def _sized(config: EngineConfig, pad: Callable[[int], int]) -> BufferSize:
    """Rule pr28677 with `pad` in place of the full alignment."""

    def align(x: int) -> int:
        return where(config.require_mlp_sync, pad(x), x)

    requests = align(config.max_running_requests)
    return BufferSize(requests, align(prefill_or_decode(config, requests)))


def ablate(configs: Mapping[str, EngineConfig]) -> DataFrame:
    """Each remark left out on each configuration (chunking on), one row a pair.

    Columns: remark, deployment, tokens_short and requests_short (what the largest batch lacks),
    tokens_spare (what is reserved over the tight ceiling), spare_before (the same with the remark).
    """
    import pandas as pd

    rows = [
        {"remark": remark, "deployment": name, **_compare(config, sized(config))}
        for remark, sized in REMARKS.items()
        for name, config in configs.items()
    ]
    return pd.DataFrame(rows)


def _compare(config: EngineConfig, size: BufferSize) -> dict[str, int]:
    copied = [s for s in worst_shapes(config) if s.copied and s.in_scheduler]
    tokens = max(shape.num_tokens or 0 for shape in copied)
    requests = max(shape.bs or 0 for shape in copied)
    tight = buffer_size(config, "tight").max_num_tokens
    kept = buffer_size(config, "pr28677").max_num_tokens
    return {
        "tokens_short": max(0, tokens - size.max_num_tokens),
        "requests_short": max(0, requests - size.max_bs),
        "tokens_spare": max(0, size.max_num_tokens - tight),
        "spare_before": kept - tight,
    }
