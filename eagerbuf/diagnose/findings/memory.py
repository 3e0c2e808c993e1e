"""Memory that is reserved and never used."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import sizing
from eagerbuf.diagnose.findings.case import Case, Finding
from eagerbuf.diagnose.findings.workspace import Workspace, deepep_wasted
from eagerbuf.diagnose.unknowns import capacity
from eagerbuf.sizing import RULES, TOKEN_BYTES

OVER_ALLOCATED = 4  # times the tight ceiling


def over_allocated(case: Case) -> Iterator[Finding]:
    """Buffers several times the tight ceiling."""
    tight = capacity(case.config, RULES["tight"])
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


def wasted_term(case: Case) -> Iterator[Finding]:
    """`max_prefill_tokens` above what the probes need makes something larger for nothing."""
    config = case.config
    if not config.profiles:
        return
    enough = sizing.probe_ceiling(config.chunk)
    saved = _saved_bytes(case, enough)
    workspace = Workspace(case, enough)
    wasted = [f"{saved:,} bytes of eager buffers"] if saved > 0 else []
    wasted += filter(None, [workspace.wasted, deepep_wasted(case, enough)])
    if wasted or workspace.refused:
        yield Finding(
            "wasted-term",
            "info",
            "dynamic_chunk",
            f"max_prefill_tokens {config.max_prefill_tokens} sizes buffers, the probes need "
            f"{enough} tokens and no chunk grows past {config.chunk}: "
            + "; ".join(filter(None, [_and(wasted), workspace.refused])),
            f"--max-prefill-tokens {enough}{workspace.also}",
        )


def _and(wasted: list[str]) -> str:
    return f"{' and '.join(wasted)} wasted" if wasted else ""


def _saved_bytes(case: Case, enough: int) -> int:
    """What the remedy saves; nothing is claimed where an unknown pool may dominate anyway."""
    if case.bound.at_least or case.config.max_prefill_tokens <= enough:
        return 0
    leaner = case.with_config(max_prefill_tokens=enough)
    return TOKEN_BYTES * (case.bound.max_num_tokens - leaner.bound.max_num_tokens)
