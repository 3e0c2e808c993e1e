"""The released sizing, run with plain settings where SGLang has an engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

from eagerbuf import max_prefill_buffer_tokens, size_many
from eagerbuf.table import config_columns
from tests.upstream import draw
from tests.upstream.compare import Comparison
from tests.upstream.draw import optional
from tests.upstream.load import Room
from tests.upstream.wheels import NEEDED, Wheel

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

            def __init__(self, model_runner: Any) -> None:
                self.attn_tp_size = settings.attn_tp_size

            def warmup(self) -> None:
                """The released one runs the model."""

        return BaseRunner

    @cached_property
    def _runner(self) -> Any:
        return self.room.piece("EagerRunner", RUNNER, only=("__init__",))

    @cached_property
    def _model_runner(self) -> Any:
        name = "decode_num_tokens_per_req"
        path = f"{SRT}/model_executor/model_runner.py"
        if not self.room.has(f"ModelRunner.{name}", path):
            return SimpleNamespace
        return type("ModelRunner", (SimpleNamespace,), {name: self.room.piece(f"ModelRunner.{name}", path)})

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
        members = self.room.piece("MoeA2ABackend", f"{SRT}/layers/moe/utils.py")
        return {member.value: member for member in members}

    @cached_property
    def _cp_align(self) -> Any:
        return self.room.piece("get_cp_padding_align_size", *PADDING)

    @cached_property
    def _cp_base(self) -> Any:
        return self.room.file(f"{SRT}/layers/cp/base.py")


UPSTREAM_RULES = ("pr28386", "pr28677", "pr28894")


@cache
def rule_of(wheel: Wheel) -> str | None:
    """The upstream rule that gives this release's own sizes, None where none does."""
    frame = draw.configs(300, salt=1_000_000)
    engine, found = Engine(wheel), []
    for row in frame.to_dict("records"):
        engine.apply(row)
        found.append(engine.sizing())
    return next((rule for rule in UPSTREAM_RULES if _sizes(frame, rule) == found), None)


def zigzag_of_one(wheel: Wheel) -> int:
    """The alignment of zigzag CP over one rank: the flag is on, there is nothing to split."""
    engine, row = Engine(wheel), draw.configs(1).to_dict("records")[0]
    engine.apply({**row, "tp_size": row["dp_size"], "attn_cp_size": 1, "cp_zigzag": True})
    return engine.cp_align_size()


def _sizes(frame: Any, rule: str) -> list[tuple[int, int]]:
    sizes = size_many(frame, rule)
    return list(zip(sizes.max_bs.tolist(), sizes.max_num_tokens.tolist(), strict=True))


@lru_cache(maxsize=1)
def _drawn(salt: int, count: int) -> tuple[Any, list[dict[Any, Any]]]:
    frame = draw.configs(count, salt)
    return frame, frame.to_dict("records")


def _sizing_cases(wheel: Wheel, salt: int, count: int) -> tuple[Any, Any]:
    frame, rows = _drawn(salt, count)
    return rows, _sizes(frame, rule_of(wheel) or UPSTREAM_RULES[-1])


def _setting_cases(wheel: Wheel, salt: int, count: int) -> tuple[Any, Any]:
    frame, rows = _drawn(salt, count)
    ours = config_columns(frame)
    sync, ranks = ours.require_mlp_sync.tolist(), ours.attn_tp_size.tolist()
    ceiling, align = max_prefill_buffer_tokens(ours).tolist(), ours.cp_align_size.tolist()
    return rows, list(zip(ceiling, sync, ranks, align, strict=True))


def _asked(wheel: Wheel, question: Callable[[Engine], Any]) -> Callable[[Any], Any]:
    engine = Engine(wheel)

    def ask(row: Mapping[str, Any]) -> Any:
        engine.apply(row)
        return question(engine)

    return ask


def _settings(engine: Engine) -> tuple[int, bool, int, int]:
    return (
        engine.max_prefill_buffer_tokens(),
        engine.require_mlp_sync(),
        int(engine.settings.attn_tp_size),
        engine.cp_align_size(),
    )


SIZING = Comparison(
    "eager runner: max_bs, max_num_token",
    _sizing_cases,
    lambda wheel: _asked(wheel, Engine.sizing),
    lambda wheel: f"rule {rule_of(wheel)}",
    also_in_full=NEEDED,
)
SETTINGS = Comparison(
    "max_prefill_buffer_tokens, require_mlp_sync, attn_tp_size, cp_align_size",
    _setting_cases,
    lambda wheel: _asked(wheel, _settings),
)
