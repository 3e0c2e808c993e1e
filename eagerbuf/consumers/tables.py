"""Tables of the consumers: who they are, and what one deployment or many pay for the number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from eagerbuf.config import EngineConfig
from eagerbuf.consumers import others, workspace
from eagerbuf.consumers.known import CONSUMERS
from eagerbuf.consumers.tokens import needed_tokens, reserved_tokens

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.model import Model

DRAWN = 1024  # running requests of the configurations of a table; they do not count here


def consumer_table() -> DataFrame:
    """One row a consumer, oldest first: the fields of `Consumer`, its flags apart."""
    import pandas as pd

    return pd.DataFrame([asdict(consumer) for consumer in CONSUMERS]).drop(columns="flags")


def workspace_table(
    models: Iterable[Model],
    ep_sizes: Iterable[int],
    chunks: Iterable[int],
    max_prefill_tokens: int = 16384,
) -> DataFrame:
    """The all-to-all workspace under PP dynamic chunking, one row a model, ep_size and chunk.

    Columns: model, ep_size, chunk (per rank), released_tokens, tight_tokens (of the workspace),
    released_bytes, tight_bytes, saved_bytes (on each rank). ValueError for a chunk below 1, a model
    without experts, and for more ranks than it has experts or FlashInfer's kernels take.
    """
    import pandas as pd

    sizes, shares = list(ep_sizes), list(chunks)
    rows = [
        _workspace_row(model, ep_size, chunk, max_prefill_tokens)
        for model in models
        for ep_size in sizes
        for chunk in shares
    ]
    return pd.DataFrame(rows)


def price(
    config: EngineConfig, model: Model, *, num_heads: int, head_dim: int, dcp_size: int = 2
) -> DataFrame:
    """What consumers take on one rank: consumer, released_bytes, tight_bytes, saved_bytes.

    Those whose bytes follow from the settings and the model's shape; they exclude each other in
    part, so that rows do not add up. `num_heads` and `head_dim` are those of one rank's queries,
    `dcp_size` that of the decode servers. ValueError with chunking off, where the number is 0 and
    other settings take its place, and as `workspace_table`.
    """
    import pandas as pd

    shape = {"num_heads": num_heads, "head_dim": head_dim, "dcp_size": dcp_size}
    lean = replace(config, max_prefill_tokens=int(needed_tokens(config)))
    both = zip(_bytes(config, model, **shape), _bytes(lean, model, **shape), strict=True)
    rows = [
        {"consumer": name, "released_bytes": now, "tight_bytes": then, "saved_bytes": now - then}
        for (name, now), (_, then) in both
    ]
    return pd.DataFrame(rows)


def _workspace_row(model: Model, ep_size: int, chunk: int, limit: int) -> dict[str, Any]:
    config = _probing(chunk, ep_size, limit)
    tokens = [int(size(config)) for size in (reserved_tokens, needed_tokens)]
    released, tight = (_workspace(config, model, n) for n in tokens)
    held = [workspace.workspace_tokens(n) for n in tokens]
    return {
        "model": model.name,
        "ep_size": ep_size,
        "chunk": chunk,
        "released_tokens": held[0],
        "tight_tokens": held[1],
        "released_bytes": released,
        "tight_bytes": tight,
        "saved_bytes": released - tight,
    }


def _probing(chunk: int, ep_size: int, limit: int) -> EngineConfig:
    """Two stages with dynamic chunking, attention DP over all ranks: what the backend asks for."""
    return EngineConfig(
        chunk,
        DRAWN,
        max_prefill_tokens=limit,
        tp_size=ep_size,
        dp_size=ep_size,
        pp_size=2,
        enable_dp_attention=True,
        enable_dynamic_chunking=True,
        moe_a2a_backend="flashinfer",
    )


def _bytes(
    config: EngineConfig, model: Model, num_heads: int, head_dim: int, dcp_size: int
) -> list[tuple[str, int]]:
    """Bytes on one rank of each consumer that allocates beside the eager buffers."""
    tokens, decode = int(reserved_tokens(config)), _decode(config)
    pool = round(model.kv_bytes_per_token(tp=config.attn_tp_size, pp_size=config.pp_size))
    counters = others.dsv4_counter_bytes(
        tokens,
        max_prefill_tokens=config.max_prefill_tokens,
        decode_tokens=decode,
        num_heads=num_heads,
    )
    output = others.mha_output_bytes(
        tokens, num_heads=num_heads, head_dim=head_dim, decode_tokens=decode
    )
    pack = others.dcp_pack_bytes(tokens, pool, dcp_size=dcp_size, page_size=config.page_size)
    return [
        ("FlashInfer all-to-all workspace", _workspace(config, model, tokens)),
        ("DCP pack buffers", pack),
        ("TRT-LLM MHA output", output),
        ("DSV4 TRT-LLM attention", counters),
    ]


def _decode(config: EngineConfig) -> int:
    return config.max_running_requests * config.num_tokens_per_bs


def _workspace(config: EngineConfig, model: Model, tokens: int) -> int:
    if not config.chunking:
        chunk = config.chunked_prefill_size
        raise ValueError(f"chunked_prefill_size={chunk}: chunking is off, give at least 1 token")
    if model.num_experts_per_tok == 0:
        raise ValueError(f"model={model.name!r}: no experts, so there is no all-to-all")
    most = min(model.num_experts, workspace.MOST_RANKS)
    if config.tp_size > most:
        raise ValueError(f"ep_size={config.tp_size}: {model.name} takes at most {most} ranks")
    held = workspace.workspace_tokens(tokens)
    shape = (model.hidden_size, model.num_experts_per_tok)
    return int(workspace.workspace_bytes(config.tp_size, held, *shape))
