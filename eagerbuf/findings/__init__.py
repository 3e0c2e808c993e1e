"""What can be wrong with a deployment under one rule: each finding, its message and its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf.findings.batches import (
    autotune_misshape,
    batch_overflow,
    bench_bypass,
    token_overflow,
)
from eagerbuf.findings.case import Case, Finding, broadcasts
from eagerbuf.findings.memory import over_allocated, wasted_term
from eagerbuf.findings.startup import probe_past_context, profile

__all__ = ["Case", "Finding", "broadcasts", "find"]

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
