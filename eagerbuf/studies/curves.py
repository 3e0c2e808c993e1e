"""Curves of PP dynamic chunking: the probes, the fitted latency, the chunk that is predicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eagerbuf.config import EngineConfig
from eagerbuf.predictor import ChunkSizePredictor, probe_lengths
from eagerbuf.sizing import probe_ceiling

if TYPE_CHECKING:
    from pandas import DataFrame


def probe_table(config: EngineConfig, capacity: int) -> DataFrame:
    """The profiler's probes in order against a buffer of `capacity` tokens.

    Columns: probe (0 to 127), num_tokens, fits. ValueError with chunking off.
    """
    import pandas as pd

    lengths = probe_lengths(config.chunk)
    frame = pd.DataFrame({"probe": range(len(lengths)), "num_tokens": lengths})
    return frame.assign(fits=frame.num_tokens <= capacity)


def chunk_curve(
    model: ChunkSizePredictor,
    config: EngineConfig,
    smooth_factors: Iterable[float],
    step: int = 1024,
) -> DataFrame:
    """The chunk the fitted `model` predicts after each history, until the context runs out.

    Columns: smooth_factor, history_len (tokens), num_tokens (of the next chunk).
    """
    import pandas as pd

    context = config.context_len or probe_ceiling(config.chunk) * 8
    rows = [
        {"smooth_factor": factor, "history_len": history, "num_tokens": size}
        for factor in smooth_factors
        for history in range(0, context, step)
        if (size := _predict(model, config, history, context, factor)) is not None
    ]
    return pd.DataFrame(rows)


def latency_curve(model: ChunkSizePredictor, longest: int, points: int = 60) -> DataFrame:
    """The fitted latency from 0 to `longest` tokens: columns num_tokens, latency_ms."""
    import pandas as pd

    lengths = [round(longest * i / points) for i in range(points + 1)]
    return pd.DataFrame(
        {"num_tokens": lengths, "latency_ms": [model.latency_ms(n) for n in lengths]}
    )


def _predict(
    model: ChunkSizePredictor, config: EngineConfig, history: int, context: int, factor: float
) -> int | None:
    return model.predict(
        history,
        config.chunk,
        page_size=config.page_size,
        context_len=context,
        max_chunk_size=config.max_prefill_tokens,
        smooth_factor=factor,
    )
