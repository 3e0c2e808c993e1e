"""A switch of run_engine: tell every batch that the eager runner loads, as the scheduler sent it.

One process speaks for each data-parallel group: the first stage's, of attention TP rank 0. The
others of the group get the same batches.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from sitecustomize import after, tell

KINDS = {"EXTEND": "prefill", "MIXED": "mixed", "DECODE": "decode", "IDLE": "idle"}
_PROBE, _SERVING = 0, 1  # lists of requests are numbered from 1 on


class _Seen:
    """Where this process is: which list of requests it serves, and in which step."""

    requests = _PROBE
    steps = count()
    step = 0
    speaks = True


def turn_on(arithmetic: bool) -> None:
    """Record; unless `arithmetic`, the attention of served requests is left out.

    Which batches come depends on lengths alone, and long prompts cost a CPU most of its time in
    attention. The latency profile at start-up, whose times do matter, always has its attention.
    """

    @after("sglang.srt.managers.scheduler")
    def number_the_requests(module: Any) -> None:
        go_on = module.Scheduler.continue_generation

        def next_requests(self: Any, *args: Any, **kwargs: Any) -> Any:
            _Seen.requests, _Seen.steps = _Seen.requests + _SERVING, count()
            return go_on(self, *args, **kwargs)

        module.Scheduler.continue_generation = next_requests
        _hold_back(module.Scheduler)

    @after("sglang.srt.model_executor.runner.eager_runner")
    def watch(module: Any) -> None:
        _watch(module.EagerRunner)

    if not arithmetic:

        @after("sglang.srt.layers.attention.torch_native_backend")
        def leave_out(module: Any) -> None:
            for name in ("_run_sdpa_forward_extend", "_run_sdpa_forward_decode"):
                _leave_out(module.TorchNativeAttnBackend, name)


def _hold_back(scheduler: Any) -> None:
    """Make a pipeline's loop heed the pause, as the loop of a single stage does by itself.

    Messages come to every stage in the same turn, so all of them hold back the same batches.
    """
    choose = scheduler.get_next_batch_to_run

    def unless_paused(self: Any) -> Any:
        return None if self._engine_paused else choose(self)

    scheduler.get_next_batch_to_run = unless_paused


def _watch(runner: Any) -> None:
    """Count the runner's steps, idle ones too, and tell what each of them loads."""
    execute, load = runner.execute, runner.load_batch

    def count_steps(self: Any, *args: Any, **kwargs: Any) -> Any:
        _Seen.step = next(_Seen.steps)
        return execute(self, *args, **kwargs)

    def tell_batch(self: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> Any:
        if _Seen.step == 0:
            _Seen.speaks = _speaks(self.model_runner)
        if _Seen.speaks:
            tell(batch=_row(forward_batch, self.model_runner))
        return load(self, forward_batch, *args, **kwargs)

    runner.execute, runner.load_batch = count_steps, tell_batch


def _speaks(model_runner: Any) -> bool:
    args = model_runner.server_args
    groups = args.dp_size if args.enable_dp_attention else 1
    return model_runner.pp_rank == 0 and model_runner.tp_rank % (args.tp_size // groups) == 0


def _row(batch: Any, model_runner: Any) -> dict[str, Any]:
    """The batch before MLP sync padded it, and as it comes to the buffers."""
    mode = batch._original_forward_mode or batch.forward_mode
    bs = batch.batch_size if batch._original_batch_size is None else batch._original_batch_size
    kind = KINDS.get(mode.name, mode.name.lower())
    args = model_runner.server_args
    groups = args.dp_size if args.enable_dp_attention else 1
    return {
        "requests": _Seen.requests,
        "step": _Seen.step,
        "rank": model_runner.tp_rank // (args.tp_size // groups),
        "kind": kind if _Seen.requests else "probe",
        "num_tokens": int(batch.num_token_non_padded_cpu),
        "bs": int(bs),
        "padded_num_tokens": int(batch.input_ids.shape[0]),
        "padded_bs": int(batch.batch_size),
    }


def _leave_out(backend: Any, name: str) -> None:
    run = getattr(backend, name)

    def zeros(self: Any, query: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        return output.zero_() if _Seen.requests else run(self, query, output, *args, **kwargs)

    setattr(backend, name, zeros)
