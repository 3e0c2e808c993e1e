"""Probe lengths, the latency fit and the next chunk."""

import pytest

from eagerbuf import ChunkSizePredictor, probe_lengths

LENGTHS = list(range(1280, 0, -10))
EXACT = [2e-5 * n * n + 0.01 * n + 3 for n in LENGTHS]


def test_the_longest_probe_is_a_quarter_over_the_chunk():
    lengths = probe_lengths(12288)
    assert (len(lengths), lengths[0], lengths[1]) == (128, 15360, 15240)  # step 15360 // 128
    assert sum(n > 12288 for n in lengths) == 26
    assert probe_lengths(512)[:2] == [640, 635]
    assert probe_lengths(3072)[:2] == [3840, 3810]  # steps of 30 (sgl-project/sglang#23621)


def test_a_chunk_up_to_102_makes_equal_probes():
    assert set(probe_lengths(102)) == {127}
    assert len(probe_lengths(102)) == 128
    assert probe_lengths(103)[:2] == [128, 127]


def test_the_later_form_is_clipped_and_never_stands_still():
    assert probe_lengths(4096, max_len=4096)[:2] == [4096, 4064]
    assert probe_lengths(100, max_len=1000) == list(range(125, 0, -1))
    assert probe_lengths(4096, max_len=10) == list(range(10, 0, -1))


@pytest.mark.parametrize(
    ("arguments", "words"), [((0,), "chunked_prefill_size=0"), ((8, 0), "max_len=0")]
)
def test_probes_need_tokens(arguments, words):
    with pytest.raises(ValueError, match=words):
        probe_lengths(*arguments)


def test_the_fit_finds_the_curve_and_skips_the_first_sample():
    wrong_first = [1e9, *EXACT[1:]]
    fitted = ChunkSizePredictor().fit(LENGTHS, wrong_first)
    assert fitted.a == pytest.approx(2e-5, rel=1e-6)
    assert fitted.b == pytest.approx(0.01, rel=1e-6)
    assert fitted.c == pytest.approx(3, rel=1e-6)
    assert fitted.latency_ms(1000) == pytest.approx(33)


def test_the_fit_refuses_what_upstream_refuses():
    with pytest.raises(ValueError, match="7 samples"):
        ChunkSizePredictor().fit(LENGTHS[:8], EXACT[:8])
    with pytest.raises(ValueError, match="a="):
        ChunkSizePredictor().fit(LENGTHS, [-(n**2) for n in LENGTHS])
    with pytest.raises(ValueError, match="fit failed"):
        ChunkSizePredictor().fit(LENGTHS, EXACT[:-1])
    with pytest.raises(ValueError, match=r"fit failed|a=nan"):
        ChunkSizePredictor().fit(LENGTHS, [float("nan")] * len(LENGTHS))


def test_a_negative_slope_becomes_zero():
    fitted = ChunkSizePredictor().fit(LENGTHS, [n * n - n for n in LENGTHS])
    assert fitted.b == 0


def test_the_next_chunk_worked_by_hand():
    """a = 1, b = 0, target 1000^2: after 1000 tokens x = sqrt(2) * 1000 - 1000 = 414.2."""
    model = ChunkSizePredictor(a=1.0, b=0.0, c=0.0)
    limits = {"page_size": 1, "context_len": 10**6}
    assert model.predict(1000, 1000, **limits, smooth_factor=1.0) == 384  # 6 x 64
    # smoothed 1000 - 0.75 * 585.8 = 560.7 -> 8 x 64
    assert model.predict(1000, 1000, **limits) == 512
    assert model.predict(10**5, 1000, **limits, smooth_factor=1.0) == 192  # 1000 // 4 = 250
    assert model.predict(0, 1000, **limits) == 960


def test_limits_on_the_next_chunk():
    model = ChunkSizePredictor(a=1.0, b=0.0, c=0.0)
    assert model.predict(0, 1024, page_size=256, context_len=10**6) == 1024
    assert model.predict(0, 1024, page_size=256, context_len=900) == 768  # 800 in pages
    capped = {"page_size": 1, "context_len": 10**6, "max_chunk_size": 200}
    assert model.predict(0, 1024, **capped) == 192
    assert model.predict(0, 1024, page_size=1, context_len=163) is None
    assert model.predict(0, 32, page_size=1, context_len=10**6) == 64


def test_before_the_fit_and_without_a_target():
    assert ChunkSizePredictor().predict(0, 64, page_size=1, context_len=10**6) is None
    with pytest.raises(ValueError, match="call fit first"):
        ChunkSizePredictor().latency_ms(1)
    with pytest.raises(ValueError, match="base_chunk_size=0"):
        ChunkSizePredictor(a=1.0, b=0.0, c=0.0).predict(0, 0, page_size=1, context_len=10**6)
