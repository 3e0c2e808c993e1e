"""The latency profile of PP dynamic chunking: whether it fails, and whether that hangs."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import producers
from eagerbuf.findings.case import Case, Finding, first_broadcast, first_release
from eagerbuf.releases import releases


def profile(case: Case) -> Iterator[Finding]:
    """A profile that fails, and a release that hangs if one does."""
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
        "if the latency profile fails on PP rank 0, only that rank knows and the others wait "
        + what,
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


def probe_past_context(case: Case) -> Iterator[Finding]:
    """Probes longer than the model's context."""
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
