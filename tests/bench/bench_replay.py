"""The replay of a whole trace, and of its beginnings."""

from __future__ import annotations

import pandas as pd
import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, replay
from tests.bench.conftest import REQUESTS, Measure

CONFIG = EngineConfig(8192, 256, max_total_num_tokens=665_690, context_len=131_072)
LATENCY = ChunkSizePredictor(a=2e-7, b=0.02, c=15.0)  # milliseconds


@pytest.mark.parametrize("requests", [100, 1_000, 10_000, REQUESTS])
def test_replay(measure: Measure, trace: pd.DataFrame, requests: int) -> None:
    beginning = trace.head(requests)
    batches = measure(
        lambda: replay(beginning, CONFIG, predictor=LATENCY, progress=False),
        of="replay",
        case=f"{len(beginning):,} requests",
        work=len(beginning),
        times=1,
        rounds=3,
    )
    assert batches.attrs["finished"] + batches.attrs["dropped"] == len(beginning)
