"""PP dynamic chunking: the profiler's probe lengths, the latency fit, and the next chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eagerbuf.sizing import alignment_unit, probe_tokens

PROBES = 128
LEAST_SAMPLES = 8
CONTEXT_MARGIN = 100  # tokens kept free before context_len
SMOOTH_FACTOR = 0.75  # default of SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR


def probe_lengths(chunked_prefill_size: int, max_len: int | None = None) -> list[int]:
    """Tokens of the profiler's probes, longest first: at most 128 of them, each positive.

    Without `max_len` the form up to 0.5.22: int(1.25 * chunk) going down by its 128th, rounded
    down (0 for a chunk up to 102, which makes 128 equal probes). With `max_len` (tokens: the
    context length or a request's row) the form of 0.5.23: clipped to it, steps of at least 1.
    ValueError if the chunk or `max_len` is not positive.
    """
    for name, value in (("chunked_prefill_size", chunked_prefill_size), ("max_len", max_len)):
        if value is None and name == "max_len":
            continue
        if not hasattr(value, "__index__") or value is None or value <= 0:
            raise ValueError(f"{name}={value}: the profiler needs a positive number of tokens")
    longest = probe_tokens(chunked_prefill_size)
    if max_len is None:
        step = longest // PROBES
    else:
        longest = min(longest, max_len)
        step = max(1, longest // PROBES)
    return [length for i in range(PROBES) if (length := longest - i * step) > 0]


@dataclass
class ChunkSizePredictor:
    """Latency model f(l) = a*l^2 + b*l + c, l in tokens and f in milliseconds, and its use.

    Source: SGLang's class of the same name (srt/managers/scheduler_pp_mixin.py to 0.5.20).
    """

    a: float | None = None
    b: float | None = None
    c: float | None = None

    def fit(self, lengths: Sequence[int], latencies_ms: Sequence[float]) -> ChunkSizePredictor:
        """Least squares over all samples but the first (it ran without a warm-up); returns self.

        ValueError with fewer than 8 samples left, unequal counts, a fit that does not converge or
        a quadratic coefficient that is not positive. A negative b becomes 0.
        """
        import numpy as np

        x = np.array(lengths[1:], dtype=np.float64)
        y = np.array(latencies_ms[1:], dtype=np.float64)
        if len(x) < LEAST_SAMPLES:
            raise ValueError(
                f"{len(x)} samples after the first: the fit needs at least {LEAST_SAMPLES}"
            )
        try:
            solution = np.linalg.lstsq(np.column_stack([x * x, x, np.ones_like(x)]), y, rcond=None)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the latency fit failed: {error}") from None
        a, b, c = (float(value) for value in solution[0])
        if not a > 0:  # NaN too, which upstream lets through
            raise ValueError(f"a={a:.2e}: latency must grow with the square of the length (a > 0)")
        self.a, self.b, self.c = a, max(b, 0.0), c
        return self

    def latency_ms(self, length: float) -> float:
        """f(length) in milliseconds; ValueError before `fit`."""
        if self.a is None or self.b is None or self.c is None:
            raise ValueError("the predictor has no coefficients yet: call fit first")
        return self.a * length * length + self.b * length + self.c

    def target_ms(self, base_chunk_size: int) -> float:
        """What one chunk may cost, f(base_chunk_size) - f(0); ValueError if not positive."""
        target = self.latency_ms(float(base_chunk_size)) - self.latency_ms(0.0)
        if target <= 0:
            raise ValueError(
                f"base_chunk_size={base_chunk_size}: target latency {target:.2f} ms, not positive"
            )
        return target

    def predict(
        self,
        history_len: int,
        base_chunk_size: int,
        *,
        page_size: int,
        context_len: int,
        max_chunk_size: int | None = None,
        smooth_factor: float = SMOOTH_FACTOR,
    ) -> int | None:
        """Tokens of the next chunk after `history_len` tokens, or None (keep the static chunk).

        Solves f(L + x) - f(L) = f(chunk) - f(0), smooths x toward the chunk, keeps at least a
        quarter of it, and rounds down to max(page_size, 64) tokens, at least one such unit, under
        `max_chunk_size` and 100 tokens below `context_len`. None before `fit`.
        """
        if self.a is None:
            return None
        target = self.target_ms(base_chunk_size)
        exact = self._solve(history_len, target)
        if exact is None:
            return None
        smoothed = base_chunk_size + smooth_factor * (exact - base_chunk_size)
        wanted = max(int(smoothed), base_chunk_size // 4)
        unit = alignment_unit(page_size)
        room = context_len - history_len - CONTEXT_MARGIN
        if max_chunk_size is not None:
            room = min(room, max_chunk_size)
        chunk = int(min(max(wanted // unit * unit, unit), room) // unit * unit)
        return chunk if chunk >= unit else None

    def _solve(self, history_len: int, target: float) -> float | None:
        """The positive root of a*x^2 + (2*a*L + b)*x = target, None where there is none.

        There is one where a > 0, but far along it may be rounded to 0; upstream solves no other.
        """
        assert self.a is not None
        assert self.b is not None
        if self.a <= 0:
            return None
        slope = 2 * self.a * history_len + self.b
        root = (-slope + math.sqrt(slope * slope + 4 * self.a * target)) / (2 * self.a)
        return root if root > 0 else None
