"""Batches that a buffer does not hold, and the dummy that no batch resembles."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import sizing
from eagerbuf.diagnose.findings.case import Case, Finding, first_release, newer_that_fits
from eagerbuf.diagnose.unknowns import NO_COPY
from eagerbuf.shapes import Shape
from eagerbuf.sizing import padded_decode, sync_align


def token_overflow(case: Case) -> Iterator[Finding]:
    """Batches of the scheduler or the profiler with too many tokens."""
    have = case.bound.max_num_tokens
    for shape in case.too_many_tokens():
        tokens = shape.num_tokens or 0
        yield Finding(
            "token-overflow",
            "error",
            shape.producer,
            f"{_name(shape)} of {tokens} tokens, buffer of {have} under {case.rule.name} "
            f"({case.rule.formula}): {tokens - have} tokens too many; it is {shape.formula}",
            ", or ".join(token_remedies(case)),
        )


def token_remedies(case: Case) -> Iterator[str]:
    """What mends a token overflow, each tried on the case before it is offered."""
    newer = newer_that_fits(case)
    if newer:
        pull = "#28677" if newer.sizing_rule == "pr28677" else "#28894"
        yield f"release {newer.release} or newer (PR {pull})"
    chunk = _aligned_chunk(case)
    if chunk:
        yield f"--chunked-prefill-size {_per_server(case, chunk)}"
    if not case.with_config(enable_dynamic_chunking=False).overflows():
        yield "drop --enable-dynamic-chunking"
    yield f"{NO_COPY}=1"


def _aligned_chunk(case: Case) -> int | None:
    """The next smaller chunk whose padded batches fit: a multiple of tp_size, of 4 for probes."""
    config = case.config
    step = config.tp_size * (4 if config.profiles else 1)
    chunk = config.scheduler_chunk // step * step
    fits = chunk > 0 and not case.with_config(chunked_prefill_size=chunk).overflows()
    return chunk if fits else None


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
            f"or --max-running-requests {_per_server(case, _aligned_requests(case))}, "
            f"or {NO_COPY}=1",
        )


def _aligned_requests(case: Case) -> int:
    """The next larger number of requests that padding leaves as it is."""
    requests = case.config.max_running_requests
    while (padded := int(padded_decode(case.config, requests)[1])) != requests:
        requests = padded
    return requests


def bench_bypass(case: Case) -> Iterator[Finding]:
    """A benchmark whose forward is larger than the buffer."""
    if not case.bench_overflows() or case.bench_run is None:
        return
    batch, length = case.bench_run
    have = case.bound.max_num_tokens
    newer = newer_that_fits(case)
    ways = [f"release {newer.release} or newer (PR #28894)"] if newer else []
    if have >= batch:
        ways.append(f"at most {have // batch} input tokens at batch {batch}")
    ways.append(f"{NO_COPY}=1")
    yield Finding(
        "bench-bypass",
        "error",
        "benchmark",
        f"benchmark of {batch} x {length} = {batch * length} tokens in one forward, buffer of "
        f"{have} under {case.rule.name}: it bypasses the scheduler, which would chunk it "
        "(#29159, #30773)",
        ", or ".join(ways),
    )


def autotune_misshape(case: Case) -> Iterator[Finding]:
    """An autotune dummy of another shape than the padded batch."""
    config = case.config
    tokens = sizing.decode(config)
    padded = sync_align(config, tokens)
    if case.rule.pads or padded == tokens:
        return
    yield Finding(
        "autotune-misshape",
        "warning",
        "autotune_dummy",
        f"the autotune dummy has {tokens} tokens, the scheduler's full batch {padded} "
        f"(padded to {_alignment(case)}): kernels are tuned at a shape that never runs",
        f"release {first_release('pr28677')} or newer (PR #28677)",
    )


def _name(shape: Shape) -> str:
    names = {"profiler_probe": "probe", "dynamic_chunk": "dynamic chunk"}
    return names.get(shape.producer, f"{shape.producer} batch")


def _alignment(case: Case) -> str:
    config = case.config
    steps = f"a multiple of attn_tp_size {config.attn_tp_size}"
    if config.cp_align_size > 1:
        steps += f", then of cp_align_size {config.cp_align_size}"
    return steps


def _per_server(case: Case, per_rank: int) -> int:
    """A flag's value: it is given for all attention DP ranks together."""
    return per_rank * case.config.attn_dp_size
