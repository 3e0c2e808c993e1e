"""Sizes worked by hand, and one formula for scalars and tables."""

from dataclasses import FrozenInstanceError, replace

import pandas as pd
import pytest

from eagerbuf import (
    RULES,
    BufferSize,
    EngineConfig,
    buffer_size,
    ceil_align,
    max_prefill_buffer_tokens,
    size_many,
)
from eagerbuf.studies.ablations import no_cp_step, raw_token_ceiling


def sizes(config, *rules):
    return {r: (s.max_bs, s.max_num_tokens) for r in rules if (s := buffer_size(config, r))}


def test_ceil_align():
    assert [ceil_align(x, 8) for x in (0, 1, 8, 2047)] == [0, 8, 8, 2048]
    with pytest.raises(ValueError, match="multiple=0"):
        ceil_align(3, 0)


def test_rules_in_upstream_order():
    assert list(RULES) == ["pr28386", "pr28677", "pr28894", "tight"]


def test_documented_dynamic_deployment():
    config = EngineConfig(
        12288, 128, max_total_num_tokens=10**6, tp_size=8, pp_size=4, enable_dynamic_chunking=True
    )
    assert max_prefill_buffer_tokens(config) == 16384  # the default of max_prefill_tokens
    assert sizes(config, *RULES) == {
        "pr28386": (128, 12288),
        "pr28677": (128, 16384),
        "pr28894": (128, 1_000_000),
        "tight": (128, 15360),  # 1.25 x 12288
    }


def test_odd_chunk_rounds_the_reserve_up_and_the_probe_down():
    config = EngineConfig(
        30, 4, max_prefill_tokens=0, pp_size=2, enable_dynamic_chunking=True, page_size=1
    )
    assert max_prefill_buffer_tokens(config) == 38  # ceil(37.5)
    assert buffer_size(config, "tight").max_num_tokens == 37  # int(37.5)


def test_context_parallel_requests_are_aligned():
    config = EngineConfig(8192, 100, tp_size=8, attn_cp_size=8, moe_dense_tp_size=1)
    assert sizes(config, "pr28386", "pr28677", "tight") == {
        "pr28386": (100, 8192),
        "pr28677": (104, 8192),
        "tight": (104, 8192),
    }


def test_verify_batches_need_fewer_rows_than_aligned_requests():
    """49 x 4 = 196 tokens are padded to 200: 50 requests, where aligning requests gives 56."""
    config = EngineConfig(8192, 49, tp_size=8, moe_dense_tp_size=1, num_tokens_per_bs=4)
    assert buffer_size(config, "pr28677").max_bs == 56
    assert buffer_size(config, "tight").max_bs == 50


def test_decode_tokens_can_lead():
    config = EngineConfig(1024, 2047, tp_size=8, moe_dense_tp_size=1, num_tokens_per_bs=2)
    assert sizes(config, "pr28386", "pr28677", "tight") == {
        "pr28386": (2047, 4094),
        "pr28677": (2048, 4096),
        "tight": (2048, 4096),
    }


def test_chunking_off_takes_the_pool():
    config = EngineConfig(-1, 32, max_total_num_tokens=10_000, pp_size=2)
    assert {s[1] for s in sizes(config, *RULES).values()} == {10_000}


def test_whole_prompts():
    off = {"chunked_prefill_size": None, "max_running_requests": 8}
    long = EngineConfig(**off, context_len=32_001, max_total_num_tokens=10**6)
    assert buffer_size(long, "tight").max_num_tokens == 32_000
    short = EngineConfig(**off, context_len=2_000, max_total_num_tokens=10**6)
    assert buffer_size(short, "tight").max_num_tokens == 16_384
    late = EngineConfig(
        **off, context_len=32_001, max_total_num_tokens=10**6, disable_radix_cache=True
    )
    assert buffer_size(late, "tight").max_num_tokens == 16_383 + 32_000
    pool = EngineConfig(**off, max_total_num_tokens=5_000, disable_radix_cache=True)
    assert buffer_size(pool, "tight").max_num_tokens == 5_000


def test_a_released_rule_is_too_small_for_whole_prompts_and_scattered_inputs():
    whole = EngineConfig(
        4096, 8, admits_whole_prompts=True, context_len=20_001, max_total_num_tokens=50_000
    )
    assert buffer_size(whole, "pr28677").max_num_tokens == 4096
    assert buffer_size(whole, "tight").max_num_tokens == 20_000
    scattered = EngineConfig(8100, 64, tp_size=8, attn_tp_input_scattered=True)
    assert buffer_size(scattered, "pr28677").max_num_tokens == 8100
    assert buffer_size(scattered, "tight").max_num_tokens == 8104


def test_a_chunk_below_the_predictors_unit():
    config = EngineConfig(32, 4, pp_size=2, enable_dynamic_chunking=True)
    assert buffer_size(config, "tight").max_num_tokens == 64
    paged = EngineConfig(
        32, 4, pp_size=2, enable_dynamic_chunking=True, page_size=256, max_prefill_tokens=255
    )
    assert buffer_size(paged, "tight").max_num_tokens == 40  # a unit of 256 is not allowed


def test_the_smallest_chunk_is_a_chunk():
    """One token a chunk: every rule but the pool-sized one takes it, not the pool."""
    one = EngineConfig(1, 1, max_total_num_tokens=1000)
    sizes = {rule: buffer_size(one, rule).max_num_tokens for rule in RULES}
    assert sizes == {"pr28386": 1, "pr28677": 1, "pr28894": 1000, "tight": 1}
    probing = replace(one, pp_size=2, enable_dynamic_chunking=True)
    assert max_prefill_buffer_tokens(one) == 1
    assert max_prefill_buffer_tokens(probing) == 16384
    assert max_prefill_buffer_tokens(replace(probing, max_prefill_tokens=0)) == 2  # ceil(1.25)


def test_nothing_is_reserved_for_prefill_without_a_chunk():
    dynamic = EngineConfig(None, 8, pp_size=2, enable_dynamic_chunking=True)
    assert max_prefill_buffer_tokens(dynamic) == 0
    assert max_prefill_buffer_tokens(replace(dynamic, chunked_prefill_size=-1)) == 0


def test_a_rule_tells_whether_it_pads_and_nothing_can_be_written_to():
    assert {name: rule.pads for name, rule in RULES.items()} == {
        "pr28386": False,
        "pr28677": True,
        "pr28894": True,
        "tight": True,
    }
    for frozen, field in ((RULES["tight"], "pads"), (BufferSize(1, 2), "max_bs")):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, field, 1)


def test_bytes_are_48_a_token_and_16_a_request():
    assert BufferSize(3, 10).nbytes == 480 + 48
    assert round(BufferSize(0, 665_690).nbytes / 1e6) == 32
    assert round(BufferSize(0, 3_080_960).nbytes / 1e6) == 148


def test_a_missing_pool_is_named():
    config = EngineConfig(8192, 64)
    with pytest.raises(ValueError, match="max_total_num_tokens=None"):
        buffer_size(config, "pr28894")
    with pytest.raises(ValueError, match="max_total_num_tokens=None"):
        buffer_size(EngineConfig(None, 64), "tight")
    with pytest.raises(ValueError, match=r"rule=.pr1.*pr28386"):
        buffer_size(config, "pr1")


@pytest.mark.parametrize("chunk", [1, 8192, None, 0])
@pytest.mark.parametrize("whole", [False, True])
def test_which_rules_need_the_pool(chunk, whole):
    config = EngineConfig(chunk, 64, admits_whole_prompts=whole)
    needs = {"pr28386": not chunk, "pr28677": not chunk, "pr28894": True}
    frame = pd.DataFrame({"chunked_prefill_size": [chunk], "max_running_requests": 64})
    for rule, pool in (needs | {"tight": not chunk or whole}).items():
        sized = size_many(frame.assign(admits_whole_prompts=whole), rule)
        assert sized.max_num_tokens.isna().tolist() == [pool], rule
        if pool:
            with pytest.raises(ValueError, match="max_total_num_tokens=None"):
                buffer_size(config, rule)
        else:
            assert buffer_size(config, rule).max_num_tokens == sized.max_num_tokens[0]


def test_tables_use_the_same_formulas_and_keep_the_index():
    frame = pd.DataFrame(
        {
            "chunked_prefill_size": [8192, None, None],
            "max_running_requests": [125, 5, 5],
            "tp_size": [8, None, 1],
            "dp_size": [2, 1, 1],
            "enable_dp_attention": [True, False, None],
            "max_total_num_tokens": [None, 1000, None],
        },
        index=["a", "b", "c"],
    )
    sized = size_many(frame, "pr28677")
    assert sized.index.tolist() == ["a", "b", "c"]
    assert sized.max_bs.tolist() == [128, 5, 5]
    assert sized.max_num_tokens.isna().tolist() == [False, False, True]
    assert sized.max_num_tokens["a"] == 8192
    assert sized.dtypes.astype(str).tolist() == ["Int64", "Int64"]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("tp_size", 0, "tp_size=.*row 1.*at least 1"),
        ("tp_size", 1.5, "tp_size=1.5.*row 1.*whole number"),
        ("tp_size", 3, "tp_size=3.*divisible.*row 1"),
        ("max_running_requests", None, "max_running_requests=.*row 1.*required"),
        ("enable_dp_attention", 2, "enable_dp_attention=2.*row 1"),
        ("moe_a2a_backend", 7, "moe_a2a_backend=7.*row 1"),
        ("page_size", "many", "page_size='many'.*row 1"),
    ],
)
def test_tables_name_the_bad_cell(column, value, words):
    good = {"chunked_prefill_size": 64, "max_running_requests": 4, "attn_cp_size": 2, "tp_size": 2}
    frame = pd.DataFrame([good, {**good, column: value}]).astype(object)
    if column in ("enable_dp_attention", "moe_a2a_backend", "page_size"):
        frame.loc[0, column] = {"page_size": 1, "enable_dp_attention": False}.get(column, "none")
    with pytest.raises(ValueError, match=words):
        size_many(frame, "pr28677")


def test_tables_refuse_unknown_and_missing_columns():
    with pytest.raises(ValueError, match="column 'tp'"):
        size_many(pd.DataFrame({"tp": [1]}), "tight")
    with pytest.raises(ValueError, match="column 'max_running_requests' is missing"):
        size_many(pd.DataFrame({"chunked_prefill_size": [1]}), "tight")


def test_a_remark_left_out_changes_its_own_part_of_the_rule_only():
    chunked = EngineConfig(8192, 128, tp_size=8)
    off = EngineConfig(None, 128, tp_size=8, max_total_num_tokens=50_001)
    for config in (chunked, off):
        assert raw_token_ceiling(config) == buffer_size(config, "pr28677")  # nothing is padded
        assert no_cp_step(config) == buffer_size(config, "pr28677")
    padded = EngineConfig(2730, 125, tp_size=12, dp_size=3, enable_dp_attention=True)
    assert raw_token_ceiling(padded) == BufferSize(128, 2730)
    assert no_cp_step(padded) == buffer_size(padded, "pr28677") == BufferSize(128, 2732)
