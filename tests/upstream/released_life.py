"""What a pipeline rank does that runs the start-up of a release.

Released code: init_chunked_prefill or DynamicChunkSizer, the profiler, the broadcast, load_batch
with its registry, the event loop and its messages.
"""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.repro.hang.groups import Groups, join
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.event_log import DONE, READY, EventLog
from eagerbuf.repro.launch.supervised import Assignment
from eagerbuf.sizing import BufferSize
from tests.upstream.engine import GETTERS
from tests.upstream.load import Room
from tests.upstream.rank_parts import (
    SCHEDULER,
    ModelRunner,
    Scheduler,
    Through,
    pipeline_group,
    stubs,
)
from tests.upstream.registry import Registry
from tests.upstream.stubs import Tree
from tests.upstream.wheels import Wheel

SIZER = "maybe_init_dynamic_chunk_sizer"  # from 0.5.20 on a step of its own


def run_rank(settings: Settings, wheel: Wheel, size: BufferSize, assignment: Assignment) -> None:
    """The whole life of a rank, from the rendezvous to the last round of the event loop."""
    log = assignment.log
    torch.set_num_threads(1)
    log.step("rendezvous", waits=True)
    groups = join(assignment, settings.device, settings.limit_s)
    scheduler = released_scheduler(settings, wheel, size, groups, log)
    dist.barrier(groups.control)
    where = {"device": str(groups.device), "backend": groups.backend, "torch": torch.__version__}
    log.step(READY, **where, buffer_nbytes=size.nbytes, program=f"SGLang {wheel.version}")
    start_up(scheduler)
    serve(scheduler)
    log.step("barrier after the last round", waits=True)
    dist.barrier(groups.control)
    log.step(DONE)


def start_up(scheduler: Scheduler) -> None:
    """The part of the scheduler's start that profiles; all ranks but the first wait in it."""
    first = scheduler.pp_group.is_first_rank
    scheduler.journal.step("start-up" if first else "start-up: no samples yet", waits=not first)
    scheduler.init_chunked_prefill()
    if scheduler.room.has(f"{SCHEDULER[0]}.{SIZER}", SCHEDULER[1]):
        scheduler.maybe_init_dynamic_chunk_sizer()
        sizer = scheduler.dynamic_chunk_sizer
        scheduler.journal.note(model=model(sizer.predictor if sizer else None))
    else:
        on = scheduler.enable_dynamic_chunking
        scheduler.journal.note(model=model(scheduler.length_predictor if on else None))


def model(predictor: Any) -> dict[str, Any]:
    """The coefficients that a rank holds, or that dynamic chunking is off on it."""
    if predictor is None:
        return {"enabled": False, "a": None, "b": None, "c": None}
    names = ("quadratic_coeff_a", "linear_coeff_b", "constant_coeff_c")
    values = (getattr(predictor, name) for name in names)
    return {"enabled": True, **dict(zip("abc", values, strict=True))}


def serve(scheduler: Scheduler) -> None:
    """A few rounds of the event loop, then the sends that are still under way."""
    with suppress(Through):
        scheduler.event_loop_pp()
    scheduler.journal.step("wait for the last sends", waits=True)
    scheduler._pp_commit_comm_work(scheduler.send_req_work)


def released_scheduler(
    settings: Settings, wheel: Wheel, size: BufferSize, groups: Groups, journal: EventLog
) -> Scheduler:
    """The release's scheduler on static buffers of this size, warmed up by one chunk."""
    config = settings.config
    runner = ModelRunner(
        Registry(wheel, size.max_bs, size.max_num_tokens), journal, config.context_len or 0
    )
    runner.warm_up(settings.chunk)
    shared = engine(settings, groups)
    getters = dict.fromkeys(GETTERS, lambda: shared)
    room = Room(wheel, getters | stubs(journal, runner))
    shared.pp_group = pipeline_group(room, groups)
    return Scheduler(
        room,
        journal,
        server_args=shared,
        ps=shared,
        pp_group=shared.pp_group,
        world_group=shared.world_group,
        tp_worker=SimpleNamespace(model_runner=runner),
        model_config=runner.model_config,
        req_to_token_pool=SimpleNamespace(max_context_len=config.context_len),
        token_to_kv_pool_allocator=None,
        tree_cache=Tree(disable=True),
        spec_algorithm=SimpleNamespace(is_none=lambda: True),
        max_prefill_tokens=config.max_prefill_tokens,
        page_size=config.page_size,
        device="cpu",
    )


def engine(settings: Settings, groups: Groups) -> SimpleNamespace:
    """Server arguments and ranks of every release, one object under all their getters."""
    return SimpleNamespace(
        chunked_prefill_size=settings.chunk,
        enable_dynamic_chunking=True,
        enable_mixed_chunk=False,
        prefill_decode_interval=None,
        prefill_decode_interval_min_bs=0,
        enable_dsa_prefill_context_parallel=False,
        pp_async_batch_depth=0,
        pp_size=groups.ranks,
        pp_rank=groups.rank,
        tp_size=1,
        **dict.fromkeys(("attn_tp_size", "attn_cp_size", "attn_dp_size"), 1),
        **dict.fromkeys(("attn_tp_rank", "attn_cp_rank", "attn_dp_rank"), 0),
        world_group=SimpleNamespace(rank=groups.rank, cpu_group=groups.control),
    )
