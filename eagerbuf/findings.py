"""What can be wrong with a deployment under one rule: each finding, its message and its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eagerbuf import producers
from eagerbuf.facts import NO_COPY, Bound, Deployment
from eagerbuf.releases import Release, releases
from eagerbuf.shapes import Shape
from eagerbuf.sizing import RULES, TOKEN_BYTES, Rule, max_prefill_buffer_tokens, sync_align

OVER_ALLOCATED = 4  # times the tight ceiling


@dataclass(frozen=True)
class Finding:
    """One finding: a code, error | warning | info, the producer, what is so, and what mends it."""

    code: str
    severity: str
    producer: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Case:
    """One deployment held against one rule; `broadcast`: a failed profile reaches all ranks."""

    deployment: Deployment
    rule: Rule
    bound: Bound
    shapes: list[Shape]
    broadcast: bool

    def too_many_tokens(self) -> list[Shape]:
        """Shapes of the scheduler or the profiler whose tokens overflow the buffer for certain."""
        return [] if self.bound.at_least else list(self._over_tokens())

    def _over_tokens(self) -> Iterator[Shape]:
        for shape in self.shapes:
            counts = shape.copied and shape.in_scheduler and shape.num_tokens is not None
            if counts and (shape.num_tokens or 0) > self.bound.max_num_tokens:
                yield shape

    def too_many_requests(self) -> list[Shape]:
        """Shapes whose requests overflow the buffer."""
        capacity = self.bound.max_bs
        return [
            shape
            for shape in self.shapes
            if shape.copied and capacity is not None and (shape.bs or 0) > capacity
        ]

    def bench_overflow(self) -> tuple[int, int] | None:
        """The largest benchmark batch, if the buffer does not hold it for certain."""
        runs = self.deployment.bench
        if not runs or self.bound.at_least or not self.deployment.copies:
            return None
        worst = max(runs, key=lambda run: run[0] * run[1])
        return worst if worst[0] * worst[1] > self.bound.max_num_tokens else None

    def profile_certain_to_fail(self) -> bool:
        """No chunk to multiply, or a probe that the buffer does not hold."""
        if "chunked_prefill_size" in self.deployment.unknown:
            return False
        overflowing = {shape.producer for shape in self.too_many_tokens()}
        no_chunk = bool(producers.profile_fails(self.deployment.known))
        return no_chunk or "profiler_probe" in overflowing


def find(case: Case) -> Iterator[Finding]:
    """Every finding of one case, errors first."""
    for group in (_tokens, _requests, _benchmark, _profile, _misshape, _past_context, _memory):
        yield from group(case)


def first_release(rule: str) -> str:
    """The first numbered release whose eager runner has `rule`."""
    return next(r.release for r in releases() if r.sizing_rule == rule and r.numbered)


def first_broadcast() -> str:
    """The first release that tells every rank of a failed profile."""
    return next(r.release for r in releases() if r.profile_failure_broadcast)


def _tokens(case: Case) -> Iterator[Finding]:
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


def _requests(case: Case) -> Iterator[Finding]:
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


def _benchmark(case: Case) -> Iterator[Finding]:
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


def _profile(case: Case) -> Iterator[Finding]:
    if not case.deployment.known.pp_dynamic_chunking:
        return
    certain = case.profile_certain_to_fail()
    if certain:
        yield _profile_fails(case)
    if case.broadcast:
        return
    hang = 'at "Profiling prefill latency for dynamic chunking"'
    if certain:
        what = f"and here it is certain to fail: start-up hangs {hang}"
    else:
        what = f"for ever; nothing here makes it fail, but if it does, start-up hangs {hang}"
    yield Finding(
        "profile-hang",
        "error" if certain else "warning",
        "profiler_probe",
        f"if the latency profile fails on PP rank 0, only that rank knows and the others wait {what}",
        f"release {first_broadcast()} or newer (PR #37675), or drop --enable-dynamic-chunking",
    )


def _profile_fails(case: Case) -> Finding:
    no_chunk = bool(producers.profile_fails(case.deployment.known))
    reason = (
        "chunking is off, so there is no chunk to probe at" if no_chunk else "a probe overflows"
    )
    return Finding(
        "profile-fails",
        "error",
        "profiler_probe",
        f"the latency profile is certain to fail: {reason}; dynamic chunking will not be on",
        "give --chunked-prefill-size a positive value, or drop --enable-dynamic-chunking"
        if no_chunk
        else f"release {first_release('pr28677')} or newer (PR #28677)",
    )


def _misshape(case: Case) -> Iterator[Finding]:
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


def _past_context(case: Case) -> Iterator[Finding]:
    deployment, config = case.deployment, case.deployment.known
    if "chunked_prefill_size" in deployment.unknown or not producers.profiles(config):
        return
    context, probe = config.context_len, producers.profiler_probe(config)
    if context is None or probe <= context or deployment.release.probe_clipped_to_context:
        return
    clipped = next(r.release for r in releases() if r.probe_clipped_to_context)
    most = context * 4 // 5
    yield Finding(
        "probe-past-context",
        "warning",
        "profiler_probe",
        f"the longest probe has {probe} tokens, context_len is {context}: {probe - context} tokens "
        "past it, so the profile may fail or write past a request's row",
        f"--chunked-prefill-size {most} or less, or release {clipped} or newer",
    )


def _memory(case: Case) -> Iterator[Finding]:
    yield from _over_allocated(case)
    yield from _wasted_term(case)


def _over_allocated(case: Case) -> Iterator[Finding]:
    tight = case.deployment.bound(RULES["tight"])
    have, enough = case.bound.max_num_tokens, tight.max_num_tokens
    if tight.at_least or enough == 0 or have < OVER_ALLOCATED * enough:
        return
    yield Finding(
        "over-allocated",
        "info",
        "prefill",
        f"buffer of {have} tokens under {case.rule.name}, the scheduler makes {enough} at most: "
        f"{TOKEN_BYTES * (have - enough):,} bytes of a rank's memory are never used",
        "none needed: harmless unless memory is short (#32351 proposes the smaller ceiling)",
    )


def _wasted_term(case: Case) -> Iterator[Finding]:
    """`max_prefill_tokens` above what the probes need makes the buffer larger for nothing."""
    deployment, config = case.deployment, case.deployment.known
    if "chunked_prefill_size" in deployment.unknown or not producers.profiles(config):
        return
    enough = producers.probe_ceiling(config.chunk)
    reserved = max_prefill_buffer_tokens(config)
    grows = case.rule.name in ("pr28677", "pr28894") and reserved >= case.bound.max_num_tokens
    workspace = config.moe_a2a_backend == "flashinfer" and case.rule.name == "pr28894"
    if reserved <= enough or not (grows or workspace):
        return
    what = f"{TOKEN_BYTES * (reserved - enough):,} bytes of eager buffers" if grows else ""
    if workspace:
        what += (" and " if what else "") + "the FlashInfer all-to-all workspace (from 0.5.22)"
    yield Finding(
        "wasted-term",
        "info",
        "dynamic_chunk",
        f"max_prefill_tokens {config.max_prefill_tokens} sizes buffers of {reserved} tokens, "
        f"the probes need {enough} and no chunk grows past {config.chunk}: {what} wasted",
        f"--max-prefill-tokens {enough}",
    )


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


def broadcasts(rule: Rule, release: Release) -> bool:
    """Whether a failed profile reaches all ranks; pr28386 lived long before that was mended."""
    return release.profile_failure_broadcast and rule.name != "pr28386"
