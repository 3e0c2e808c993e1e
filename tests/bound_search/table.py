"""Reachability over many configurations as a table, and the request that comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eagerbuf.config import EngineConfig
from eagerbuf.predictor import ChunkSizePredictor
from eagerbuf.simulate.scheduler import replay
from tests.bound_search.bound import PRODUCERS, Bounds
from tests.bound_search.draw import fitted
from tests.bound_search.reach import exists, obstacle, reach

if TYPE_CHECKING:
    from pandas import DataFrame


def reachability(configs: Sequence[EngineConfig], seed: int = 0) -> DataFrame:
    """One row for each configuration and producer that it has.

    Columns: producer, config, ceiling and reached (tokens before padding), short, slack (what
    rounding may leave), exact (whether the padded batch has exactly the padded ceiling) and
    obstacle ("" where nothing but rounding keeps a batch below the ceiling).
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    rows = []
    for config in configs:
        bounds, predictor = Bounds(config), fitted(rng, config)
        rows += [
            _row(bounds, producer, predictor)
            for producer in PRODUCERS
            if exists(config, producer, predictor)
        ]
    return pd.DataFrame(rows)


def _row(bounds: Bounds, producer: str, predictor: ChunkSizePredictor | None) -> dict[str, object]:
    config, limit = bounds.config, bounds.of(producer)
    reason = obstacle(config, producer)
    try:
        step = reach(config, producer, predictor)
        reached, padded = step.batch.num_tokens, bounds.padded(step)[0]
    except ValueError:
        reached, padded, reason = 0, 0, reason or "no request fits"
    return {
        "producer": producer,
        "config": config,
        "ceiling": limit.raw,
        "reached": reached,
        "short": limit.raw - reached,
        "slack": limit.slack,
        "exact": padded == limit.padded,
        "obstacle": reason,
    }


def reach_table(rows: DataFrame) -> DataFrame:
    """`reachability` by producer: configurations that have it, and how many are free of obstacles.

    Of the free ones: how many reach the padded ceiling exactly, how many up to rounding, and what
    rounding leaves at most, in tokens. `obstacles` counts the others by reason.
    """
    import pandas as pd

    table = []
    for producer in PRODUCERS:
        part = rows[rows.producer == producer]
        free = part[part.obstacle == ""]
        reasons = Counter(part.obstacle[part.obstacle != ""])
        table.append(
            {
                "producer": producer,
                "configs": len(part),
                "free": len(free),
                "exact": int(free.exact.sum()),
                "up_to_rounding": int((free.short <= free.slack).sum()),
                "most_rounding": int(free.short.max()) if len(free) else 0,
                "obstacles": ", ".join(f"{k} {n}" for k, n in sorted(reasons.items())),
            }
        )
    return pd.DataFrame(table)


def retracted(context_len: int) -> int:
    """Tokens of the prefill of a request that was retracted just before its last output token.

    Two requests fill the KV pool at the moment when the second has one token to go: it is put
    back and later prefilled whole, its output included. The second has the most tokens, prompt
    and output, that SGLang accepts: two under the context (1,000 or more). It comes after 640
    decode steps of the first, when little room is kept for the outputs to come.
    """
    import pandas as pd

    most, output, alone = context_len - 2, 10, 640
    requests = {"prompt_tokens": [1, most - output], "output_tokens": [alone + 60, output]}
    pool = most + alone + 7  # what both hold when the second has one token to go
    config = EngineConfig(
        None, 2, context_len * 2, max_total_num_tokens=pool, context_len=context_len
    )
    arriving = pd.DataFrame(requests | {"arrival_s": [0.0, alone / 1000]})
    batches = replay(arriving, config, step_ms=1.0, progress=False)
    assert batches.attrs["retracted"] == 1
    return int(batches.num_tokens[batches.kind == "prefill"].iloc[-1])
