"""The largest batch of each producer, worked by hand at the edges."""

from dataclasses import replace

import pytest

from eagerbuf import EngineConfig, sizing

PLAIN = EngineConfig(2048, 8, max_total_num_tokens=100_000, context_len=4096)
DYNAMIC = replace(PLAIN, pp_size=2, enable_dynamic_chunking=True)
OFF = replace(DYNAMIC, chunked_prefill_size=None)
WHOLE = replace(DYNAMIC, admits_whole_prompts=True)


@pytest.mark.parametrize(
    ("config", "sends", "fails"),
    [
        (DYNAMIC, True, False),
        (replace(DYNAMIC, chunked_prefill_size=1), True, False),
        (OFF, False, True),
        (replace(OFF, chunked_prefill_size=-1), False, True),
        (WHOLE, False, True),
        (replace(DYNAMIC, pp_size=1), False, False),
        (replace(OFF, pp_size=1), False, False),
        (replace(OFF, enable_dynamic_chunking=False), False, False),
        (PLAIN, False, False),
    ],
)
def test_a_profile_needs_stages_and_a_chunk(config, sends, fails):
    assert (config.profiles, config.profile_fails) == (sends, fails)


def test_the_longest_probe_and_its_reserve():
    assert [sizing.probe_tokens(chunk) for chunk in (1, 3, 4, 4097)] == [1, 3, 5, 5121]
    assert [sizing.probe_ceiling(chunk) for chunk in (1, 3, 4, 4097)] == [2, 4, 5, 5122]
    assert sizing.profiler_probe(DYNAMIC) == 2560
    assert [sizing.profiler_probe(config) for config in (PLAIN, OFF, WHOLE)] == [0, 0, 0]


def test_a_predicted_chunk_is_the_chunk_or_one_unit_that_fits_the_budget():
    assert sizing.dynamic_chunk(DYNAMIC) == 2048
    assert [sizing.dynamic_chunk(config) for config in (PLAIN, OFF, WHOLE)] == [0, 0, 0]
    small = replace(DYNAMIC, chunked_prefill_size=1)
    units = {(1, 64): 64, (1, 63): 1, (256, 256): 256, (256, 255): 1, (1, 0): 1}
    for (page, budget), tokens in units.items():
        config = replace(small, page_size=page, max_prefill_tokens=budget)
        assert sizing.dynamic_chunk(config) == tokens, (page, budget)


def test_the_longest_prompt_leaves_a_token_of_the_context_or_of_the_pool():
    assert sizing.longest_prompt(PLAIN) == 4095
    assert sizing.longest_prompt(replace(PLAIN, max_total_num_tokens=1000)) == 999
    assert sizing.longest_prompt(replace(PLAIN, context_len=None)) == 99_999
    assert sizing.longest_prompt(replace(PLAIN, context_len=1)) == 0


def test_whole_prompts_and_the_late_look():
    off = replace(PLAIN, chunked_prefill_size=None, max_prefill_tokens=1000)
    assert sizing.whole_prefill(off) == 4095
    assert sizing.whole_prefill(replace(off, max_prefill_tokens=5000)) == 5000
    assert sizing.whole_prefill(replace(off, disable_radix_cache=True)) == 999 + 4095
    tight = replace(off, disable_radix_cache=True, max_total_num_tokens=4500)
    assert sizing.whole_prefill(tight) == 4500
    assert sizing.prefill(off) == 4095
    assert sizing.prefill(replace(PLAIN, chunked_prefill_size=1)) == 1
    assert sizing.prefill(replace(PLAIN, admits_whole_prompts=True)) == 16_384


def test_decode_makes_a_row_for_each_request():
    assert sizing.decode(PLAIN) == 8
    assert sizing.decode(replace(PLAIN, num_tokens_per_bs=4)) == 32
