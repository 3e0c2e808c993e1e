"""Shapes and predictions at their edges, worked by hand: where small changes had gone unseen."""

from dataclasses import replace

import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, mlp_sync_pad, probe_lengths, worst_shapes

DYNAMIC = EngineConfig(2048, 8, num_tokens_per_bs=3, pp_size=2, enable_dynamic_chunking=True)
MODEL = ChunkSizePredictor(1e-4, 0.1, 7.0)  # ms: f(1000) = 100 + 100 + 7


def shapes(config, release="0.5.20"):
    return {shape.producer: tuple(shape[1:5]) for shape in worst_shapes(config, release)}


def formulas(config):
    return {shape.producer: shape.formula for shape in worst_shapes(config, "0.5.20")}


def test_every_producer_whole():
    """(tokens, requests, copied, made by the scheduler)."""
    assert shapes(DYNAMIC) == {
        "prefill": (2048, 8, True, True),
        "profiler_probe": (2560, 1, True, True),
        "dynamic_chunk": (2048, 8, True, True),
        "decode": (24, 8, True, True),
        "autotune_dummy": (24, 8, False, False),
        "autotune_extend": (16384, 1, False, False),
        "benchmark": (None, None, True, False),
    }
    assert "autotune_extend" not in shapes(DYNAMIC, "0.5.14")


def test_a_chunk_of_one_token_and_none():
    one = EngineConfig(1, 8)
    assert shapes(one)["prefill"] == (1, 1, True, True)
    assert shapes(one)["autotune_extend"] == (1, 1, False, False)
    off = replace(one, chunked_prefill_size=None, context_len=4096)
    assert shapes(off)["prefill"] == (None, 8, True, True)
    assert "autotune_extend" not in shapes(off)
    assert shapes(replace(off, max_total_num_tokens=10_000))["prefill"] == (10_000, 8, True, True)


def test_the_formula_tells_which_look_there_is():
    off = EngineConfig(None, 8)
    assert "max(max_prefill_tokens, longest)" in formulas(off)["prefill"]
    late = replace(off, disable_radix_cache=True)
    assert "max_prefill_tokens - 1 + longest" in formulas(late)["prefill"]


@pytest.mark.parametrize(
    ("counts", "is_extend", "mode"),
    [
        ([8, 8], False, "max_len"),
        ([8, 0], False, "max_len"),  # 2 * 8 is not under 8 * 2
        ([8, 0, 0], False, "sum_len"),  # 2 * 8 is under 8 * 3
        ([8, 4, 0], False, "max_len"),  # 2 * 12 is not under 8 * 3
        ([8, 3, 0], False, "sum_len"),
        ([8], True, "max_len"),
        ([8, 8], True, "sum_len"),
    ],
)
def test_the_mode_of_mlp_sync(counts, is_extend, mode):
    padded = mlp_sync_pad(counts, attn_tp_size=1, cp_align_size=1, is_extend=is_extend)
    assert padded == (mode, counts if mode == "sum_len" else [max(counts)] * len(counts))


def test_what_a_chunk_may_cost():
    assert MODEL.target_ms(1000) == pytest.approx(200)
    assert MODEL.target_ms(1) == pytest.approx(0.1001)
    for flat_or_falling in (ChunkSizePredictor(0.0, 0.0, 5.0), ChunkSizePredictor(-1e-4, 0.0, 5.0)):
        with pytest.raises(ValueError, match="not positive"):
            flat_or_falling.target_ms(10)


@pytest.mark.parametrize("missing", [(None, 1.0, 1.0), (1.0, None, 1.0), (1.0, 1.0, None)])
def test_no_latency_without_all_three_coefficients(missing):
    with pytest.raises(ValueError, match="call fit first"):
        ChunkSizePredictor(*missing).latency_ms(1)


def test_the_next_chunk_solves_for_the_same_latency():
    """After 8192 tokens: 1e-4 x^2 + 1.7384 x = 2087.3216, so x = 1127.6; 17 * 64 = 1088."""
    exact = {"page_size": 1, "context_len": 10**6, "smooth_factor": 1.0}
    assert MODEL.predict(8192, 4096, **exact) == 1088
    assert MODEL.predict(8192, 4096, page_size=1, context_len=10**6) == 1856  # 1869.7 smoothed
    assert MODEL.predict(0, 1000, **exact) == 960
    assert MODEL.predict(900_000, 4096, **exact) == 1024  # a quarter of the chunk
    steep = ChunkSizePredictor(1.0, 0.0, 0.0)  # after a million tokens x = 0.005
    assert steep.predict(10**6, 100, page_size=1, context_len=10**9, smooth_factor=1.0) == 64


def test_the_next_chunk_stays_a_hundred_tokens_under_the_context():
    for room, tokens in ((740, 640), (739, 576), (164, 64), (163, None)):
        found = MODEL.predict(8192, 4096, page_size=1, context_len=8192 + room, smooth_factor=1.0)
        assert found == tokens, room


@pytest.mark.parametrize("a", [0.0, -1e-4, -1.0])
def test_a_flat_or_falling_latency_has_no_next_chunk(a):
    """Even where some chunk would cost as much: 400 x - x^2 peaks at x = 200."""
    falling = ChunkSizePredictor(a, 400.0, 0.0)
    for history_len in (0, 1, 5000):
        assert falling.predict(history_len, 200, page_size=1, context_len=10**6) is None


def test_a_solution_that_is_rounded_away_is_no_chunk():
    """x^2 + 2e9 x = 1 at x = 5e-10, which is 0 beside the 2e9 in a float."""
    steep = ChunkSizePredictor(1.0, 0.0, 0.0)
    assert steep.predict(10**9, 1, page_size=1, context_len=10**12, smooth_factor=1.0) is None


def test_the_smallest_profile():
    assert probe_lengths(1) == [1] * 128
    assert probe_lengths(100, max_len=1) == [1]
    for bad in ({"chunked_prefill_size": -5}, {"chunked_prefill_size": 100, "max_len": -5}):
        with pytest.raises(ValueError, match="=-5"):
            probe_lengths(**bad)


def test_eight_samples_after_the_first_are_enough():
    lengths = [2000, *range(100, 900, 100)]
    latencies = [MODEL.latency_ms(length) for length in lengths]
    fitted = ChunkSizePredictor().fit(lengths, latencies)
    assert (fitted.a, fitted.b, fitted.c) == pytest.approx((1e-4, 0.1, 7.0))
    with pytest.raises(ValueError, match="7 samples after the first"):
        ChunkSizePredictor().fit(lengths[:-1], latencies[:-1])


def test_a_latency_that_does_not_grow_with_the_square_is_refused():
    lengths = [2000, *range(100, 1000, 100)]
    for latencies in ([5.0 - 1e-6 * n * n for n in lengths], [0.0] * len(lengths)):
        with pytest.raises(ValueError, match="a > 0"):
            ChunkSizePredictor().fit(lengths, latencies)


@pytest.mark.parametrize("value", [1.5, "2048", None])
def test_a_profile_of_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match="positive number of tokens"):
        probe_lengths(value)
