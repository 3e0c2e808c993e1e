"""The search for a batch over the ceiling, through a release's own admission; the longest request
that a release accepts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from eagerbuf import EngineConfig
from tests.bound_search import State, admitted
from tests.upstream.admission import PLENTY, Admission, Queue
from tests.upstream.engine import GETTERS, SILENT, SRT
from tests.upstream.load import Room
from tests.upstream.stubs import Pool
from tests.upstream.wheels import Wheel

SCHEDULER = f"{SRT}/managers/scheduler.py"
WORKER = f"{SRT}/managers/tp_worker.py"
LONGEST, INPUT = 4, 5  # of get_worker_info: tokens of a request, and one over its longest prompt


def queue_of(config: EngineConfig, state: State) -> Queue:
    return Queue(
        list(state.prompts),
        config.page_size,
        config.max_prefill_tokens,
        state.chunk or config.scheduler_chunk or None,
        config.max_total_num_tokens or PLENTY,
        config.max_running_requests,
        state.carried,
        state.mixed_decode,
        state.ignore_eos,
        config.disable_radix_cache,
    )


def released_admission(
    wheel: Wheel, differing: list[tuple[State, list[int]]] | None = None
) -> Callable[[EngineConfig, State], list[int]]:
    """The released PrefillAdder as `search` asks it; states on which ours takes other tokens are
    added to `differing`."""
    admission = Admission(wheel)

    def ask(config: EngineConfig, state: State) -> list[int]:
        taken = admission.admit(queue_of(config, state))
        if taken and min(taken) < 1:
            return []  # mixed decode at or over the chunk: no batch, as decided for ours
        if differing is not None and taken != admitted(config, state):
            differing.append((state, taken))
        return taken

    return ask


class Request:
    """A running request, of which the scheduler reads its lengths and limits."""

    def __init__(self, tokens: int) -> None:
        self.origin_input_ids = range(tokens)
        self.sampling_params = SimpleNamespace(max_new_tokens=1 << 30, min_new_tokens=0)


def accepted(wheel: Wheel, context_len: int, pool: int, prompt: int) -> tuple[int, int]:
    """(longest prompt, output tokens that a prompt of `prompt` tokens may have) in a release."""
    one = SimpleNamespace(attn_dcp_size=1)
    schedule = SimpleNamespace(max_prefill_tokens=16384, max_queued_requests=None)
    stubs: dict[str, Any] = dict.fromkeys(GETTERS, lambda: one) | {
        "get_schedule": lambda: schedule,
        "page_interleave_shard_size": lambda _: 1,
        "logger": SILENT,
    }
    room = Room(wheel, stubs)
    worker = _worker(context_len, pool, one, schedule)
    answer = room.piece("TpModelWorker.get_worker_info", WORKER)(worker)
    request = Request(prompt)
    scheduler = _scheduler(room, answer[LONGEST], pool)
    room.piece("Scheduler.init_req_max_new_tokens", SCHEDULER)(scheduler, request)
    return answer[INPUT] - 1, request.sampling_params.max_new_tokens


def _worker(context_len: int, pool: int, one: Any, schedule: Any) -> SimpleNamespace:
    names = ("max_token_pool_size", "max_total_num_tokens", "effective_max_total_num_tokens")
    logical = ("effective_logical_max_total_num_tokens", "logical_max_total_num_tokens")
    requests = SimpleNamespace(
        size=8, max_context_len=context_len, schedulable_token_capacity=lambda tokens: tokens
    )
    runner = SimpleNamespace(
        **dict.fromkeys((*names, *logical), pool),
        max_running_requests=8,
        forward_stream=None,
        req_to_token_pool=requests,
        token_to_kv_pool=SimpleNamespace(size=pool),
        token_to_kv_pool_allocator=None,
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(context_len=context_len),
        model_runner=runner,
        server_args=schedule,
        ps=one,
        dllm_algorithm=None,
        random_seed=0,
        device="cpu",
    )


def _scheduler(room: Room, max_req_len: int, pool: int) -> SimpleNamespace:
    base = f"{SRT}/mem_cache/allocator/base.py"
    clip = "BaseTokenToKVPoolAllocator.max_new_tokens_for_memory"
    allocator = Pool(1, pool)
    if room.has(clip, base):
        clipped = room.piece(clip, base)
        allocator.max_new_tokens_for_memory = clipped.__get__(allocator)
    return SimpleNamespace(
        max_req_len=max_req_len,
        max_total_num_tokens=pool,
        page_size=1,
        max_new_tokens_limit=None,
        kv_shard_widening=1,
        sliding_window_size=None,
        chunked_prefill_size=None,
        token_to_kv_pool_allocator=allocator,
    )
