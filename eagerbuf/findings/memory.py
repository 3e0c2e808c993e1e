"""Memory that is reserved and never used."""

from __future__ import annotations

from collections.abc import Iterator

from eagerbuf import producers
from eagerbuf.findings.case import Case, Finding
from eagerbuf.sizing import RULES, TOKEN_BYTES, max_prefill_buffer_tokens

OVER_ALLOCATED = 4  # times the tight ceiling


def over_allocated(case: Case) -> Iterator[Finding]:
    """Buffers several times the tight ceiling."""
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


def wasted_term(case: Case) -> Iterator[Finding]:
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
