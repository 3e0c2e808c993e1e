"""The tight ceiling holds every batch that a search can make, and every producer reaches it."""

import numpy as np
import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, buffer_size, sizing
from eagerbuf.sizing import longest_prompt
from eagerbuf.studies.deployments import deployments
from tests.bound_search import (
    PRODUCERS,
    Bounds,
    State,
    admitted,
    draw_configs,
    exists,
    fitted,
    label,
    obstacle,
    reach,
    reach_table,
    reachability,
    retracted,
    search,
)
from tests.bound_search.draw import draw_states, longest
from tests.bound_search.search import steps
from tests.upstream.draw import batches


def test_no_batch_is_over_the_tight_ceiling():
    found = search(batches())
    table = found.table().set_index("producer")
    assert found.batches == table.batches.sum() >= 100_000
    assert found.over == table.over_buffer.sum() == table.over_formula.sum() == 0
    assert (table["largest_share_%"] == 100).all()
    assert (table.batches >= 1_000).all()
    assert (table.at_ceiling >= 500).all()
    shares = found.shares()
    assert shares.batches.sum() == found.batches
    assert shares.batches[shares.bin == "over"].sum() == 0


def test_the_same_seed_finds_the_same_batches():
    once, again, other = (search(1_000, seed=seed).table() for seed in (5, 5, 6))
    assert once.equals(again)
    assert not once.equals(other)


@pytest.mark.parametrize(
    ("rule", "outgrown"),
    [
        ("pr28386", {"prefill", "whole_prefill", "profiler_probe", "decode"}),
        ("pr28677", {"whole_prefill"}),
        ("pr28894", set()),
    ],
)
def test_the_search_breaks_the_released_rules_that_are_too_small(rule, outgrown):
    table = search(3_000, rule=rule).table().set_index("producer")
    broken = set(table.index[table.over_buffer > 0])
    assert broken >= outgrown
    assert broken  # inputs scattered over attention TP outgrow every released rule
    assert table.over_formula.sum() == 0


@pytest.mark.parametrize(
    ("rule", "forgotten"), [("pr28677", {"whole", "scattered"}), ("pr28894", {"scattered"})]
)
def test_the_later_released_rules_are_too_small_in_these_places_only(rule, forgotten):
    """Prompts admitted whole although a chunk is set; inputs scattered over attention TP."""
    rng, broken = np.random.default_rng(4), set()
    for config in draw_configs(rng, 200):
        bounds = Bounds(config, rule)
        if any(bounds.exceeded(*bounds.padded(step)) for step in steps(rng, config, admitted)):
            places = {"whole"} if config.admits_whole_prompts and config.chunk else set()
            places |= {"scattered"} if config.attn_tp_input_scattered else set()
            assert places & forgotten, config
            broken |= places & forgotten if len(places & forgotten) == 1 else set()
    assert broken == forgotten


SMALLER = {
    "prefill": lambda c: max(1, (c.chunk if c.scheduler_chunk else sizing.whole_prefill(c)) - 1),
    "whole_prefill": lambda c: max(c.max_prefill_tokens, sizing.longest_prompt(c)),
    "probe_tokens": lambda chunk: max(1, 5 * chunk // 4 - 1),
    "profiler_probe": lambda c: c.chunk if c.profiles else 0,
    "dynamic_chunk": lambda c: c.chunk if c.profiles else 0,
    "decode": lambda c: c.max_running_requests,
}


@pytest.mark.parametrize("name", SMALLER)
def test_the_search_notices_a_formula_that_is_too_small(name, monkeypatch):
    """Each term of the ceiling is needed: with less of it one of the same batches is over."""
    monkeypatch.setattr(sizing, name, SMALLER[name])
    assert search(4_000).over > 0


@pytest.mark.parametrize("align", ["attn_tp_size", "cp_align_size", "tp_size"])
def test_the_search_notices_padding_that_the_ceiling_forgets(align, monkeypatch):
    from eagerbuf import shapes, sizing

    def forgetful(config, tokens):
        class Flat:
            def __getattr__(self, name):
                return 1 if name == align else getattr(config, name)

        return padded_extend(Flat(), tokens)

    padded_extend = sizing.padded_extend
    monkeypatch.setattr(sizing, "padded_extend", forgetful)
    monkeypatch.setattr(shapes, "padded_extend", forgetful)
    assert search(3_000).over > 0


def test_drawn_states_are_possible_ones_and_of_every_kind():
    rng = np.random.default_rng(0)
    seen = set()
    for config in draw_configs(rng, 300):
        predictor, most = fitted(rng, config), longest(config)
        for state in draw_states(rng, config, predictor, 12):
            assert all(1 <= tokens <= most for tokens in state.prompts)
            assert state.carried + state.history <= most
            assert state.mixed_decode + (state.carried > 0) <= config.max_running_requests
            assert not state.mixed_decode or config.enable_mixed_chunk
            name = label(config, state)
            below = config.chunk < 64 and state.chunk is not None and state.chunk > config.chunk
            seen |= {name, (name, config.require_mlp_sync), (name, config.cp_zigzag), below}
            seen |= {(name, config.attn_tp_input_scattered), (name, config.page_size > 1)}
    admission = [name for name, shape in PRODUCERS.items() if shape in ("prefill", "dynamic_chunk")]
    assert seen >= {True, *admission}
    assert seen >= {(name, flag) for name in admission for flag in (False, True)}


@pytest.fixture(scope="module")
def rows():
    return reachability(draw_configs(np.random.default_rng(1), 1_000))


def test_every_producer_reaches_its_ceiling_up_to_rounding(rows):
    table = reach_table(rows).set_index("producer")
    assert set(table.index) == set(PRODUCERS)
    assert (table.free >= 30).all()
    assert (table.up_to_rounding == table.free).all()
    assert (table.exact >= 20).all()
    assert (rows.short >= 0).all()


def test_what_rounding_leaves_is_at_most_a_page_or_two_alignment_units(rows):
    free = rows[rows.obstacle == ""]
    page = np.array([config.page_size for config in free.config])
    whole, predicts = free.producer == "whole_prefill", free.producer == "dynamic_chunk"
    assert (free.short[~predicts] <= (page - ~whole)[~predicts]).all()
    assert set(free.short[~predicts & ~whole & (page == 1)]) == {0}
    assert set(free.short[whole & (page == 1)]) == {0, 1}
    predicted = free[predicts]
    units = [2 * max(config.page_size, 64) for config in predicted.config]
    assert (predicted.short <= units).all()


def test_without_rounding_every_admitted_ceiling_is_reached_to_the_token():
    """Worked by hand: chunk 8192, budget 16384, context 20001, pool far larger."""
    kind = {"max_total_num_tokens": 10**6, "context_len": 20001}
    chunked = EngineConfig(8192, 128, enable_mixed_chunk=True, **kind)
    whole = EngineConfig(None, 128, **kind)
    late = EngineConfig(None, 128, disable_radix_cache=True, **kind)
    short = EngineConfig(None, 128, max_total_num_tokens=10**6, context_len=1001)
    assert [reach(chunked, name).batch.num_tokens for name in ("prefill", "mixed")] == [8192, 8192]
    assert reach(whole, "whole_prefill").batch.num_tokens == 20000
    assert reach(late, "late_look").batch.num_tokens == 16383 + 20000
    assert reach(short, "whole_prefill").batch.num_tokens == 16383  # strictly under the budget


def test_a_chunk_below_the_alignment_unit_is_outgrown_by_the_unit():
    config = EngineConfig(40, 8, pp_size=2, enable_dynamic_chunking=True, context_len=4096)
    predictor = ChunkSizePredictor(1e-4, 0.1, 1.0)
    step = reach(config, "dynamic_chunk", predictor)
    assert step.batch.num_tokens == 64 == buffer_size(config, "tight").max_num_tokens


def test_the_request_axis_is_reached_by_prompts_and_by_decodes():
    config = EngineConfig(8192, 125, tp_size=8, moe_dense_tp_size=1, max_total_num_tokens=10**6)
    assert len(admitted(config, State((1,) * 200))) == 125
    bounds = Bounds(config)
    assert bounds.padded(reach(config, "decode")) == (128, 128)
    assert bounds.size.max_bs == 128


@pytest.mark.parametrize(
    ("changes", "producer", "reason"),
    [
        ({"context_len": 1001, "max_running_requests": 2}, "prefill", "requests"),
        ({"context_len": 1001, "max_prefill_tokens": 900}, "prefill", "max_prefill_tokens"),
        ({"max_total_num_tokens": 4000}, "prefill", "pool"),
        ({"context_len": 4000, "max_total_num_tokens": 5000}, "dynamic_chunk", "context"),
        ({}, "prefill", ""),
        ({}, "dynamic_chunk", ""),
        ({}, "decode", ""),
    ],
)
def test_what_keeps_a_batch_below_the_ceiling_is_named(changes, producer, reason):
    kind = {"max_running_requests": 64, "context_len": 32768, "max_total_num_tokens": 10**6}
    config = EngineConfig(4096, pp_size=2, enable_dynamic_chunking=True, **kind | changes)
    assert obstacle(config, producer) == reason
    predictor = ChunkSizePredictor(1e-6, 0.1, 1.0)
    made = reach(config, producer, predictor).batch.num_tokens
    bound = Bounds(config).of(producer)
    assert made <= bound.raw
    assert (made < bound.raw - bound.slack) == (reason != "")


def test_the_documented_deployments_reach_their_ceilings():
    """One predicts no chunk as large as the static one: that is over its max_prefill_tokens."""
    predictor = ChunkSizePredictor(1e-5, 0.02, 30.0)
    reasons = {
        (deployment.config.chunk, producer): obstacle(deployment.config, producer)
        for deployment in deployments()
        for producer in PRODUCERS
        if exists(deployment.config, producer, predictor)
    }
    assert {key: reason for key, reason in reasons.items() if reason} == {
        (18432, "dynamic_chunk"): "max_prefill_tokens"
    }


@pytest.mark.parametrize("context_len", [1000, 4096, 131072])
def test_a_retracted_request_comes_back_two_tokens_under_the_longest(context_len):
    config = EngineConfig(None, 8, max_total_num_tokens=10**6, context_len=context_len)
    assert retracted(context_len) == context_len - 3 == longest_prompt(config) - 2


def test_reach_refuses_what_a_deployment_does_not_have():
    with pytest.raises(ValueError, match="unknown, give one of prefill, mixed"):
        reach(EngineConfig(512, 8), "benchmark")
    with pytest.raises(ValueError, match="'verify': does not exist"):
        reach(EngineConfig(512, 8), "verify")
    with pytest.raises(ValueError, match="no request fits"):
        reach(EngineConfig(None, 8, page_size=64, max_total_num_tokens=64), "whole_prefill")


def test_latencies_linear_to_thirteen_digits_end_the_lemma_and_noise_brings_it_back():
    """In exact arithmetic no chunk grows; in floating point `a` must be more than rounding."""
    keywords = {"page_size": 1, "context_len": 10**9}
    histories = range(64, 10**6, 9_999)
    linear = ChunkSizePredictor(1e-22, 0.0094, 0.0)
    assert max(linear.predict(n, 2048, **keywords) or 0 for n in histories) > 2560
    for ratio in 10.0 ** np.arange(-13, 3):  # a * chunk to b
        model = ChunkSizePredictor(ratio * 0.0094 / 2048, 0.0094, 0.0)
        assert max(model.predict(n, 2048, **keywords) or 0 for n in histories) <= 2048
