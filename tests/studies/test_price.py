"""What each rule costs: prices against arithmetic by hand, and the figures that show them."""

from dataclasses import replace

import pandas as pd
import pytest

from eagerbuf import EngineConfig, plots, price_rules
from eagerbuf.model import models
from eagerbuf.studies.deployments import NamedDeployment, deployments, log_lines
from eagerbuf.studies.price import (
    STATED,
    TP_SIZES,
    ceilings_by_pool,
    overhead_per_model,
    price_ranges,
    token_shares,
)

RULES = ["pr28386", "pr28677", "pr28894", "tight"]


@pytest.fixture(scope="module")
def prices():
    return price_rules((*deployments(), *log_lines()))


def one(prices, deployment, rule="pr28894"):
    (row,) = prices[(prices.deployment == deployment) & (prices.rule == rule)].itertuples()
    return row


def test_a_log_whose_model_is_known(prices):
    """DeepSeek-R1 on TP8: MLA, so each rank holds 61 layers of 576 numbers, two bytes each."""
    row = one(prices, "pool 1061980 / DeepSeek-R1 / TP8")
    assert row.nbytes == 48 * 1_061_980 + 16 * 3319 == 51_028_144
    assert row.kv_bytes_per_token == 70_272
    assert row.pool_bytes == 70_272 * 1_061_980
    assert row.share == pytest.approx(51_028_144 / 74_627_458_560)
    assert row.kv_tokens == 51_028_144 // 70_272 == 726
    tight = one(prices, "pool 1061980 / DeepSeek-R1 / TP8", "tight")
    assert (tight.max_num_tokens, tight.nbytes, tight.kv_tokens) == (8192, 446_320, 6)


def test_a_log_that_states_the_bytes_of_a_token(prices):
    """DeepSeek-V4-Flash: the log prints 15955.85 bytes a token and 45.78 GB for 3,080,960."""
    row = one(prices, "pool 3080960 / DeepSeek-V4-Flash / TP8")
    assert (row.model, row.known) == (STATED, True)
    assert round(row.pool_bytes / 2**30, 2) == 45.78


def test_pipeline_stages_and_heads_of_a_documented_deployment(prices):
    """Qwen3-235B-A22B on TP4, PP8: 11 layers on the first stage, one of four heads on a rank."""
    row = one(prices, "dynamic 18432 / TP4 / PP8")
    assert row.kv_bytes_per_token == 2 * 11 * 128 * 2
    assert row.share == pytest.approx((48 * 3_080_960 + 16 * 128) / (5632 * 3_080_960))


def test_attention_ranks_split_the_heads_not_all_ranks(prices):
    """DP attention over 2 of 8 ranks leaves 4 ranks to 4 heads; CP over 8 of 8 leaves one rank."""
    assert one(prices, "DP attention / TP8 / DP2 / EAGLE").kv_bytes_per_token == 2 * 94 * 128 * 2
    parallel = prices[prices.deployment == "context parallel / TP8 / CP8"]
    assert set(parallel.attn_tp_size) == {1}
    llama = parallel[parallel.model == "Llama-3.1-8B"]
    assert set(llama.kv_bytes_per_token) == {131_072}


def test_an_unknown_model_is_a_range_over_all(prices):
    rows = prices[(prices.deployment == "pool 665690") & (prices.rule == "pr28894")]
    assert not rows.known.any()
    assert rows.model.tolist() == [model.name for model in models()]
    ranges = price_ranges(prices)
    row = ranges[(ranges.deployment == "pool 665690") & (ranges.rule == "pr28894")].iloc[0]
    assert (row.share_least, row.share_most) == (rows.share.min(), rows.share.max())
    assert row.models == len(models())
    known = ranges[ranges.models == 1]
    assert (known.share_least == known.share_most).all()
    assert len(ranges) == 4 * (len(deployments()) + len(log_lines()))


def test_unknown_ranks_are_a_range_too(prices):
    rows = prices[(prices.deployment == "pool 21985288") & (prices.rule == "tight")]
    assert len(rows) == len(models()) * len(TP_SIZES)
    assert set(rows.nbytes) == {48 * 16_384 + 16 * 4096}


def test_with_chunking_off_every_rule_takes_the_pool(prices):
    off = prices[prices.deployment == "pool 10000 / chunking off"]
    assert set(off.max_num_tokens) == {10_000}
    assert set(off.nbytes) == {480_512}


def test_without_a_pool_there_is_no_price():
    lacking = NamedDeployment("mine", EngineConfig(8192, 64), None, "")
    with pytest.raises(ValueError, match="max_total_num_tokens=None"):
        price_rules([lacking])


def test_a_model_with_fewer_layers_than_stages_is_left_out():
    config = EngineConfig(8192, 64, max_total_num_tokens=10**6, pp_size=30)
    names = set(price_rules([NamedDeployment("deep", config, None, "")]).model)
    assert "DeepSeek-V2-Lite" not in names  # 27 layers
    assert "Qwen3-Next-80B-A3B" not in names  # its first stage keeps no keys and values
    assert "Llama-3.1-8B" in names


def test_the_pool_sized_rule_alone_grows_with_the_pool():
    config = deployments()[0].config
    curve = ceilings_by_pool(config, [1000, 16_384, 16_385, 10**7])
    by_rule = curve.pivot(index="max_total_num_tokens", columns="rule", values="max_num_tokens")
    assert by_rule["pr28894"].tolist() == [16_384, 16_384, 16_385, 10**7]
    assert by_rule["pr28677"].unique().tolist() == [16_384]
    assert by_rule["pr28386"].unique().tolist() == [12_288]
    assert by_rule["tight"].unique().tolist() == [15_360]
    assert curve.rule.drop_duplicates().tolist() == RULES


def test_the_ceilings_of_a_pool_are_those_of_the_deployment():
    for deployment in (*deployments()[1:3], log_lines()[0]):
        pool = deployment.config.max_total_num_tokens
        curve = ceilings_by_pool(deployment.config, [pool])
        rows = price_rules([deployment]).drop_duplicates("rule")
        assert curve.max_num_tokens.tolist() == rows.max_num_tokens.tolist()


def test_overhead_is_sorted_by_the_bytes_of_a_token():
    frame = overhead_per_model(log_lines()[2].config)
    assert frame.kv_bytes_per_token.is_monotonic_decreasing
    assert len(frame) == 4 * len(models())
    first = frame[frame.rule == "pr28894"].iloc[0]
    assert (first.model, first.kv_bytes_per_token) == ("DeepSeek-V3", 70_272)


def test_token_shares_are_48_bytes_over_those_of_a_token():
    frame = token_shares((1, 8), (1, 8), (1, 2))
    assert len(frame) == 8 * len(models())
    llama = frame[frame.model == "Llama-3.1-8B"].set_index(["tp_size", "pp_size", "kv_dtype_bytes"])
    assert llama.share[1, 1, 2] == 48 / 131_072
    assert llama.share[8, 8, 1] == 48 / 1024  # four layers of one head


def test_figures_are_plain_numbers_and_state_what_the_frame_says(prices):
    config = deployments()[0].config
    curve = plots.ceiling_against_pool(ceilings_by_pool(config, [1000, 10**6]), prices)
    assert len(curve.data) == len(RULES) + 2
    assert sum(len(trace.x) for trace in curve.data[len(RULES) :]) == 2 * 10
    labels = {note.text for note in curve.layout.annotations}
    assert labels == {"pr28386: 12,288", "pr28677: 16,384", "tight: 15,360", "pr28894: the pool"}
    frame = overhead_per_model(config)
    overhead = plots.overhead_by_model(frame)
    most = 100 * frame[frame.rule == "pr28894"].share.max()
    assert f"to {most:.2g} % of the KV pool" in overhead.layout.title.text
    assert [trace.name for trace in overhead.data] == RULES
    for trace in (*curve.data, *overhead.data):
        assert {type(x) for x in trace.x} <= {int, float}


def with_a_fifth_rule(frame):
    """The frame and a rule more, with the sizes of pr28677."""
    return pd.concat([frame, frame[frame.rule == "pr28677"].assign(rule="pr99999")])


def test_a_fifth_rule_is_drawn_and_named_apart_from_the_others(prices):
    config = deployments()[0].config
    four = ceilings_by_pool(config, [1000, 10**6])
    curve = plots.ceiling_against_pool(with_a_fifth_rule(four), with_a_fifth_rule(prices))
    assert [trace.name for trace in curve.data[:5]] == [*RULES, "pr99999"]
    assert curve.data[4].line.dash not in [trace.line.dash for trace in curve.data[:4]]
    shifts = {note.text.split(":")[0]: note.yshift for note in curve.layout.annotations}
    # four ceilings within a fifth of a decade stand one over another, the pool alone
    assert sorted(shifts.values()) == [-27, -9, 0, 9, 27]
    assert shifts["pr28894"] == 0
    overhead = plots.overhead_by_model(with_a_fifth_rule(overhead_per_model(config)))
    assert [trace.name for trace in overhead.data] == [*RULES, "pr99999"]
    assert len({trace.marker.symbol for trace in overhead.data}) == 5


def test_the_title_counts_the_ceilings_that_grow():
    config = deployments()[0].config
    four = ceilings_by_pool(config, [1000, 10**6])
    none = price_rules(deployments())
    told = {
        "No ceiling grows with the KV pool; what the": four[four.rule != "pr28894"],
        "One ceiling grows with the KV pool; what the": four,
        "4 ceilings grow with the KV pool, and so": ceilings_by_pool(
            replace(config, chunked_prefill_size=None, enable_dynamic_chunking=False),
            [1000, 10**6],
        ),
    }
    for title, curve in told.items():
        figure = plots.ceiling_against_pool(curve, none)
        assert figure.layout.title.text.startswith(title)
