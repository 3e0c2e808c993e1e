"""The latency profile of PP dynamic chunking: whether it fails, and whether that hangs."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import sizing
from eagerbuf.diagnose.findings.batches import token_remedies
from eagerbuf.diagnose.findings.case import Case, Finding, first_broadcast
from eagerbuf.diagnose.findings.logged import ends_in, failed_in_log
from eagerbuf.releases import newest_release, releases

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
    if case.broadcast and case.config.tp_size > 1 and case.profile is None:
        yield one_rank_alone(case)


def hang(*, certain: bool) -> Finding:
    """The finding on a release whose ranks block indefinitely if the profile fails."""
    if certain:
        what = f"indefinitely; here it is certain to fail: {_WHERE}"
    else:
        what = f"indefinitely; nothing here makes it fail for certain, but if it does, {_WHERE}"
    return Finding(
        "profile-hang",
        "error" if certain else "warning",
        "profiler_probe",
        f"if the latency profile fails on PP rank 0, only it knows, and the others block {what}",
        f"release {first_broadcast()} or newer (PR #37675), or drop --enable-dynamic-chunking",
    )


def one_rank_alone(case: Case) -> Finding:
    """What is left of the hang where a failure is told to every rank, and a stage has several."""
    return Finding(
        "profile-hang",
        "info",
        "profiler_probe",
        f"a latency profile that fails on all {case.config.tp_size} TP ranks of stage 0 is told to "
        "every rank, but if one of them fails alone, its peers wait in a collective indefinitely: "
        "start-up hangs",
        f"none in any release up to {newest_release().release}; "
        "drop --enable-dynamic-chunking to be without the profile",
    )


def _fails(case: Case) -> Finding:
    reason, remedies = _reason(case)
    remedy = ", or ".join(dict.fromkeys([*remedies, "drop --enable-dynamic-chunking"]))
    return Finding(
        "profile-fails",
        "error",
        "profiler_probe",
        f"the latency profile is certain to fail: {reason}; dynamic chunking will not be on",
        remedy,
    )


def _reason(case: Case) -> tuple[str, list[str]]:
    if case.config.profile_fails and case.config.admits_whole_prompts:
        return "the scheduler has switched chunking off, so no chunk to probe at", []
    if case.config.profile_fails:
        return "chunking is off, so no chunk to probe at", ["--chunked-prefill-size above 0"]
    if case.probe_overflows():
        return "a probe overflows its buffer", list(token_remedies(case))
    return (
        f"release {case.release.release} returns a probe's memory to the radix cache without "
        "having locked a node of it (KeyError: None, since PR #37167)",
        ["--disable-radix-cache", f"release {mends_cache()} or newer (PR #37509)"],
    )


def mends_cache() -> str:
    """The first release whose profile works with the radix cache on after one where it fails."""
    known = [r.radix_cache_fails_profile for r in releases()]
    return releases()[len(known) - known[::-1].index(True)].release


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
