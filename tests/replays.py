"""Queues to replay and short forms of what comes out."""

import pandas as pd

from eagerbuf import EngineConfig

P, M, D = "prefill", "mixed", "decode"


def requests(*rows):
    """Requests from (prompt, output) or (prompt, output, arrival in seconds)."""
    rows = [(*row, 0.0)[:3] for row in rows]
    return pd.DataFrame(rows, columns=["prompt_tokens", "output_tokens", "arrival_s"])


def batches(frame):
    """(kind, num_tokens, bs) of each row."""
    return list(zip(frame["kind"], frame["num_tokens"], frame["bs"], strict=True))


def padded(frame):
    """(rank, num_tokens, padded_num_tokens, padded_bs) of each row."""
    return [tuple(row) for row in frame.drop(columns=["step", "kind", "bs"]).to_numpy().tolist()]


def dp_config(**fields):
    """Two DP ranks of attention TP 2."""
    ranks = {"tp_size": 4, "dp_size": 2, "enable_dp_attention": True}
    return EngineConfig(100, 8, **ranks, **fields)
