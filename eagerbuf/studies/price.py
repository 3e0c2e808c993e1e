"""What each rule costs: bytes of the static buffers beside the KV pool of the same rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

from eagerbuf.config import EngineConfig
from eagerbuf.model import Model, find_model, models
from eagerbuf.sizing import RULES, TOKEN_BYTES, buffer_size, size_many
from eagerbuf.studies.deployments import NamedDeployment

if TYPE_CHECKING:
    from pandas import DataFrame

STATED = "as its log states"
TP_SIZES = (1, 2, 4, 8, 16)  # attention TP ranks that are tried where they are not known


def price_rules(named: Iterable[NamedDeployment]) -> DataFrame:
    """Price of every rule under each deployment, on the pipeline stage with the fewest layers.

    One row a deployment, model, attention TP size and rule: the deployment's own, or every model
    of `eagerbuf.models` and each of TP_SIZES where they are not known. Columns: deployment, model,
    attn_tp_size, known (whether the model is the deployment's own), rule, max_total_num_tokens
    (the KV pool, tokens), max_num_tokens, nbytes (device bytes of the static buffers),
    kv_bytes_per_token, pool_bytes, share (nbytes of pool_bytes), kv_tokens (tokens of KV that
    nbytes would hold). Bytes are those of one rank. ValueError naming max_total_num_tokens where
    a deployment lacks its KV pool.
    """
    import pandas as pd

    return pd.DataFrame([row for deployment in named for row in _rows(deployment)])


def price_ranges(prices: DataFrame) -> DataFrame:
    """The rows of `price_rules` with unknown models folded into a range.

    One row a deployment and rule. Columns: deployment, rule, max_num_tokens, nbytes, models
    (counted), share_least, share_most, kv_tokens_least, kv_tokens_most.
    """
    keys = ["deployment", "rule", "max_num_tokens", "nbytes"]
    return prices.groupby(keys, sort=False, as_index=False).agg(
        models=("model", "count"),
        share_least=("share", "min"),
        share_most=("share", "max"),
        kv_tokens_least=("kv_tokens", "min"),
        kv_tokens_most=("kv_tokens", "max"),
    )


def ceilings_by_pool(config: EngineConfig, pools: Iterable[int]) -> DataFrame:
    """Token ceiling of every rule as the KV pool of `config` takes each size of `pools`.

    Columns: rule, max_total_num_tokens, max_num_tokens (all in tokens).
    """
    import pandas as pd

    sizes = list(pools)
    frame = pd.DataFrame([asdict(config)] * len(sizes)).assign(max_total_num_tokens=sizes)
    parts = [
        size_many(frame, rule)[["max_num_tokens"]].assign(rule=rule, max_total_num_tokens=sizes)
        for rule in RULES
    ]
    return pd.concat(parts, ignore_index=True)[["rule", "max_total_num_tokens", "max_num_tokens"]]


def overhead_per_model(config: EngineConfig) -> DataFrame:
    """Price of every rule if each model had the KV pool and ranks of `config`.

    Columns as `price_rules` has them, the largest shares last.
    """
    prices = price_rules([NamedDeployment("any model", config, None, "")])
    order = ["kv_bytes_per_token", "model"]
    return prices.sort_values(order, ascending=[False, True], kind="stable", ignore_index=True)


def token_shares(
    tp_sizes: Iterable[int], pp_sizes: Iterable[int], dtype_bytes: Iterable[int]
) -> DataFrame:
    """Bytes of a buffer's token beside those of a token in the KV pool: what the pool-sized rule
    costs as a share of the pool, whatever the pool's size (requests aside).

    One row a model and layout, on the first stage, which has the fewest layers; a stage that keeps
    no keys and values is left out. `tp_sizes`: attention TP ranks. Columns: model, tp_size,
    pp_size, kv_dtype_bytes, kv_bytes_per_token, share.
    """
    import pandas as pd

    rows = [
        {
            "model": model.name,
            "tp_size": tp,
            "pp_size": pp,
            "kv_dtype_bytes": width,
            "kv_bytes_per_token": each,
            "share": TOKEN_BYTES / each,
        }
        for model, tp, pp, width in product(models(), tp_sizes, pp_sizes, dtype_bytes)
        if (each := _on_first_stage(model, tp, pp, width))
    ]
    return pd.DataFrame(rows)


def _rows(deployment: NamedDeployment) -> Iterator[dict[str, Any]]:
    """The rows of one deployment, rule by rule within each model and TP size."""
    config = deployment.config
    sizes = {rule: buffer_size(config, rule) for rule in RULES}
    for (name, tp, each), (rule, size) in product(_candidates(deployment), sizes.items()):
        pool_bytes = each * _pool(deployment)
        yield {
            "deployment": deployment.name,
            "model": name,
            "attn_tp_size": tp,
            "known": bool(deployment.model or deployment.kv_bytes_per_token),
            "rule": rule,
            "max_total_num_tokens": config.max_total_num_tokens,
            "max_num_tokens": size.max_num_tokens,
            "nbytes": size.nbytes,
            "kv_bytes_per_token": each,
            "pool_bytes": pool_bytes,
            "share": size.nbytes / pool_bytes,
            "kv_tokens": int(size.nbytes // each),
        }


def _pool(deployment: NamedDeployment) -> int:
    pool = deployment.config.max_total_num_tokens
    if pool is None:
        raise ValueError(f"max_total_num_tokens=None: {deployment.name} has no KV pool to share")
    return pool


def _candidates(deployment: NamedDeployment) -> list[tuple[str, int, float]]:
    """(model, attention TP size, bytes of a token in the KV pool) of what may be running."""
    config = deployment.config
    if deployment.kv_bytes_per_token:
        return [(STATED, config.attn_tp_size, deployment.kv_bytes_per_token)]
    known = [find_model(deployment.model)] if deployment.model else models()
    tp_sizes = [config.attn_tp_size] if deployment.ranks_known else TP_SIZES
    return [
        (model.name, tp, each)
        for model, tp in product(known, tp_sizes)
        if (each := _on_first_stage(model, tp, config.pp_size))
    ]


def _on_first_stage(model: Model, tp: int, pp_size: int, width: int | None = None) -> float:
    """Bytes of a token where the fewest layers are; 0 where a model has too few for the stages."""
    if pp_size > model.layers:
        return 0
    return model.kv_bytes_per_token(tp, pp_size, dtype_bytes=width)
