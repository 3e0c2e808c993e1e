"""The whole life of a pipeline rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from eagerbuf.buffers import StaticBuffers
from eagerbuf.predictor import ChunkSizePredictor
from eagerbuf.repro.hang.event_loop import event_loop
from eagerbuf.repro.hang.groups import join
from eagerbuf.repro.hang.pipeline_rank import PipelineRank
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.hang.stage import Stage
from eagerbuf.repro.hang.start_up import init_chunked_prefill
from eagerbuf.repro.launch.event_log import DONE, READY
from eagerbuf.repro.launch.supervised import Assignment


def run_rank(settings: Settings, assignment: Assignment) -> None:
    """From the rendezvous over the start-up to the last round of the event loop."""
    log = assignment.log
    torch.set_num_threads(1)
    log.step("rendezvous", waits=True)
    groups = join(assignment, settings.device, settings.limit_s)
    buffers = StaticBuffers(settings.size, groups.device)
    rank = PipelineRank(groups, settings, buffers, Stage(groups.device), log)
    dist.barrier(groups.control)
    where = {"device": str(groups.device), "backend": groups.backend, "torch": torch.__version__}
    log.step(READY, **where, buffer_nbytes=buffers.nbytes)
    with torch.inference_mode():
        predictor = init_chunked_prefill(rank)
        log.note(model=_model(predictor))
        event_loop(rank, predictor)
    log.step("barrier after the last round", waits=True)
    dist.barrier(groups.control)
    log.step(DONE)


def _model(predictor: ChunkSizePredictor | None) -> dict[str, Any]:
    if predictor is None:
        return {"enabled": False, "a": None, "b": None, "c": None}
    return {"enabled": True, "a": predictor.a, "b": predictor.b, "c": predictor.c}
