"""The number that sizes prefill in SGLang, as released and as the longest probe needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf import sizing
from eagerbuf._arrays import Int, where
from eagerbuf.sizing import max_prefill_buffer_tokens

if TYPE_CHECKING:
    from eagerbuf.config import Config

__all__ = ["needed_tokens", "reserved_tokens", "wasted_tokens"]

reserved_tokens = max_prefill_buffer_tokens  # tokens a consumer gets, as released


def needed_tokens(config: Config[Int]) -> Int:
    """Tokens that any prefill batch or probe can have: what `--max-prefill-tokens` need not pass.

    The chunk; ceil(1.25 * chunk) where PP dynamic chunking probes. 0 with chunking off.
    """
    probing = config.pp_dynamic_chunking & config.chunking
    return where(probing, sizing.probe_ceiling(config.chunk), config.chunk)


def wasted_tokens(config: Config[Int]) -> Int:
    """Tokens reserved beyond those, 0 where `max_prefill_tokens` does not decide."""
    return reserved_tokens(config) - needed_tokens(config)
