"""FlashInfer 0.6.12's tuning buckets, and the range SGLang asks it to tune (stdlib only)."""

from __future__ import annotations

from bisect import bisect_left

_POWERS_END, _FINE_END, _COARSE_END = 256, 2048, 4096  # tokens
_RUNGS = (
    *(1 << exponent for exponent in range(_POWERS_END.bit_length())),
    *range(_POWERS_END + 256, _FINE_END + 1, 256),
    *range(_FINE_END + 512, _COARSE_END + 1, 512),
)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 1 for `n` < 1."""
    return 1 if n < 2 else 1 << (n - 1).bit_length()


def tune_max_num_tokens(num_tokens: int) -> int:
    """The end of the range that SGLang 0.5.14 has FlashInfer tune for a batch of `num_tokens`."""
    return next_power_of_2(num_tokens)


def hybrid_buckets(max_num_tokens: int) -> tuple[int, ...]:
    """Token counts that FlashInfer 0.6.12 tunes up to `max_num_tokens`, ascending.

    Powers of two up to 256, steps of 256 up to 2048, steps of 512 up to 4096, powers of two
    beyond, and always the maximum itself, even one below 1. Same values as
    `get_hybrid_num_tokens_buckets` (flashinfer/fused_moe/utils.py).
    """
    beyond = (1 << exponent for exponent in range(_COARSE_END.bit_length(), _bits(max_num_tokens)))
    rungs = (rung for rung in (*_RUNGS, *beyond) if rung <= max_num_tokens)
    return tuple(sorted({*rungs, max_num_tokens}))


def hybrid_bucket(x: int, max_num_tokens: int) -> int:
    """The bucket that a live batch of `x` tokens uses: the next one up, at most the maximum.

    As released: 1 for `x` <= 0 whatever the maximum, the maximum for `x` at or past it, and up
    to 256 tokens the next power of two even where that is past the maximum. Same values as
    `map_to_hybrid_bucket` (flashinfer/fused_moe/utils.py, 0.6.12).
    """
    if x <= 0:
        return 1
    if x >= max_num_tokens:
        return max_num_tokens
    return _rung(x) if x <= _POWERS_END else min(_rung(x), max_num_tokens)


def _rung(x: int) -> int:
    """The smallest bucket that is at least `x`, were there no maximum."""
    at = bisect_left(_RUNGS, x)
    return _RUNGS[at] if at < len(_RUNGS) else next_power_of_2(x)


def _bits(n: int) -> int:
    return max(n, 0).bit_length()
