"""What the tactic kept for the dummy's bucket costs at the live shape, from measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.repro.autotune.buckets import hybrid_bucket, tune_max_num_tokens

if TYPE_CHECKING:
    from pandas import DataFrame

RESAMPLES = 1000


def dummy_bucket(dummy_tokens: int) -> int:
    """The bucket of the dummy's own token count, the last one it has tuned that serves it."""
    return hybrid_bucket(dummy_tokens, tune_max_num_tokens(dummy_tokens))


def counts_to_time(table: DataFrame) -> list[int]:
    """Token counts that `regrets` of a `misshape_table` needs: dummy buckets and live counts."""
    return sorted({*map(dummy_bucket, table["dummy_tokens"]), *map(int, table["live_tokens"])})


def summarise(rounds: DataFrame) -> DataFrame:
    """Median and quartiles (ms) and number of rounds of each (num_tokens, tactic)."""
    groups = rounds.groupby(["num_tokens", "tactic"], sort=True)["ms"]
    found = groups.quantile([0.5, 0.25, 0.75]).unstack()
    found.columns = ["median_ms", "low_ms", "high_ms"]
    return found.assign(rounds=groups.size()).reset_index()


def regrets(table: DataFrame, rounds: DataFrame) -> DataFrame:
    """For each row of a `misshape_table`: the tactic kept for the dummy, held against the best.

    `rounds`: num_tokens, tactic, round, ms, as `time_tactics` gives them. Columns:
    max_running_requests, alignment, dummy_tokens, dummy_bucket, live_tokens (tokens),
    tuned_set_differs, kept, best (tactics), kept_ms, best_ms (medians at the live count),
    regret_percent = kept_ms / best_ms - 1 in percent, low_percent and high_percent (5th and 95th
    percentile over resampled rounds), told_apart (low_percent > 0: more than noise). ValueError
    for a token count that was not timed.
    """
    import pandas as pd

    times = {int(n): _rounds_by_tactic(part) for n, part in rounds.groupby("num_tokens")}
    missing = [n for n in counts_to_time(table) if n not in times]
    if missing:
        raise ValueError(f"num_tokens={missing[0]}: was not timed, give it to time_tactics")
    columns = ["max_running_requests", "alignment", "dummy_tokens", "live_tokens"]
    rows = [
        {**case, "dummy_bucket": bucket, **_regret(times[bucket], times[case["live_tokens"]])}
        for case in table[[*columns, "tuned_set_differs"]].to_dict("records")
        for bucket in [dummy_bucket(case["dummy_tokens"])]
    ]
    return pd.DataFrame(rows)


def _rounds_by_tactic(part: DataFrame) -> DataFrame:
    """Milliseconds, one round a row and one tactic a column."""
    return part.pivot(index="round", columns="tactic", values="ms")


def _regret(at_bucket: DataFrame, at_live: DataFrame) -> dict[str, Any]:
    kept, best = str(at_bucket.median().idxmin()), str(at_live.median().idxmin())
    kept_ms, best_ms = float(at_live[kept].median()), float(at_live[best].median())
    low, high = _spread(at_live, kept, best)
    return {
        "kept": kept,
        "best": best,
        "kept_ms": kept_ms,
        "best_ms": best_ms,
        "regret_percent": 100 * (kept_ms / best_ms - 1),
        "low_percent": low,
        "high_percent": high,
        "told_apart": low > 0,
    }


def _spread(at_live: DataFrame, kept: str, best: str) -> tuple[float, float]:
    """5th and 95th percentile of the regret when whole rounds are drawn again."""
    import numpy as np

    draws = np.random.default_rng(0).integers(len(at_live), size=(RESAMPLES, len(at_live)))
    medians = [np.median(at_live[tactic].to_numpy()[draws], axis=1) for tactic in (kept, best)]
    low, high = np.percentile(100 * (medians[0] / medians[1] - 1), [5, 95])
    return float(low), float(high)
