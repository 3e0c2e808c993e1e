"""A latency profile that a log shows: it failed, or the log ends in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.diagnose.findings.case import Case, Finding, first_broadcast

if TYPE_CHECKING:
    from eagerbuf.read.profile import Profile


def failed_in_log(case: Case, seen: Profile) -> Finding:
    """A profile that failed: a hang where only PP rank 0 knows, else no dynamic chunking."""
    step = "fit of the latency model" if seen.in_fit else "latency profile"
    what = f"the log shows that the {step} failed: {seen.failure}{_overflow(seen)}"
    if case.shown_to_hang:
        return Finding(
            "profile-hang",
            "error",
            "profiler_probe",
            f"{what}; only PP rank 0 knows, and the others block indefinitely",
            f"release {first_broadcast()} or newer (PR #37675), {_remedy(seen)}",
        )
    return Finding(
        "profile-fails",
        "warning",
        "profiler_probe",
        f"{what}; dynamic chunking is off, so every chunk has the size that is set",
        f"mend what made it fail, {_remedy(seen)}",
    )


def _overflow(seen: Profile) -> str:
    if seen.overflow is None:
        return ""
    sent, held = seen.overflow
    return f" (a probe of {sent} tokens overflowed the buffer of {held})"


def _remedy(seen: Profile) -> str:
    no_copy = "SGLANG_EAGER_INPUT_NO_COPY=1, " if seen.overflow else ""
    return f"{no_copy}or drop --enable-dynamic-chunking"


def ends_in(case: Case) -> Finding:
    """A log that ends in the profile: where start-up stands, and what to look at."""
    at = case.profile.at if case.profile else ""
    where = f" at probe {at}" if at else ""
    if case.broadcast:
        why = (
            "every rank waits for PP rank 0, which has not told that it failed or is done; if one "
            "of several TP ranks of stage 0 has failed alone, its peers wait in a collective"
        )
    else:
        why = "if the profile has failed, only PP rank 0 knows, and the others block indefinitely"
    return Finding(
        "profile-hang",
        "warning",
        "profiler_probe",
        f"the log ends in the latency profile{where}: if nothing follows, the hang is here; {why}",
        'look for "Failed to profile prefill latency" in the log of PP rank 0 (the first node), '
        "and at where its processes are (py-spy dump --pid PID)",
    )
