"""What a release sizes by the number beside the eager buffers, run with plain settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from tests.upstream.draw import optional
from tests.upstream.engine import CONTEXT, GETTERS, SILENT, SRT
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

DISPATCHER = f"{SRT}/layers/moe/token_dispatcher/flashinfer.py"
KINDS = f"{SRT}/layers/moe/utils.py"
HOOK = f"{SRT}/arg_groups/moe_hook.py"
DSV4 = f"{SRT}/layers/attention/deepseek_v4_trtllm_backend.py"
MHA = f"{SRT}/layers/attention/trtllm_mha_backend.py"
CUTLASS = f"{SRT}/layers/moe/moe_runner/flashinfer_cutlass.py"
PACK = f"{SRT}/disaggregation/common/dcp_pack.py"
ALL_TO_ALL = "flashinfer/comm/trtllm_moe_alltoall.py"
UTILS = "flashinfer/utils.py"
CAPACITY = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
DEEPEP_CAPACITY = "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
TOPOLOGY = "handle_a2a_moe"
BUDGET = "validate_flashinfer_a2a_token_budget"
DEEPEP_BUDGET = "validate_deepep_v2_dispatch_token_budget"


class Unset(SimpleNamespace):
    """Settings of which those that are not given are unset."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Variables:
    """The environment as a release reads it: a variable's own value, or its default."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        default = 128 if name == DEEPEP_CAPACITY else None
        return SimpleNamespace(
            get=lambda: self.given.get(name, default),
            is_set=lambda: name in self.given,
            set=lambda value: self.given.update({name: value}),
        )


class Sent(BaseException):
    """Tokens reached the all-to-all; no release catches this."""


class Group:
    """A group of `size` ranks as its first rank sees it; it can be asked to gather."""

    def __init__(self, size: int) -> None:
        self.size, self.rank = (lambda: size), (lambda: 0)
        self.gathered: list[list[int]] = []

    def all_gatherv(self, tensors: list[Any], sizes: list[int]) -> list[Any]:
        self.gathered.append(sizes)
        return tensors


class Consumers:
    """One release with its FlashInfer: what they answer under the settings last applied."""

    def __init__(self, wheel: Wheel, flashinfer: Wheel) -> None:
        self.envs, self.settings, self.group = Variables(), Unset(), Group(1)
        self.allocated: list[int] = []
        self.dispatch, self.attn_dp_size, self.tokens = "bf16", 1, [0]
        table = SimpleNamespace(moe_a2a_get_aux_data_size=walk_the_table)
        self.kernels = Room(flashinfer, {"get_moe_alltoall_module": lambda *_: table})
        getters = dict.fromkeys((*GETTERS, "get_disagg"), lambda: self.settings)
        self.room = Room(wheel, getters | self._stubs())

    def apply(self, row: Mapping[str, Any], **variables: int) -> None:
        """Take fields of EngineConfig in the resolved form, and variables of the environment."""
        self.settings = Unset(**{"disaggregation_mode": "null", "deepep_mode": "auto"} | dict(row))
        self.settings.chunked_prefill_size = optional(row["chunked_prefill_size"])
        self.settings.moe = Unset(speculative_context=False)
        self.settings.moe_runner_backend = "flashinfer_cutlass"
        self.settings.tp_group = self.group
        self.envs.given = dict(variables)

    def number(self) -> int:
        return int(self.room.piece("max_prefill_buffer_tokens", CONTEXT)())

    def workspace(self, ep_size: int, hidden: int, top_k: int, dispatch: str = "bf16") -> int:
        """Bytes on a rank that the dispatcher asks FlashInfer for."""
        self.dispatcher(ep_size, hidden, top_k, dispatch)
        return self.allocated[-1]

    def dispatcher(self, ep_size: int, hidden: int, top_k: int, dispatch: str = "bf16") -> Any:
        self.dispatch = dispatch
        made = self.room.file(DISPATCHER)["FlashinferDispatcher"]
        given = {"hidden_size": hidden, "num_experts": 256, "moe_runner_config": RUNNER}
        known = made.__init__.__code__.co_varnames
        return made(Group(ep_size), top_k, **{k: v for k, v in given.items() if k in known})

    def eager_prefill(self, tokens: int, ranks: int) -> str:
        """How `tokens` of an eager extend on the first of `ranks` reach the experts."""
        self.group = self.settings.tp_group = Group(ranks)
        self.settings.attn_tp_size, self.tokens = 1, [tokens] * ranks
        dispatcher = self.dispatcher(ranks, 8, 2)
        dispatcher.quant_config = {}
        chosen = torch.zeros(tokens, 2, dtype=torch.int32)
        topk = SimpleNamespace(topk_ids=chosen, topk_weights=chosen.float(), router_logits=None)
        try:
            dispatcher.dispatch(torch.zeros(tokens, 8, dtype=torch.bfloat16), topk)
        except Sent:
            return "all-to-all"
        return "all-gather" if self.group.gathered == [[tokens] * ranks] else "neither"

    def start(self, check: str) -> str:
        """ "" if that start-up check passes, else what it says."""
        try:
            self.room.piece(check, HOOK)(self.settings)
        except (ValueError, AssertionError) as refusal:
            return str(refusal) or "refused"
        return ""

    def pack_bytes(self, item_lens: list[int], page: int, tokens: int, dcp: int) -> int:
        return int(self.room.piece("dcp_pack_buffer_bytes", PACK)(item_lens, page, tokens, dcp))

    def dsv4_rows(self) -> int:
        return int(self.room.piece("_trtllm_query_row_capacity", DSV4)(None))

    def mha_rows(self) -> int:
        s = self.settings
        held, decode = (
            self.room.piece(f"_native_fp4_{kind}_output_capacity", MHA)
            for kind in ("prefill", "decode")
        )
        rows = held(s.context_len, s.max_prefill_tokens, self.number())
        return int(max(rows, decode(s.max_running_requests, s.speculative_num_draft_tokens)))

    def tuned_tokens(self, ranks: int) -> int:
        self.attn_dp_size = ranks
        return int(self.room.piece("_cutlass_moe_tune_max_num_tokens", CUTLASS)(1))

    def counter_bytes(self, rows: int, heads: int, processors: int) -> int:
        name = "get_trtllm_gen_multi_ctas_kv_counter_bytes"
        return int(self.kernels.piece(name, UTILS)(rows, heads, processors))

    def _stubs(self) -> dict[str, Any]:
        """What a CPU lacks: FlashInfer's memory, kernels and groups, a model's configuration."""
        model = Unset(hf_config=Unset(architectures=["DeepseekV3ForCausalLM"]))
        return {
            "envs": self.envs,
            "logger": SILENT,
            "use_flashinfer": True,
            "BaseDispatcher": object,
            "StandardDispatcher": lambda _: SimpleNamespace(dispatch=lambda *_: None),
            "StandardTopKOutput": lambda *_: None,
            "TopKOutputChecker": CHECKER,
            "debug_kernel_api": lambda function: function,
            "get_is_extend_in_batch": lambda: True,
            "get_forward": Unset,
            "get_dp_global_num_tokens": lambda: self.tokens,
            "deployment_attn_dp_size": lambda: self.attn_dp_size,
            "get_flashinfer_a2a_dispatch_type": self._kind,
            "get_moe_runner_backend": lambda: RUNNER.runner_backend,
            "MoeAlltoAll": self._allocate,
            **dict.fromkeys(("Mapping", "MnnvlConfig", "TorchDistributedCommBackend"), _nothing),
            **self._start_up(model),
            **self._workspace_formula(),
        }

    def _start_up(self, model: Any) -> dict[str, Any]:
        return {
            "model_config_of": lambda _: model,
            "model_deepep_v2_prefill_dispatch_tokens": lambda **given: given["default_tokens"],
            "get_platform": Unset,
            "run_post_process_pass": lambda s, derive: s.__dict__.update(derive(s)),
            "declare_resolution": lambda s, _, **decided: s.__dict__.update(decided),
        }

    def _workspace_formula(self) -> dict[str, Any]:
        name = "moe_a2a_get_workspace_size_per_rank"
        return {name: self.kernels.piece(name, ALL_TO_ALL)}

    def _kind(self) -> Any:
        return self.room.piece("FlashinferA2ADispatchType", KINDS)(self.dispatch)

    def _allocate(self, *, workspace_size_per_rank: int, **_: Any) -> Any:
        self.allocated.append(workspace_size_per_rank)
        return SimpleNamespace(dispatch=_send)


def _nothing(*_: Any, **__: Any) -> None:
    """Handles of devices and groups."""


def _send(*_: Any, **__: Any) -> None:
    raise Sent


CHECKER = SimpleNamespace(format_is_bypassed=lambda _: False, format_is_standard=lambda _: True)
RUNNER = SimpleNamespace(
    runner_backend=SimpleNamespace(
        is_deep_gemm=lambda: False,
        is_flashinfer_trtllm=lambda: False,
        is_flashinfer_trtllm_routed=lambda: False,
        is_flashinfer_cutlass=lambda: True,
    )
)


def walk_the_table(ep_size: int, tokens: int, eplb_experts: int = 0) -> int:
    """FlashInfer's C++ `calculateOffsets` walked in its order (tests/upstream/table.py runs it)."""
    offset = 0
    for part in (
        *(4, 4, 4 * ep_size, 4 * ep_size, None),  # flag, counter, sent, received
        *(4 * ep_size, None, 4 * ep_size, None),  # dispatched, combined
        *(4 * 22 * tokens, None, 4 * 22 * tokens, None),  # target ranks, send indices
        *(4 * ep_size * eplb_experts, None),
    ):
        offset = -(-offset // 128) * 128 if part is None else offset + part
    return offset
