"""Memory that is reserved and never used."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import producers
from eagerbuf.facts import capacity
from eagerbuf.findings.case import Case, Finding
from eagerbuf.releases import at_or_after
from eagerbuf.sizing import RULES, TOKEN_BYTES, max_prefill_buffer_tokens

OVER_ALLOCATED = 4  # times the tight ceiling
WORKSPACE_SINCE = "0.5.22"  # FlashInfer's all-to-all workspace is sized by the same number
WORKSPACE_FLOOR = 4096  # tokens


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
    if not producers.profiles(config):
        return
    enough = int(producers.probe_ceiling(config.chunk))
    saved = _saved_bytes(case, enough)
    wasted = [f"{saved:,} bytes of eager buffers"] if saved > 0 else []
    if _workspace(case, enough):
        wasted.append("part of the FlashInfer all-to-all workspace")
    if wasted:
        yield Finding(
            "wasted-term",
            "info",
            "dynamic_chunk",
            f"max_prefill_tokens {config.max_prefill_tokens} sizes buffers, the probes need "
            f"{enough} tokens and no chunk grows past {config.chunk}: "
            f"{' and '.join(wasted)} wasted",
            f"--max-prefill-tokens {enough}",
        )


def _saved_bytes(case: Case, enough: int) -> int:
    """What the remedy saves; nothing is claimed where an unknown pool may dominate anyway."""
    if case.bound.at_least or case.config.max_prefill_tokens <= enough:
        return 0
    leaner = case.with_config(max_prefill_tokens=enough)
    return TOKEN_BYTES * (case.bound.max_num_tokens - leaner.bound.max_num_tokens)


def _workspace(case: Case, enough: int) -> bool:
    reserved = int(max_prefill_buffer_tokens(case.config))
    larger = max(reserved, WORKSPACE_FLOOR) > max(enough, WORKSPACE_FLOOR)
    uses = case.config.moe_a2a_backend == "flashinfer" and case.rule.name == "pr28894"
    return uses and larger and at_or_after(case.release, WORKSPACE_SINCE)
