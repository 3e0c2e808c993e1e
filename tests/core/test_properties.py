"""What must hold for every configuration, tried on random ones."""

from dataclasses import asdict, replace
from functools import cached_property

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import (
    RULES,
    ChunkSizePredictor,
    EngineConfig,
    admit,
    buffer_size,
    ceil_align,
    hybrid_bucket,
    hybrid_buckets,
    mlp_sync_pad,
    size_many,
    worst_shapes,
)
from eagerbuf._frames import config_columns
from eagerbuf.config import Layout
from eagerbuf.sizing import decode, dynamic_chunk, prefill, profiler_probe

SIZES = {
    "chunked_prefill_size": st.one_of(st.none(), st.just(-1), st.integers(1, 40_000)),
    "max_running_requests": st.integers(1, 5000),
    "max_prefill_tokens": st.integers(0, 70_000),
    "max_total_num_tokens": st.integers(1, 10**6),
    "context_len": st.one_of(st.none(), st.integers(2, 300_000)),
    "page_size": st.sampled_from([1, 16, 32, 64, 128, 256]),
    "pp_size": st.integers(1, 8),
    "cp_zigzag": st.booleans(),
    "enable_dynamic_chunking": st.booleans(),
    "enable_mixed_chunk": st.booleans(),
    "disable_radix_cache": st.booleans(),
    "disable_attn_tp_gather": st.booleans(),
    "moe_a2a_backend": st.sampled_from(["none", "deepep"]),
    "moe_dense_tp_size": st.sampled_from([None, 1]),
    "num_tokens_per_bs": st.integers(1, 9),
    "admits_whole_prompts": st.booleans(),
}
UNLIKE_RELEASED = ("admits_whole_prompts", "attn_tp_input_scattered")  # released rules too small


@st.composite
def configs(draw, **fixed):
    attn_tp, dp, cp = (draw(st.integers(1, 6)) for _ in range(3))
    values = {name: draw(strategy) for name, strategy in SIZES.items()}
    layout = {"dp_size": dp, "attn_cp_size": cp, "enable_dp_attention": draw(st.booleans())}
    tp = attn_tp * cp * (dp if layout["enable_dp_attention"] else 1)
    scattered = draw(st.booleans())
    return EngineConfig(
        **{**values, **layout, "tp_size": tp, "attn_tp_input_scattered": scattered, **fixed}
    )


@given(st.integers(0, 10**9), st.integers(1, 10**5))
def test_alignment_is_the_least_multiple(x, multiple):
    aligned = ceil_align(x, multiple)
    assert aligned % multiple == 0
    assert 0 <= aligned - x < multiple


@given(configs())
def test_sizes_are_aligned_where_the_scheduler_pads(config):
    for rule in ("pr28677", "pr28894"):
        size = buffer_size(config, rule)
        if config.require_mlp_sync:
            assert size.max_bs % config.cp_align_size == 0
            assert size.max_num_tokens % config.cp_align_size == 0
        assert size.max_num_tokens >= size.max_bs * config.num_tokens_per_bs


@given(
    configs(), st.sampled_from(["max_running_requests", "max_prefill_tokens", "num_tokens_per_bs"])
)
def test_no_size_shrinks_when_a_setting_grows(config, field):
    grown = _with(config, **{field: getattr(config, field) + 7})
    for rule in RULES:
        before, after = buffer_size(config, rule), buffer_size(grown, rule)
        assert after.max_num_tokens >= before.max_num_tokens, rule
        if field != "num_tokens_per_bs" or rule != "tight":
            assert after.max_bs >= before.max_bs, rule


@given(configs(), st.integers(1, 5000), st.sampled_from(["max_total_num_tokens", "context_len"]))
def test_no_size_shrinks_with_a_larger_pool_or_context(config, more, field):
    if getattr(config, field) is None:
        return
    grown = _with(config, **{field: getattr(config, field) + more})
    for rule in RULES:
        before, after = buffer_size(config, rule), buffer_size(grown, rule)
        assert after.max_num_tokens >= before.max_num_tokens, rule


@given(configs(), st.integers(1, 5000))
def test_no_size_shrinks_with_a_larger_chunk(config, more):
    if config.chunk == 0:
        return
    grown = _with(config, chunked_prefill_size=config.chunk + more)
    for rule in RULES:
        before, after = buffer_size(config, rule), buffer_size(grown, rule)
        assert after.max_num_tokens >= before.max_num_tokens, rule


@given(configs(**dict.fromkeys(UNLIKE_RELEASED, False)))
def test_tight_is_under_the_released_rules(config):
    tight, chunk, pool = (buffer_size(config, rule) for rule in ("tight", "pr28677", "pr28894"))
    assert tight.max_num_tokens <= chunk.max_num_tokens <= pool.max_num_tokens
    assert tight.max_bs <= chunk.max_bs == pool.max_bs


@given(configs())
def test_tight_holds_every_shape_that_is_copied(config):
    size = buffer_size(config, "tight")
    for shape in worst_shapes(config, "0.5.14"):
        if shape.copied and shape.in_scheduler:
            assert shape.num_tokens <= size.max_num_tokens, shape
            assert shape.bs <= size.max_bs, shape


@given(
    configs(),
    st.lists(st.integers(1, 30_000), max_size=40),
    st.integers(0, 60_000),
    st.integers(0, 5000),
    st.booleans(),
)
@settings(max_examples=400)
def test_no_admitted_batch_is_over_the_tight_ceiling(config, prompts, carried, decodes, ignore_eos):
    prompts = [p for p in prompts if p < (config.context_len or 10**9)]
    chunked = config.scheduler_chunk > 0
    decodes = min(decodes, config.max_running_requests) if chunked else 0
    taken = admit(
        prompts,
        config,
        carried=carried if chunked else 0,
        mixed_decode=decodes,
        ignore_eos=ignore_eos,
    )
    tokens = sum(taken) + (decodes if taken else 0)
    padded = ceil_align(tokens, config.tp_size) if config.attn_tp_input_scattered else tokens
    if config.require_mlp_sync:
        _, (padded,) = mlp_sync_pad(
            [tokens],
            attn_tp_size=config.attn_tp_size,
            cp_align_size=config.cp_align_size,
            is_extend=True,
        )
    assert padded <= buffer_size(config, "tight").max_num_tokens
    assert len(taken) + decodes <= max(buffer_size(config, "tight").max_bs, decodes + 1)


@given(st.lists(configs(), min_size=1, max_size=8), st.sampled_from(list(RULES)))
def test_tables_equal_scalars(many, rule):
    frame = pd.DataFrame([asdict(config) for config in many])
    sized = size_many(frame, rule)
    for config, requests, tokens in zip(many, sized.max_bs, sized.max_num_tokens, strict=True):
        one = buffer_size(config, rule)
        assert (one.max_bs, one.max_num_tokens) == (requests, tokens)


@given(
    st.floats(1e-12, 1e3),
    st.floats(0, 1e3),
    st.integers(64, 10**5),
    st.integers(0, 10**6),
    st.floats(0, 1),
)
def test_the_predictor_never_grows_the_chunk(a, b, chunk, history, factor):
    size = ChunkSizePredictor(a, b, 1.0).predict(
        history, chunk, page_size=1, context_len=10**8, smooth_factor=factor
    )
    assert size is None or size <= chunk


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_count_maps_up_to_a_bucket(x, most):
    buckets = hybrid_buckets(most)
    bucket = hybrid_bucket(x, most)
    assert list(buckets) == sorted(set(buckets))
    assert buckets[-1] == most
    if x < most and x <= 256:
        assert bucket == 1 << (x - 1).bit_length()  # as released, even where that is over `most`
    else:
        assert bucket in buckets
        assert bucket == min((b for b in buckets if b >= x), default=most)


@pytest.mark.parametrize("rule", list(RULES))
def test_an_empty_table_stays_empty(rule):
    frame = pd.DataFrame({"chunked_prefill_size": [], "max_running_requests": []})
    assert len(size_many(frame, rule)) == 0


def _with(config, **changes):
    return replace(config, **changes)


SOURCES = (prefill, profiler_probe, dynamic_chunk, decode)
DERIVED = [name for name, value in vars(Layout).items() if isinstance(value, cached_property)]


@given(st.lists(configs(), min_size=1, max_size=6))
def test_what_follows_from_a_table_is_what_follows_from_each_row(many):
    """And an int or a bool for one configuration, an array of the same kind for a table."""
    columns = config_columns(pd.DataFrame([asdict(config) for config in many]))
    assert len(DERIVED) >= 11
    for name in DERIVED:
        column = np.broadcast_to(getattr(columns, name), len(many))
        values = [getattr(config, name) for config in many]
        assert column.tolist() == values, name
        assert {type(value) for value in values} in ({int}, {bool}), name
        assert column.dtype.kind == ("b" if type(values[0]) is bool else "i"), name


@given(configs(), st.sampled_from(SOURCES))
def test_what_a_batch_source_sends_is_a_whole_number(config, source):
    config = replace(config, max_total_num_tokens=config.max_total_num_tokens or 10**6)
    tokens = source(config)
    assert type(tokens) is int
    assert 0 <= tokens <= buffer_size(config, "tight").max_num_tokens


@given(configs())
def test_what_follows_leaves_a_configuration_as_it_is(config):
    fresh = replace(config)
    for name in DERIVED:
        getattr(config, name)
    assert config == fresh
    assert hash(config) == hash(fresh)
    assert repr(config) == repr(fresh)
    assert replace(config, tp_size=config.tp_size * 2).attn_tp_size == fresh.attn_tp_size * 2
