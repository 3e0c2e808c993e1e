"""What is decided with fields hidden must be what is decided when they are known."""

import re
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eagerbuf import RULES, EngineConfig, Reading, check
from eagerbuf.config import FIELDS
from tests.core.test_properties import configs

RELEASES = ("0.5.14", "0.5.17", "0.5.20", "0.5.23")
HIDDEN = [name for name in FIELDS if name != "enable_mixed_chunk"]


def reading(config, hidden):
    """As `read_config` gives it: a field that is not known is None and named."""
    values = {name: None if name in hidden else getattr(config, name) for name in FIELDS}
    return Reading(None, values, tuple(hidden))


def known(config):
    """With everything given, and CP off where it has one rank."""
    whole = replace(config, context_len=config.context_len or 4096)
    return replace(whole, cp_zigzag=whole.cp_zigzag and whole.attn_cp_size > 1)


@given(
    configs(),
    st.sets(st.sampled_from(HIDDEN), min_size=1, max_size=2),
    st.sampled_from(RELEASES),
)
@settings(max_examples=120, deadline=None)
def test_a_verdict_holds_whatever_is_hidden(config, hidden, release):
    config = known(config)
    assume(config.attn_cp_size > 1 or "attn_cp_size" not in hidden or not config.cp_zigzag)
    full, part = check(config, release), check(reading(config, hidden), release)
    for rule in RULES:
        assert _agrees(part.rules[rule].verdict, full.rules[rule].verdict), rule
    assert _agrees(part.verdict, full.verdict)
    if part.verdict == "unknown" != full.verdict:
        assert part.unknown


def _agrees(part, full):
    """Start-up that is certain to hang hangs, also where an unknown pool overflows besides."""
    return part in (full, "unknown") or (part, full) == ("hangs", "overflows")


@given(
    configs(),
    st.sets(st.sampled_from(HIDDEN), min_size=1, max_size=2),
)
@settings(max_examples=80, deadline=None)
def test_a_bound_is_exact_or_says_at_least(config, hidden):
    config = known(config)
    full, part = check(config, "0.5.14"), check(reading(config, hidden), "0.5.14")
    for rule in RULES:
        exact, bound = full.rules[rule].bound, part.rules[rule].bound
        if bound.at_least:
            assert bound.max_num_tokens <= exact.max_num_tokens
        else:
            assert bound.max_num_tokens == exact.max_num_tokens


@given(configs(), st.sampled_from(RELEASES))
@settings(max_examples=120, deadline=None)
def test_remedies_mend(config, release):
    config = known(config)
    report = check(config, release)
    for rule in ("pr28386", "pr28677"):
        for finding in report.rules[rule].findings:
            for field, changed in _applied(config, finding.remedy).items():
                again = check(changed, release).rules[rule]
                codes = [other.code for other in again.findings]
                assert finding.code not in codes, (rule, finding, field)


def _applied(config: EngineConfig, remedy: str) -> dict:
    """The configurations that a remedy's flags make, each alone; values are per server."""
    ranks = config.attn_dp_size
    found = {}
    for flag, field in (
        ("--chunked-prefill-size", "chunked_prefill_size"),
        ("--max-running-requests", "max_running_requests"),
    ):
        match = re.search(rf"{flag} (\d+)", remedy)
        if match and int(match[1]) // ranks > 0:
            found[field] = replace(config, **{field: int(match[1]) // ranks})
    if "drop --enable-dynamic-chunking" in remedy:
        found["enable_dynamic_chunking"] = replace(config, enable_dynamic_chunking=False)
    match = re.search(r"--max-prefill-tokens (\d+)", remedy)
    if match:
        found["max_prefill_tokens"] = replace(config, max_prefill_tokens=int(match[1]))
    return found
