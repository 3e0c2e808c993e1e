"""The released PrefillAdder against `admit`, offered a queue the way the scheduler offers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from eagerbuf import EngineConfig, admit
from tests.upstream import draw
from tests.upstream.compare import Comparison
from tests.upstream.engine import GETTERS, SILENT, SRT
from tests.upstream.load import Room
from tests.upstream.stubs import Pool, Request, Tree
from tests.upstream.wheels import Wheel

POLICY = f"{SRT}/managers/schedule_policy.py"
ALLOCATOR = (f"{SRT}/mem_cache/allocator/base.py", f"{SRT}/mem_cache/allocator.py")
POOLS = (  # allocators of hybrid models; PrefillAdder asks whether it has one of them
    "SWATokenToKVPoolAllocator",
    "PureSWATokenToKVPoolAllocator",
    "DeepSeekV4HiSparseTokenToKVPoolAllocator",
    "UnifiedMambaTokenToKVPoolAllocator",
    "UnifiedMambaSWATokenToKVPoolAllocator",
    "PageInterleavePoolAllocator",
)
OTHER_POOL = type("OtherPool", (), {})


class Queue(NamedTuple):
    """A waiting queue (prompts in tokens) and the state it meets."""

    prompts: list[int]
    page_size: int
    max_prefill_tokens: int
    chunk: int | None
    pool: int
    max_running_requests: int
    carried: int = 0
    mixed_decode: int = 0
    ignore_eos: bool = False
    disable_radix_cache: bool = False
    max_new_tokens: int = 0  # a request's output, for which the KV pool keeps room


class Admission:
    """One release's admission of one prefill batch."""

    def __init__(self, wheel: Wheel) -> None:
        off = SimpleNamespace(enable_encoder_swa_bounded_replay=False)
        settings = SimpleNamespace(features=off, schedule_policy="fcfs")
        stubs: dict[str, Any] = dict.fromkeys(GETTERS, lambda: settings)
        stubs |= dict.fromkeys(POOLS, OTHER_POOL) | {
            "is_dsa_prefill_cp_in_seq_split": lambda: False,
            "is_prefill_context_parallel_enabled": lambda: False,
            "mamba_prefill_chunk_grid": lambda: 1,
            "is_gfx95_supported": lambda: False,
            "_IS_HIP": False,
            "logger": SILENT,
        }
        self.room = Room(wheel, stubs)

    def admit(self, queue: Queue) -> list[int]:
        """Tokens taken, the carried request first; stops at the first answer but CONTINUE."""
        return self.admit_requests(queue, (self._request(queue, n) for n in queue.prompts))

    def admit_requests(self, queue: Queue, waiting: Iterable[Request]) -> list[int]:
        """The same with requests of any kind waiting instead of the queue's prompts."""
        adder = self._adder(
            queue.page_size,
            Tree(queue.disable_radix_cache),
            self._allocator(queue.page_size, queue.pool),
            None,  # the running batch: its requests are counted in mixed_decode
            1.0,
            queue.max_prefill_tokens,
            queue.chunk,
            queue.mixed_decode,
        )
        if queue.carried:
            adder.add_chunked_req(self._request(queue, queue.carried))
        for request in waiting:
            if len(adder.can_run_list) >= queue.max_running_requests - queue.mixed_decode:
                break
            if adder.add_one_req(request, bool(queue.carried), None) is not self._continue:
                break
        return [request.extend_len for request in adder.can_run_list]

    @staticmethod
    def _request(queue: Queue, tokens: int) -> Request:
        return Request(tokens, queue.ignore_eos, queue.max_new_tokens)

    @cached_property
    def _adder(self) -> Any:
        return self.room.piece("PrefillAdder", POLICY)

    @cached_property
    def _continue(self) -> Any:
        return self.room.piece("AddReqResult", POLICY).CONTINUE

    @cached_property
    def _allocator(self) -> type:
        """A KV pool with the released budget (0.5.22 on) where there is one."""
        base = "BaseTokenToKVPoolAllocator"
        budget = ("create_prefill_budget", "request_slot_reserve")
        given = [m for m in budget if self.room.has(f"{base}.{m}", *ALLOCATOR)]
        methods = {m: self.room.piece(f"{base}.{m}", *ALLOCATOR) for m in given}
        return type("Allocator", (Pool,), methods)


PLENTY = 1 << 40
DISTINCT = Queue([10], 1, 16384, None, 10, 8, ignore_eos=True, disable_radix_cache=True)


def spares_a_page(wheel: Wheel) -> bool:
    """Whether the ignore_eos path keeps a page of the pool free too (0.5.22 on)."""
    return not Admission(wheel).admit(DISTINCT)


@lru_cache(maxsize=1)
def _queues(salt: int, count: int) -> list[Queue]:
    rng = draw.generator(400 + salt)
    chunk = np.where(rng.random(count) < 0.7, 10 ** rng.uniform(0, 4, count), 0).astype(int)
    limit = np.floor(10 ** rng.uniform(0, 3, count)).astype(int)
    mixed = np.where(rng.random(count) < 0.3, rng.random(count) * np.minimum(limit, chunk), 0)
    carried = np.where((chunk > 0) & (rng.random(count) < 0.4), 10 ** rng.uniform(0, 4, count), 0)
    prompts = 10 ** (rng.random((count, 9)) * rng.choice([1, 2, 3, 4], count)[:, None])
    columns = (
        rng.choice([1, 1, 7, 16, 64], count),
        np.where(rng.random(count) < 0.1, 0, 10 ** rng.uniform(0, 4.5, count)).astype(int),
        chunk,
        np.floor(10 ** rng.uniform(0, 6, count)).astype(int),
        limit,
        carried.astype(int),
        np.floor(mixed).astype(int),
        rng.random(count) < 0.4,
        rng.random(count) < 0.5,
    )
    waiting = zip(prompts.astype(int).tolist(), rng.integers(0, 10, count).tolist(), strict=True)
    rows = zip(waiting, *(column.tolist() for column in columns), strict=True)
    return [_queue(row[:n], *rest) for (row, n), *rest in rows]


def _queue(prompts: list[int], page: int, most: int, chunk: int, *rest: Any) -> Queue:
    return Queue(prompts, page, most, chunk or None, *rest)


def roomy(queue: Queue) -> Queue:
    """The queue with a large pool where the release differs near a full one."""
    tight = queue.ignore_eos and queue.disable_radix_cache
    return queue._replace(pool=PLENTY) if tight else queue


@lru_cache(maxsize=2)
def _cases(roomier: bool, salt: int, count: int) -> tuple[list[Queue], list[list[int]]]:
    queues = [roomy(q) if roomier else q for q in _queues(salt, count)]
    return queues, [ours(queue) for queue in queues]


def config_of(queue: Queue) -> EngineConfig:
    """The deployment that a queue waits for."""
    return EngineConfig(
        chunked_prefill_size=queue.chunk,
        max_running_requests=queue.max_running_requests,
        max_prefill_tokens=queue.max_prefill_tokens,
        max_total_num_tokens=queue.pool,
        page_size=queue.page_size,
        disable_radix_cache=queue.disable_radix_cache,
    )


def ours(queue: Queue) -> list[int]:
    config = config_of(queue)
    taken: list[int] = admit(
        queue.prompts,
        config,
        carried=queue.carried,
        mixed_decode=queue.mixed_decode,
        ignore_eos=queue.ignore_eos,
    )
    return taken


def _released(wheel: Wheel) -> Callable[[Queue], list[int]]:
    return Admission(wheel).admit


ADMISSION = Comparison(
    "PrefillAdder: tokens of every request",
    lambda wheel, salt, count: _cases(spares_a_page(wheel), salt, count),
    _released,
    lambda wheel: "large pool on the ignore_eos path" if spares_a_page(wheel) else "",
)
