"""What can be wrong with a deployment under one rule: each finding, its message and its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf.diagnose.findings.batches import (
    autotune_misshape,
    batch_overflow,
    bench_bypass,
    token_overflow,
)
from eagerbuf.diagnose.findings.case import Case, Finding
from eagerbuf.diagnose.findings.memory import over_allocated, wasted_term
from eagerbuf.diagnose.findings.startup import hang, probe_past_context, profile

__all__ = ["Case", "Finding", "common", "find", "profile"]

_CHECKS = (
    token_overflow,
    batch_overflow,
    bench_bypass,
    profile,
    autotune_misshape,
    probe_past_context,
    over_allocated,
    wasted_term,
)


def find(case: Case) -> Iterator[Finding]:
    """Every finding of one case, errors first."""
    for check in _CHECKS:
        yield from check(case)


def common(each: list[list[Finding]]) -> list[Finding]:
    """What holds whatever the unknown fields are: the findings of every completion.

    A hang that some completions may run into stays as a warning.
    """
    first, *others = each
    kept = [finding for finding in first if all(finding in other for other in others)]
    may_hang = any(finding.code == "profile-hang" for findings in each for finding in findings)
    if may_hang and not any(finding.code == "profile-hang" for finding in kept):
        kept.append(hang(certain=False))
    return kept
