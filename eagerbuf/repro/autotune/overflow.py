"""Padded decode batches copied into real static buffers, sized the old way and the new way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from eagerbuf.config import EngineConfig
from eagerbuf.sizing import buffer_size, padded_decode

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.buffers import StaticBuffers


def load_decode(
    config: EngineConfig,
    running_requests: Iterable[int],
    rules: Sequence[str] = ("pr28386", "pr28677"),
    device: str = "cpu",
) -> DataFrame:
    """Copy the padded decode batch of each number of running requests into buffers of each rule.

    Columns: rule, running_requests, bs (requests after padding), num_tokens (tokens after
    padding), max_bs, max_num_tokens (the buffers), loaded (bool), error (as raised; "" if none).
    ValueError where the scheduler cannot run that many requests.
    """
    import pandas as pd

    from eagerbuf.buffers import StaticBuffers

    rows: list[dict[str, Any]] = []
    counts = [_runnable(config, running) for running in running_requests]
    for rule in rules:
        buffers = StaticBuffers(buffer_size(config, rule), device)
        rows += [{"rule": rule, **_load(config, running, buffers)} for running in counts]
    return pd.DataFrame(rows)


def _runnable(config: EngineConfig, running: int) -> int:
    if not 1 <= running <= config.max_running_requests:
        raise ValueError(
            f"running_requests={running}: must be between 1 and "
            f"max_running_requests={config.max_running_requests}"
        )
    return running


def _load(config: EngineConfig, running: int, buffers: StaticBuffers) -> dict[str, Any]:
    tokens, requests = padded_decode(config, running)
    error = buffers.try_load(tokens, requests)
    return {
        "running_requests": running,
        "bs": requests,
        "num_tokens": tokens,
        "max_bs": buffers.size.max_bs,
        "max_num_tokens": buffers.size.max_num_tokens,
        "loaded": not error,
        "error": error,
    }
