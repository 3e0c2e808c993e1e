"""The latency profile of PP dynamic chunking: whether it fails, and whether that hangs."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import sizing
from eagerbuf.diagnose.findings.batches import token_remedies
from eagerbuf.diagnose.findings.case import Case, Finding, first_broadcast
from eagerbuf.diagnose.findings.logged import ends_in, failed_in_log
from eagerbuf.releases import releases

_WHERE = 'start-up hangs at "Profiling prefill latency for dynamic chunking"'


def profile(case: Case) -> Iterator[Finding]:
    """A profile that fails, and a release that hangs if one does."""
    if not case.config.pp_dynamic_chunking:
        return
    certain = case.profile_certain_to_fail()
    if certain:
        yield _fails(case)
    if case.profile is not None:
        yield failed_in_log(case, case.profile) if case.profile.failure else ends_in(case)
    if not case.broadcast and (certain or case.profile is None) and not case.shown_to_hang:
        yield hang(certain=certain)


def hang(*, certain: bool) -> Finding:
    """The finding on a release whose ranks wait for ever if the profile fails."""
    if certain:
        what = f"for ever; here it is certain to fail: {_WHERE}"
    else:
        what = f"for ever; nothing here makes it fail for certain, but if it does, {_WHERE}"
    return Finding(
        "profile-hang",
        "error" if certain else "warning",
        "profiler_probe",
        f"if the latency profile fails on PP rank 0, only it knows, and the others wait {what}",
        f"release {first_broadcast()} or newer (PR #37675), or drop --enable-dynamic-chunking",
    )


def _fails(case: Case) -> Finding:
    if not case.config.profile_fails:
        reason, remedy = "a probe overflows its buffer", ", or ".join(token_remedies(case))
    elif case.config.admits_whole_prompts:
        reason = "the scheduler has switched chunking off, so no chunk to probe at"
        remedy = "drop --enable-dynamic-chunking"
    else:
        reason = "chunking is off, so no chunk to probe at"
        remedy = "--chunked-prefill-size above 0, or drop --enable-dynamic-chunking"
    return Finding(
        "profile-fails",
        "error",
        "profiler_probe",
        f"the latency profile is certain to fail: {reason}; dynamic chunking will not be on",
        remedy,
    )


def probe_past_context(case: Case) -> Iterator[Finding]:
    """Probes longer than the model's context."""
    config = case.config
    context, probe = config.context_len, sizing.profiler_probe(config)
    if context is None or probe <= context or case.release.probe_clipped_to_context:
        return
    clipped = next(r.release for r in releases() if r.probe_clipped_to_context)
    most = context * 4 // 5 * config.attn_dp_size
    yield Finding(
        "probe-past-context",
        "warning",
        "profiler_probe",
        f"the longest probe has {probe} tokens, context_len is {context}: {probe - context} tokens "
        "past it, so the profile may fail or write past a request's row",
        f"--chunked-prefill-size {most} or less, or release {clipped} or newer",
    )
