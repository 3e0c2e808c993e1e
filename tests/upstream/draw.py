"""Seeded random configurations, prompts and latencies, made with numpy so that many are cheap."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

SEED = 28894
BACKENDS = ("none", "deepep", "flashinfer", "mooncake")
CHUNKS = (1, 32, 64, 100, 102, 103, 512, 2048, 3072, 4096, 8100, 8192, 16384, 65536)


def cases() -> int:
    """How many cases a formula is compared on: 20,000, a million with EAGERBUF_MILLION=1."""
    return 1_000_000 if million() else 20_000


def batches() -> int:
    """How many batches a search for a larger one makes: 100,000, or as many as `cases`."""
    return 1_000_000 if million() else 100_000


def million() -> bool:
    """The switch EAGERBUF_MILLION."""
    return os.environ.get("EAGERBUF_MILLION", "") not in ("", "0")


def generator(salt: int = 0) -> np.random.Generator:
    return np.random.default_rng([SEED, salt])


def configs(count: int, salt: int = 0) -> pd.DataFrame:
    """Rows of EngineConfig fields that any release could run with: awkward and usual numbers."""
    rng = generator(salt)
    dp_attention = rng.random(count) < 0.4
    dp = np.where(dp_attention, rng.choice([2, 3, 4, 8], count), rng.choice([1, 2, 4], count))
    cp = rng.choice([1, 2, 3, 4], count, p=[0.6, 0.2, 0.1, 0.1])
    attn_tp = rng.choice([1, 2, 3, 4, 8, 12, 16], count)
    columns = {
        "chunked_prefill_size": _chunks(rng, count),
        "max_running_requests": _magnitudes(rng, count, 4),
        "max_prefill_tokens": np.where(rng.random(count) < 0.1, 0, _magnitudes(rng, count, 5)),
        "max_total_num_tokens": _magnitudes(rng, count, 8),
        "tp_size": attn_tp * cp * np.where(dp_attention, dp, 1),
        "pp_size": rng.choice([1, 2, 4], count),
        "dp_size": dp,
        "attn_cp_size": cp,
        "cp_zigzag": (cp > 1) & (rng.random(count) < 0.5),
        "enable_dp_attention": dp_attention,
        "enable_dynamic_chunking": rng.random(count) < 0.6,
        "disable_attn_tp_gather": rng.random(count) < 0.2,
        "moe_a2a_backend": rng.choice(BACKENDS, count, p=[0.6, 0.2, 0.1, 0.1]),
        "moe_dense_tp_size": np.where(rng.random(count) < 0.3, rng.choice([1, 2], count), np.nan),
        "num_tokens_per_bs": rng.choice([1, 1, 2, 3, 4, 5, 8, 32], count),
    }
    return pd.DataFrame(columns)


def _chunks(rng: np.random.Generator, count: int) -> Any:
    """None, -1, 0, usual sizes and any number up to 100,000."""
    usual = rng.choice(CHUNKS, count).astype(float)
    sizes = np.where(rng.random(count) < 0.5, usual, _magnitudes(rng, count, 5))
    off = rng.choice([np.nan, -1.0, 0.0], count)
    return np.where(rng.random(count) < 0.15, off, sizes)


def _magnitudes(rng: np.random.Generator, count: int, digits: int) -> Any:
    """Whole numbers from 1 to 10**digits, small and large ones equally often."""
    return np.floor(10 ** rng.uniform(0, digits, count)).astype(np.int64)


def optional(value: Any) -> int | None:
    """A number of a column, NaN as None."""
    return None if value != value else int(value)
