"""What other consumers allocate or tune: our formulas beside a release's own, case by case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerbuf import EngineConfig
from eagerbuf.consumers import others
from eagerbuf.consumers.tokens import reserved_tokens
from eagerbuf.consumers.workspace import workspace_bytes, workspace_tokens
from tests.upstream import draw
from tests.upstream.consumers import Consumers

LONGEST = 131072  # tokens of the context
Answers = tuple[int, int]  # ours, theirs


def compared(asked: Consumers, version: str, count: int) -> dict[str, int]:
    """How many of `count` seeded cases differ, for each formula that the release has."""
    found = {name: 0 for name, (since, _) in FORMULAS.items() if since <= version}
    rng = draw.generator(900)
    for row in draw.configs(count, salt=9).to_dict("records"):
        config, settings = _prepared(row)
        asked.apply(settings)
        for name in found:
            ours, theirs = FORMULAS[name][1](asked, config, rng)
            found[name] += ours != theirs
    return found


def _prepared(row: dict[str, Any]) -> tuple[EngineConfig, dict[str, Any]]:
    given = {name: draw.optional(v) if _may_be_none(name) else v for name, v in row.items()}
    settings = row | {"context_len": LONGEST, "attn_dp_size": row["dp_size"]}
    return EngineConfig(**given), settings


def _may_be_none(name: str) -> bool:
    return name in ("chunked_prefill_size", "moe_dense_tp_size", "max_total_num_tokens")


def _number(asked: Consumers, config: EngineConfig, _: Any) -> Answers:
    return int(reserved_tokens(config)), asked.number()


def _workspace(asked: Consumers, config: EngineConfig, rng: np.random.Generator) -> Answers:
    ranks, hidden, top_k = (int(rng.integers(1, most)) for most in (65, 4097, 23))
    kind = str(rng.choice(["bf16", "nvfp4", "mxfp8"]))
    tokens = workspace_tokens(reserved_tokens(config))
    shape = (32 * hidden, top_k)
    return int(workspace_bytes(ranks, tokens, *shape)), asked.workspace(ranks, *shape, kind)


def _pack(asked: Consumers, config: EngineConfig, rng: np.random.Generator) -> Answers:
    dcp, layers, width = (int(rng.integers(1, most)) for most in (9, 62, 1153))
    tokens = int(reserved_tokens(config)) or config.max_prefill_tokens
    ours = others.dcp_pack_bytes(tokens, layers * width, dcp_size=dcp, queues=1)
    page = config.page_size
    return int(ours), asked.pack_bytes([page * width] * layers, page, tokens, dcp)


def _rows(asked: Consumers, config: EngineConfig, _: Any) -> Answers:
    ours = others.dsv4_counter_bytes(
        reserved_tokens(config),
        max_prefill_tokens=config.max_prefill_tokens,
        decode_tokens=config.max_running_requests,
        num_heads=1,
        sm_count=1,
    )
    return int(ours), 4 * (-(-asked.dsv4_rows() // 8) * 8)


def _output(asked: Consumers, config: EngineConfig, _: Any) -> Answers:
    shape = {"num_heads": 3, "head_dim": 64, "decode_tokens": config.max_running_requests}
    tokens = int(reserved_tokens(config)) or max(LONGEST, config.max_prefill_tokens)
    ours = others.mha_output_bytes(tokens, **shape)
    return int(ours), asked.mha_rows() * 3 * 64


def _tuned(asked: Consumers, config: EngineConfig, rng: np.random.Generator) -> Answers:
    ranks = int(rng.integers(1, 9))
    tokens = reserved_tokens(config) or config.max_prefill_tokens
    return int(others.cutlass_tuned_tokens(tokens, ranks)), asked.tuned_tokens(ranks)


FORMULAS: dict[str, tuple[str, Callable[[Consumers, EngineConfig, Any], Answers]]] = {
    "max_prefill_buffer_tokens": ("0.5.19", _number),
    "DCP pack buffers": ("0.5.19", _pack),
    "DSV4 TRT-LLM attention": ("0.5.20", _rows),
    "TRT-LLM MHA output": ("0.5.21", _output),
    "FlashInfer all-to-all workspace": ("0.5.22", _workspace),
    "cutlass MoE tuning range": ("0.5.23", _tuned),
}
