"""Batches that a buffer does not hold, and the dummy that no batch resembles."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import producers
from eagerbuf.facts import NO_COPY
from eagerbuf.findings.case import Case, Finding, first_release
from eagerbuf.shapes import Shape
from eagerbuf.sizing import sync_align


def token_overflow(case: Case) -> Iterator[Finding]:
    """Batches of the scheduler or the profiler with too many tokens."""
    capacity = case.bound.max_num_tokens
    for shape in case.too_many_tokens():
        tokens = shape.num_tokens or 0
        yield Finding(
            "token-overflow",
            "error",
            shape.producer,
            f"{_name(shape)} of {tokens} tokens, buffer of {capacity} under {case.rule.name} "
            f"({case.rule.formula}): {tokens - capacity} tokens too many; it is {shape.formula}",
            _token_remedy(case, shape),
        )


def batch_overflow(case: Case) -> Iterator[Finding]:
    """Padded batches with too many requests."""
    for shape in case.too_many_requests():
        have, need = case.bound.max_bs or 0, shape.bs or 0
        yield Finding(
            "batch-overflow",
            "error",
            shape.producer,
            f"{_name(shape)} of {need} requests, buffer of {have} under {case.rule.name}: MLP sync "
            f"pads the batch to {_alignment(case)}; {need - have} requests too many",
            f"release {first_release('pr28677')} or newer (PR #28677), "
            f"or --max-running-requests {_per_server(case, need)}, or {NO_COPY}=1",
        )


def bench_bypass(case: Case) -> Iterator[Finding]:
    """A benchmark whose forward is larger than the buffer."""
    run = case.bench_overflow()
    if run is None:
        return
    batch, length = run
    capacity = case.bound.max_num_tokens
    yield Finding(
        "bench-bypass",
        "error",
        "benchmark",
        f"benchmark of {batch} x {length} = {batch * length} tokens in one forward, buffer of "
        f"{capacity} under {case.rule.name}: it bypasses the scheduler, which would chunk it "
        "(#29159, #30773)",
        f"release {first_release('pr28894')} or newer (PR #28894), "
        f"or at most {capacity // batch} input tokens at batch {batch}, or {NO_COPY}=1",
    )


def autotune_misshape(case: Case) -> Iterator[Finding]:
    """An autotune dummy of another shape than the padded batch."""
    deployment, config = case.deployment, case.deployment.known
    needed = {"max_running_requests", "num_tokens_per_bs"} & deployment.unknown
    if case.rule.pads or needed or not config.require_mlp_sync:
        return
    tokens = producers.decode(config)
    padded = sync_align(config, tokens)
    if padded == tokens:
        return
    yield Finding(
        "autotune-misshape",
        "warning",
        "autotune_dummy",
        f"the autotune dummy has {tokens} tokens, the scheduler's full batch {padded} "
        f"(padded to {_alignment(case)}): kernels are tuned at a shape that never runs",
        f"release {first_release('pr28677')} or newer (PR #28677)",
    )


def _token_remedy(case: Case, shape: Shape) -> str:
    config = case.deployment.known
    if config.attn_tp_input_scattered and config.scheduler_chunk % config.tp_size:
        below = config.scheduler_chunk // config.tp_size * config.tp_size
        return (
            f"--chunked-prefill-size {below} (a multiple of tp_size {config.tp_size}), "
            f"or {NO_COPY}=1"
        )
    if shape.producer in ("profiler_probe", "dynamic_chunk"):
        rule = "pr28677"
        return (
            f"release {first_release(rule)} or newer (PR #28677), "
            f"or drop --enable-dynamic-chunking, or {NO_COPY}=1"
        )
    return f"release {first_release('pr28894')} or newer (PR #28894), or {NO_COPY}=1"


def _name(shape: Shape) -> str:
    names = {"profiler_probe": "probe", "dynamic_chunk": "dynamic chunk"}
    return names.get(shape.producer, f"{shape.producer} batch")


def _alignment(case: Case) -> str:
    config = case.deployment.known
    steps = f"a multiple of attn_tp_size {config.attn_tp_size}"
    if config.cp_align_size > 1:
        steps += f", then of cp_align_size {config.cp_align_size}"
    return steps


def _per_server(case: Case, requests: int) -> int:
    """The flag's value: it is given for all attention DP ranks together."""
    return requests * int(case.deployment.known.attn_dp_size)
