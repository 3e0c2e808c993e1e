"""The released KV bytes of a token on one rank, asked of the pool configurators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from eagerbuf.model import Model
from tests.upstream.engine import GETTERS, SRT
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

POOLS = f"{SRT}/model_executor/pool_configurator.py"
STAGES = f"{SRT}/distributed/utils.py"
RUNNER = f"{SRT}/model_executor/model_runner.py"
LAYERS = f"{SRT}/model_executor/model_runner_components/layer_setup.py"
MODEL_CONFIG = f"{SRT}/configs/model_config.py"
DTYPES = {1: torch.float8_e4m3fn, 2: torch.bfloat16, 4: torch.float32}
ABSENT = (  # kinds of models, of caches and of hardware that none of ours is
    "is_float4_e2m1fn_x2",
    "is_deepseek_dsa",
    "is_minimax_sparse",
    "compute_page_shard_scratch_bytes",
    "_dflash_draft_cell_size",
)
OFF = SimpleNamespace(get=lambda: False)
NO_DRAFT = SimpleNamespace(
    is_eagle=lambda: False,
    is_standalone=lambda: False,
    is_dflash=lambda: False,
    is_dflash_family=lambda: False,
)


class Case(NamedTuple):
    """One model on one rank."""

    model: Model
    tp: int
    pp_size: int
    pp_rank: int
    dtype_bytes: int


class Pools:
    """One release's pool configurators, asked for the bytes of a token."""

    def __init__(self, wheel: Wheel) -> None:
        self.settings = settings = SimpleNamespace(
            attn_dcp_size=1,
            attn_tp_size=1,
            swa_full_tokens_ratio=0.8,
            max_total_tokens=None,
            enable_hisparse=False,
            enable_unified_memory=False,
        )
        stubs: dict[str, Any] = dict.fromkeys(GETTERS, lambda: settings)
        stubs |= dict.fromkeys(ABSENT, lambda *_, **__: 0) | {
            "get_attention_tp_size": lambda: settings.attn_tp_size,
            "mambaish_config": lambda model_config: model_config.mambaish,
            "get_glm_dsa_layer_split_effective_num_layers": lambda _, layers: layers,
            "envs": SimpleNamespace(SGLANG_NPU_ENABLE_SPARSE_KV_OFFLOAD=OFF),
            "parse_qsa_profile": lambda _: None,
        }
        self.room = Room(wheel, stubs)

    def layers(self, case: Case) -> range:
        """The stage's layers, as the release splits them."""
        split = self.room.piece("get_pp_indices", STAGES)
        return range(*split(case.model.layers, case.pp_rank, case.pp_size))

    def bytes_per_token(self, case: Case) -> float:
        self.settings.attn_tp_size = case.tp
        sliding = case.model.other_layers == "sliding"
        name = f"{'HybridSWA' if sliding else 'Default'}PoolConfigurator"
        runner = self._runner(case, self.layers(case))
        return float(self.room.file(POOLS)[name](runner)._cell_size)

    def _runner(self, case: Case, stage: range) -> SimpleNamespace:
        """What the releases ask a model runner, later a KV cache configurator, under all names."""
        config = self._model_config(case.model, stage)
        layers = {
            "start_layer": stage.start,
            "end_layer": stage.stop,
            "num_effective_layers": len(stage),
            "full_attention_layer_ids": config.full_attention_layer_ids,
            "swa_attention_layer_ids": config.swa_attention_layer_ids,
        }
        return SimpleNamespace(
            **layers,
            layer_info=SimpleNamespace(**layers),
            model_config=config,
            mambaish_config=config.mambaish,
            kv_cache_dtype=DTYPES[case.dtype_bytes],
            kv_cache_dtype_str="auto",
            use_mla_backend=case.model.attention == "mla",
            spec_algorithm=NO_DRAFT,
            is_draft_worker=False,
            server_args=self.settings,
            pp_size=case.pp_size,
            sliding_window_size=128,
            page_size=1,
            fused_entry_bytes=lambda _: None,
        )

    def _model_config(self, model: Model, stage: range) -> SimpleNamespace:
        full = [layer for layer in stage if (layer + 1) % model.full_every == 0]
        linear = model.other_layers == "linear"
        config = SimpleNamespace(
            hf_config=SimpleNamespace(),
            hf_text_config=SimpleNamespace(),
            attention_arch=None,
            context_len=4096,
            is_draft_model=False,
            kv_lora_rank=model.kv_lora_rank,
            qk_rope_head_dim=model.rope_head_dim,
            head_dim=model.head_dim,
            v_head_dim=model.head_dim,
            swa_head_dim=model.head_dim,
            swa_v_head_dim=model.head_dim,
            mambaish=SimpleNamespace(full_attention_layer_ids=full) if linear else None,
            full_attention_layer_ids=full,
            swa_attention_layer_ids=[layer for layer in stage if layer not in full],
            get_total_num_kv_heads=lambda: model.kv_heads,
        )
        heads = self.room.piece("ModelConfig.get_num_kv_heads", MODEL_CONFIG)
        config.get_num_kv_heads = lambda *sizes: heads(config, *sizes)
        config.get_swa_num_kv_heads = config.get_num_kv_heads
        return config


def sliding_layers(wheel: Wheel, model: Model, stage: range) -> tuple[list[int], list[int]]:
    """(full, sliding) layers that the release counts on a stage of a model with sliding layers."""
    room = Room(wheel, {})
    layers = range(model.layers)
    config = SimpleNamespace(
        is_deepseek_v4_arch=False,
        full_attention_layer_ids=[n for n in layers if (n + 1) % model.full_every == 0],
        swa_attention_layer_ids=[n for n in layers if (n + 1) % model.full_every],
    )
    ends = {"start_layer": stage.start, "end_layer": stage.stop}
    if room.has("_resolve_local_hybrid_swa_layer_ids", LAYERS):
        resolve = room.piece("_resolve_local_hybrid_swa_layer_ids", LAYERS)
        sliding, full = resolve(model_config=config, owned_layers=stage)
        return list(full), list(sliding)
    if room.has("adjust_hybrid_swa_layer_ids", LAYERS):
        adjust = room.piece("adjust_hybrid_swa_layer_ids", LAYERS)
        adjust(model_config=config, is_hybrid_swa=True, **ends)
    else:
        adjust = room.piece("ModelRunner.adjust_hybrid_swa_layers_for_pp", RUNNER)
        adjust(SimpleNamespace(is_hybrid_swa=True, model_config=config, **ends))
    return config.full_attention_layer_ids, config.swa_attention_layer_ids
