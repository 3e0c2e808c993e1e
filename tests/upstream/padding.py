"""The released MLP-sync padding against ours: `prepare_mlp_sync_batch` on a stand-in batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from eagerbuf import mlp_sync_pad
from tests.upstream import draw
from tests.upstream.compare import Comparison
from tests.upstream.engine import ATTENTION, GETTERS, SRT, backends
from tests.upstream.load import Room
from tests.upstream.stubs import model_runner, nothing, sync_batch, sync_settings
from tests.upstream.wheels import NEEDED, Wheel

SETTERS = ("set_dp_buffer_len", "set_dp_buffer_len_from_batch", "set_is_extend_in_batch")
BATCH = f"{SRT}/model_executor/forward_batch_info.py"


class Padded(NamedTuple):
    """What one rank ends up with: the mode, every rank's tokens, and its own padded batch."""

    mode: str
    num_tokens: list[int]
    own_tokens: int
    own_bs: int


class Padding:
    """One release's padding for attention ranks that are set as attributes of `settings`."""

    def __init__(self, wheel: Wheel, **settings: Any) -> None:
        self.settings = shared = sync_settings(settings)
        stubs: dict[str, Any] = dict.fromkeys(GETTERS, lambda: shared)
        stubs |= dict.fromkeys(SETTERS, nothing) | {
            "torch": SimpleNamespace(tensor=nothing),  # the copy for the GPU, in pinned memory
            "TboForwardBatchPreparer": SimpleNamespace(prepare=lambda **_: None),
            "get_moe_a2a_backend": lambda: self.backends[shared.moe_a2a_backend],
            "get_attention_dp_size": lambda: shared.attn_dp_size,
            "get_cp_padding_align_size": lambda: shared.cp_align_size,
            "mambaish_config": lambda _: None,
            "world_dp_gather_enabled": lambda: False,
            "_DP_MAX_LEN_WITH_IDLE": shared.max_len_with_idle,
            "_is_cpu": True,
            "is_hip": lambda: False,
            "prefill_graph_tolerates_sum_len": lambda: False,
        }
        self.room = Room(wheel, stubs)
        self._model_runner = model_runner(shared)

    def pad(
        self,
        num_tokens: Sequence[int],
        *,
        is_extend: bool,
        rank: int = 0,
        per_request: int = 1,
        in_graph: bool = False,
    ) -> Padded:
        """Pad one step over all DP ranks; `per_request` over 1 is a speculative verify."""
        self.settings.attn_dp_size = len(num_tokens)
        self.settings.attn_dp_rank = rank
        batch = sync_batch(num_tokens, is_extend, rank, per_request)
        batch.forward_mode = self._mode(is_extend, per_request)
        batch.can_run_dp_prefill_cuda_graph = batch.can_run_dp_breakable_cuda_graph = in_graph
        own: list[int] = []
        batch._pad_inputs_to_size = lambda _, tokens, bs: own.extend((tokens, bs))
        self._prepare(batch, self._model_runner)
        mode = "max_len" if batch.dp_padding_mode.is_max_len() else "sum_len"
        return Padded(mode, list(batch.global_num_tokens_cpu), *own)

    def mode(self, num_tokens: Sequence[int], *, is_extend: bool) -> str:
        """`get_dp_padding_mode` alone, for counts that are aligned already."""
        self.settings.attn_dp_size = len(num_tokens)
        chosen = self._modes.get_dp_padding_mode(is_extend, list(num_tokens))
        return "max_len" if chosen.is_max_len() else "sum_len"

    def _mode(self, is_extend: bool, per_request: int) -> Any:
        if is_extend:
            return self._forward_modes.EXTEND
        return self._forward_modes.TARGET_VERIFY if per_request > 1 else self._forward_modes.DECODE

    @cached_property
    def _prepare(self) -> Any:
        return self.room.piece("ForwardBatch.prepare_mlp_sync_batch", BATCH)

    @cached_property
    def _modes(self) -> Any:
        return self.room.piece("DpPaddingMode", ATTENTION)

    @cached_property
    def _forward_modes(self) -> Any:
        return self.room.piece("ForwardMode", BATCH)

    @cached_property
    def backends(self) -> dict[str, Any]:
        return backends(self.room)


class Step(NamedTuple):
    """One step of all DP ranks: tokens of each, or requests of each if `per_request` > 1."""

    num_tokens: list[int]
    attn_tp_size: int
    cp_align_size: int
    is_extend: bool
    rank: int
    per_request: int


@lru_cache(maxsize=1)
def _steps(salt: int, count: int) -> list[Step]:
    rng = draw.generator(100 + salt)
    ranks = rng.choice([1, 2, 3, 4, 8, 16], count)
    most = rng.choice([3, 300, 20_000], count)
    requests = (rng.random((count, 16)) ** 2 * most[:, None]).astype(int) - rng.integers(0, 2)
    tokens = np.maximum(requests, 0).tolist()
    columns = (
        rng.choice([1, 2, 3, 4, 8, 12], count).tolist(),
        rng.choice([1, 2, 3, 4, 6, 8], count).tolist(),
        (rng.random(count) < 0.4).tolist(),
        (rng.random(count) * ranks).astype(int).tolist(),
        rng.choice([1, 1, 2, 4, 5], count).tolist(),
    )
    return [_step(row[:n], *rest) for n, row, *rest in zip(ranks, tokens, *columns, strict=True)]


def _step(counts: list[int], tp: int, cp: int, extend: bool, rank: int, per: int) -> Step:
    per = 1 if extend else per
    return Step([n * per for n in counts], tp, cp, extend, rank, per)


def cp_step(wheel: Wheel) -> bool:
    """Whether the release still aligns each rank to the CP size (it does to 0.5.19)."""
    release = Padding(wheel, cp_align_size=4, attn_cp_size=4)
    return release.pad([5], is_extend=True).num_tokens == [8]


def _cases(wheel: Wheel, salt: int, count: int) -> tuple[list[Step], list[Padded]]:
    steps, keeps_cp = _steps(salt, count), cp_step(wheel)
    return steps, [_ours(step, step.cp_align_size if keeps_cp else 1) for step in steps]


def _ours(step: Step, cp_align_size: int) -> Padded:
    mode, padded = mlp_sync_pad(
        step.num_tokens,
        attn_tp_size=step.attn_tp_size,
        cp_align_size=cp_align_size,
        is_extend=step.is_extend,
    )
    own = padded[step.rank]
    return Padded(mode, padded, own, 1 if step.is_extend else own // step.per_request)


def _released(wheel: Wheel) -> Callable[[Step], Padded]:
    padding = Padding(wheel)

    def ask(step: Step) -> Padded:
        padding.settings.attn_tp_size = step.attn_tp_size
        padding.settings.cp_align_size = step.cp_align_size
        return padding.pad(
            step.num_tokens,
            is_extend=step.is_extend,
            rank=step.rank,
            per_request=step.per_request,
        )

    return ask


def _mode_cases(_: Wheel, salt: int, count: int) -> tuple[list[Step], list[str]]:
    steps = _steps(salt, count)
    ones = {"attn_tp_size": 1, "cp_align_size": 1}
    return steps, [mlp_sync_pad(s.num_tokens, is_extend=s.is_extend, **ones)[0] for s in steps]


def _released_mode(wheel: Wheel) -> Callable[[Step], str]:
    padding = Padding(wheel)
    return lambda step: padding.mode(step.num_tokens, is_extend=step.is_extend)


UNCHANGED = NEEDED[:2]  # the releases whose padding is exactly the one we model
PADDING = Comparison(
    "MLP-sync padding: mode, tokens of every rank, own batch",
    _cases,
    _released,
    lambda wheel: "" if cp_step(wheel) else "no CP step: compared without it",
    also_in_full=UNCHANGED,
)
MODE = Comparison("get_dp_padding_mode", _mode_cases, _released_mode, also_in_full=UNCHANGED)
