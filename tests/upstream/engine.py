"""The released sizing, run with plain settings where SGLang has an engine."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from tests.upstream.draw import optional
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

SRT = "sglang/srt"
RUNNER = f"{SRT}/model_executor/runner/eager_runner.py"
COMMON = f"{SRT}/utils/common.py"
ARGS = f"{SRT}/server_args.py"
CONTEXT = f"{SRT}/runtime_context.py"
ATTENTION = f"{SRT}/layers/dp_attention.py"
PADDING = (f"{SRT}/layers/cp/padding.py", f"{SRT}/layers/utils/cp_utils.py")
GETTERS = (  # where the releases keep their settings; here they are all one object
    "get_parallel",
    "get_server_args",
    "get_global_server_args",
    "get_schedule",
    "get_exec",
    "get_spec",
    "get_flags",
    "get_memory",
)
SILENT = logging.Logger("released")
SILENT.disabled = True
ZIGZAG = {True: ("in-seq-split", "zigzag"), False: ("round-robin-split", "interleave")}


class Settings(SimpleNamespace):
    """What a release reads about an engine, under the names of all releases at once."""

    def __init__(self) -> None:
        super().__init__(
            moe=SimpleNamespace(elastic_ep_backend=None),
            mamba=SimpleNamespace(
                enable_mamba_extra_buffer=False, mamba_radix_cache_strategy="no_buffer"
            ),
            disable_radix_cache=False,
            enable_mamba_extra_buffer=lambda: False,
            enable_dp_lm_head=False,
            speculative_eagle_topk=1,
            speculative_adaptive=False,
        )

    def apply(self, row: Mapping[str, Any]) -> None:
        """Take one row of EngineConfig fields, in SGLang's resolved form."""
        dp_attention = bool(row["enable_dp_attention"])
        mode, strategy = ZIGZAG[bool(row["cp_zigzag"])]
        cp_on = bool(row["attn_cp_size"] > 1 or row["cp_zigzag"])
        drafts = int(row["num_tokens_per_bs"])
        self.__dict__.update(
            row,
            chunked_prefill_size=optional(row["chunked_prefill_size"]),
            moe_dense_tp_size=optional(row["moe_dense_tp_size"]),
            attn_dp_size=row["dp_size"] if dp_attention else 1,
            attn_dp_enabled=dp_attention,
            num_dp_ranks=row["dp_size"],
            enable_prefill_context_parallel=cp_on,
            enable_dsa_prefill_context_parallel=False,
            enable_prefill_cp=cp_on,
            prefill_cp_mode=mode,
            cp_strategy=strategy,
            speculative_num_draft_tokens=drafts,
            max_speculative_num_draft_tokens=drafts,
        )


def backends(room: Room) -> dict[str, Any]:
    """The release's MoE all-to-all backends by name."""
    members = room.piece("MoeA2ABackend", f"{SRT}/layers/moe/utils.py")
    return {member.value: member for member in members}


class Engine:
    """One release with settings: what its own code answers for the row last applied."""

    def __init__(self, wheel: Wheel) -> None:
        self.settings = settings = Settings()
        self.allocated = (0, 0)
        stubs = {
            "BaseRunner": self._base_runner(),
            "build_eager_registry": self._allocate,
            "get_moe_a2a_backend": lambda: self._backends[settings.moe_a2a_backend],
            "DllmConfig": SimpleNamespace(from_server_args=lambda _: None),
            "_configured_parallel": lambda name: getattr(settings, name),
            "logger": SILENT,
        }
        self.room = Room(wheel, dict.fromkeys(GETTERS, lambda: settings) | stubs)

    def apply(self, row: Mapping[str, Any]) -> None:
        """Set the settings and derive the attention ranks as the release derives them."""
        self.settings.apply(row)
        self.settings.attn_tp_size = self.attn_tp_size()
        if "_STRATEGY" in self._cp_base:
            self._cp_base["_STRATEGY"] = None  # a process keeps its first CP strategy

    def attn_tp_size(self) -> int:
        s = self.settings
        own = {"enable_dp_attention": s.enable_dp_attention, "dp_size": s.dp_size}
        ranks = {"attn_dp_size": s.attn_dp_size} if self._ranks_only else own
        return int(
            self._world_info(tp_rank=0, tp_size=s.tp_size, attn_cp_size=s.attn_cp_size, **ranks)[1]
        )

    def max_prefill_buffer_tokens(self) -> int:
        """The number that sizes prefill: a method of ServerArgs, later a function."""
        return int(self._ceiling(self.settings) if self._ceiling_takes_args else self._ceiling())

    def require_mlp_sync(self) -> bool:
        takes_args = self._sync.__code__.co_argcount
        return bool(self._sync(self.settings) if takes_args else self._sync())

    def cp_align_size(self) -> int:
        return int(self._cp_align())

    def sizing(self) -> tuple[int, int]:
        """(max_bs, max_num_token) that the eager runner allocates."""
        s = self.settings
        name = "EAGLE" if s.speculative_num_draft_tokens > 1 else "NONE"
        runner = self._model_runner(
            server_args=s,
            spec_algorithm=self._algorithms[name],
            is_draft_worker=False,
            max_running_requests=s.max_running_requests,
            max_total_num_tokens=s.max_total_num_tokens,
            model_config=SimpleNamespace(is_encoder_decoder=False),
            device="cpu",
        )
        s.max_prefill_buffer_tokens = self.max_prefill_buffer_tokens
        self._runner(runner)
        return self.allocated

    def _allocate(self, *, max_bs: int, max_num_token: int, **_: Any) -> None:
        self.allocated = (int(max_bs), int(max_num_token))

    def _base_runner(self) -> type:
        settings = self.settings

        class BaseRunner:
            """The released one also asks CUDA for a device."""

            def __init__(self, _: Any) -> None:
                self.attn_tp_size = settings.attn_tp_size

            def warmup(self) -> None:
                """The released one runs the model."""

        return BaseRunner

    @cached_property
    def _runner(self) -> Any:
        return self.room.piece("EagerRunner", RUNNER, only=("__init__",))

    @cached_property
    def _model_runner(self) -> Any:
        """Attributes, and from 0.5.16 the method that asks the speculative algorithm."""
        name, path = "decode_num_tokens_per_req", f"{SRT}/model_executor/model_runner.py"
        if not self.room.has(f"ModelRunner.{name}", path):
            return SimpleNamespace
        method = self.room.piece(f"ModelRunner.{name}", path)
        return type("ModelRunner", (SimpleNamespace,), {name: method})

    @cached_property
    def _ceiling(self) -> Any:
        name = "max_prefill_buffer_tokens"
        if self.room.has(name, CONTEXT):
            return self.room.piece(name, CONTEXT)
        return self.room.piece(f"ServerArgs.{name}", ARGS)

    @cached_property
    def _ceiling_takes_args(self) -> bool:
        return bool(self._ceiling.__code__.co_argcount)

    @cached_property
    def _sync(self) -> Any:
        return self.room.piece("require_mlp_sync", COMMON)

    @cached_property
    def _world_info(self) -> Any:
        return self.room.piece("compute_dp_attention_world_info", ATTENTION)

    @cached_property
    def _ranks_only(self) -> bool:
        return "attn_dp_size" in self._world_info.__code__.co_varnames[:4]

    @cached_property
    def _algorithms(self) -> Any:
        return self.room.piece("SpeculativeAlgorithm", f"{SRT}/speculative/spec_info.py")

    @cached_property
    def _backends(self) -> dict[str, Any]:
        return backends(self.room)

    @cached_property
    def _cp_align(self) -> Any:
        return self.room.piece("get_cp_padding_align_size", *PADDING)

    @cached_property
    def _cp_base(self) -> Any:
        return self.room.file(f"{SRT}/layers/cp/base.py")
