"""What a released start-up works on: its objects, with stand-ins for requests, batches and model.

An object here is a `Part`: the methods that it does not define are those of the release.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from types import MethodType, SimpleNamespace
from typing import Any

import torch

from eagerbuf.repro.hang.groups import Groups
from eagerbuf.repro.hang.pipeline_rank import one_request
from eagerbuf.repro.hang.stage import HIDDEN, VOCAB, Stage
from eagerbuf.repro.launch.event_log import EventLog
from tests.upstream.dynamic import MIXIN
from tests.upstream.engine import SRT
from tests.upstream.load import Room
from tests.upstream.registry import Registry
from tests.upstream.stubs import NO_NODE, nothing

SCHEDULER = ("Scheduler", f"{SRT}/managers/scheduler.py")
PIPELINE = ("SchedulerPPMixin", MIXIN)
COORDINATOR = ("GroupCoordinator", f"{SRT}/distributed/parallel_state.py")
ROUNDS = 4
LEAST_RUNS, ENOUGH_S = 3, 0.008  # of each probe


class Through(Exception):
    """The event loop has no end of its own."""


class Part:
    """An object of a release. `sources`: the released classes, with their files, it stands for."""

    def __init__(self, room: Room, sources: Sequence[tuple[str, str]], **attributes: Any) -> None:
        self.room, self.sources = room, sources
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        for owner, path in self.__dict__.get("sources", ()):
            if self.room.has(f"{owner}.{name}", path):
                self.__dict__[name] = MethodType(self.room.piece(f"{owner}.{name}", path), self)
                return self.__dict__[name]
        raise AttributeError(f"{name}: neither here nor released")


def pipeline_group(room: Room, groups: Groups) -> Part:
    """The pipeline's GroupCoordinator; its messages are the released ones."""
    return Part(
        room,
        [COORDINATOR],
        is_first_rank=groups.is_first,
        is_last_rank=groups.is_last,
        world_size=groups.ranks,
        ranks=list(range(groups.ranks)),
        device_group=groups.pipeline,
        cpu_group=groups.control,
    )


class Scheduler(Part):
    """A pipeline stage's scheduler on a server that has just started: no request ever comes."""

    def __init__(self, room: Room, journal: EventLog, **attributes: Any) -> None:
        super().__init__(room, [SCHEDULER, PIPELINE], **attributes)
        self.journal = journal
        self.turns = self.rounds = 0
        self.request_receiver = SimpleNamespace(recv_requests=self.ingest_requests)
        self.process_input_requests = nothing

    def ingest_requests(self) -> Any:
        """What the stage before has sent; each turn of the loop begins here and may wait."""
        at = f"round {self.rounds}, micro-batch {self.turns % self.pp_group.world_size}"
        self.journal.step(f"event loop: {at}", waits=True)
        self.turns += 1
        return [] if self.pp_group.is_first_rank else self._pp_recv_pyobj_from_prev_stage()

    def get_next_batch_to_run(self, **state: Any) -> Any:
        """Nothing to run; later releases hand the running batch in and take it back."""
        return SimpleNamespace(**state, batch_to_run=None) if state else None

    def on_idle(self) -> None:
        """Called once a round, as there is nothing to do."""
        self.rounds += 1
        if self.rounds == ROUNDS:
            raise Through


class Log:
    """SGLang's logger: what it says of a failed profile goes into the journal."""

    def __init__(self, journal: EventLog) -> None:
        self.journal = journal
        self.info = self.debug = nothing

    def warning(self, message: str) -> None:
        if "will be disabled" in message:
            self.journal.step("dynamic chunking disabled", waits=True, failure=message)


class Probe:
    """A request of the profiler, under the field names of every release."""

    prefix_indices: tuple[int, ...] = ()
    req_pool_idx = None
    last_node = NO_NODE
    kv = SimpleNamespace(holds_kv=False)

    def __init__(self, *, origin_input_ids: Any, **_: Any) -> None:
        self.origin_input_ids = self.full_untruncated_fill_ids = origin_input_ids
        self.set_extend_input_len = self.init_next_round_input = nothing

    def set_extend_range(self, start: int, end: int) -> None:
        self.extend_range = SimpleNamespace(start=start, end=end)


class ScheduleBatch:
    """One probe, or the empty batch that the event loop starts from."""

    forward_mode = SimpleNamespace(is_extend=lambda: True)

    def __init__(self, reqs: Sequence[Probe], **_: Any) -> None:
        self.reqs = reqs

    @classmethod
    def init_new(cls, reqs: Sequence[Probe], *_: Any) -> ScheduleBatch:
        return cls(reqs)

    def prepare_for_extend(self) -> None:
        self.input_ids = torch.tensor(self.reqs[0].origin_input_ids)


def forward_batch(batch: ScheduleBatch, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
    """ForwardBatch.init_new: the tensors of one request without a history."""
    return one_request(len(batch.input_ids), 0) | {"input_ids": batch.input_ids}


class ModelRunner:
    """A small stage behind the released static buffers, with a clock of its own.

    The clock advances by the CPU time of the fastest of a few runs, so that one sweep, as upstream
    makes it, is enough on a busy machine.
    """

    def __init__(self, buffers: Registry, journal: EventLog, context_len: int) -> None:
        self.buffers, self.journal, self.stage = buffers, journal, Stage(torch.device("cpu"))
        self.model_config = SimpleNamespace(
            context_len=context_len, hidden_size=HIDDEN, dtype=torch.float32, is_multimodal=False
        )
        self.get_pp_proxy_topk_size = self.get_pp_proxy_residual_num_blocks = nothing
        self.seconds, self.probes = 0.0, 0

    def warm_up(self, tokens: int) -> None:
        """The first run of a process is slow, on every rank."""
        batch = one_request(tokens, 0)
        self.stage.forward(self.stage.embed(batch["input_ids"], batch["positions"]))

    def forward(self, *, forward_batch: dict[str, torch.Tensor], **_: Any) -> None:
        runs: list[float] = []
        while len(runs) < LEAST_RUNS or sum(runs) < ENOUGH_S:
            start = time.thread_time()
            self.run(forward_batch)
            runs.append(time.thread_time() - start)
        self.seconds += min(runs)
        tokens = len(forward_batch["input_ids"])
        self.journal.note(sample=[self.probes, tokens, 1e3 * min(runs)])
        self.probes += 1

    def run(self, batch: dict[str, torch.Tensor]) -> None:
        views = self.buffers.load(batch)
        self.stage.forward(self.stage.embed(views["input_ids"] % VOCAB, views["positions"]))

    def perf_counter(self) -> float:
        return self.seconds


def probes(journal: EventLog, inputs: Sequence[Any]) -> Iterator[Any]:
    """The profiler's progress bar: one step a probe; after the last one it broadcasts."""
    for i, ids in enumerate(inputs):
        journal.step(f"probe {i + 1} of {len(inputs)}: {len(ids)} tokens")
        yield ids
    journal.step("broadcast of the samples", waits=True)


def stubs(journal: EventLog, runner: ModelRunner) -> dict[str, Any]:
    """What replaces names of the release: what needs a GPU, a model or a server."""

    def progress(inputs: Iterable[Any], **_: Any) -> Iterator[Any]:
        return probes(journal, list(inputs))

    return {
        "logger": Log(journal),
        "tqdm": progress,
        "time": runner,
        "Req": Probe,
        "ScheduleBatch": ScheduleBatch,
        "ForwardBatch": SimpleNamespace(init_new=forward_batch),
        "PPProxyTensors": lambda tensors: tensors,
        "SamplingParams": SimpleNamespace,
        "ModelImpl": SimpleNamespace(TRANSFORMERS="transformers"),
        "get_resolved_model_impl": lambda _: "sglang",
        "get_device_module": lambda: SimpleNamespace(synchronize=nothing),
        "is_dp_attention_enabled": lambda: False,
        "set_is_extend_in_batch": nothing,
        "release_kv_cache": nothing,
        "attn_cp_tp_broadcast_pyobj": lambda data: data,  # no attention ranks beside this one
    }
