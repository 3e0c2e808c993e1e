"""Edge cases of upstream: each is listed here with what upstream does and what we decided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, admit, buffer_size, mlp_sync_pad
from eagerbuf import probe_lengths as our_probes
from eagerbuf.repro.autotune.buckets import next_power_of_2
from tests.upstream import admission, draw, engine, padding, wheels
from tests.upstream.admission import Admission, Queue
from tests.upstream.compare import answered
from tests.upstream.dynamic import Dynamic
from tests.upstream.engine import Engine
from tests.upstream.load import Room

MODELLED = wheels.sglang("0.5.14")
NEWEST = wheels.sglang("0.5.23")


def test_up_to_chunk_102_the_probe_step_is_zero_until_0_5_23() -> None:
    """Upstream then sends 128 equal probes, on which no quadratic can be fitted: the same here."""
    old, new = Dynamic(MODELLED), Dynamic(NEWEST)
    for chunk in range(1, 103):
        longest = 5 * chunk // 4
        assert old.probe_lengths(chunk) == our_probes(chunk) == [longest] * 128 * (longest > 0)
        assert len(set(new.probe_lengths(chunk))) == longest
    assert len(set(old.probe_lengths(103))) == len(set(our_probes(103))) == 128


def test_equal_probes_leave_the_fit_without_a_solution_it_can_trust() -> None:
    """The fit is of rank 1: both give the same least-norm coefficients or both refuse."""
    lengths, latencies = our_probes(64), [1.0 + 0.01 * (i % 7) for i in range(128)]
    theirs = Dynamic(MODELLED).predictor()
    theirs.fit(lengths, latencies)
    ours = ChunkSizePredictor().fit(lengths, latencies)
    assert (ours.a, ours.b, ours.c) == (
        theirs.quadratic_coeff_a,
        theirs.linear_coeff_b,
        theirs.constant_coeff_c,
    )


@pytest.mark.parametrize(
    ("a", "b", "history_len", "chunk", "expected"),
    [
        (-1.0, 400.0, 0, 200, None),  # 200 more cost the same, but the latency falls afterwards
        (0.0, 1.0, 0, 200, None),  # linear: 200 more cost the same
        (1.0, 0.0, 0, 200, 192),
        (1.0, -100.0, 0, 200, 192),  # no such fit: a negative b becomes 0
        (1.0, 0.0, 10**9, 1, None),  # the solution is 0 in a float
    ],
)
def test_the_edges_of_a_prediction(
    a: float, b: float, history_len: int, chunk: int, expected: int | None
) -> None:
    """The same here."""
    for wheel in (MODELLED, NEWEST):
        theirs = Dynamic(wheel)
        theirs.smooth_factor = 1.0
        model = theirs.predictor()
        model.quadratic_coeff_a, model.linear_coeff_b, model.constant_coeff_c = a, b, 0.0
        model.set_target_latency(chunk)
        model.is_ready = True
        assert model.predict_next_chunk_size(history_len, chunk, 1, 10**12) == expected
    ours = ChunkSizePredictor(a, b, 0.0)
    found = ours.predict(history_len, chunk, page_size=1, context_len=10**12, smooth_factor=1.0)
    assert found == expected


@pytest.mark.parametrize("mixed_decode", [32, 33, 64])
def test_mixed_decode_at_or_over_the_chunk_is_negative_upstream_and_empty_here(
    mixed_decode: int,
) -> None:
    """Decided: no batch. Upstream takes a negative number of tokens of the carried request."""
    queue = Queue([100], 1, 16384, 32, 10**6, 256, carried=100, mixed_decode=mixed_decode)
    taken = Admission(MODELLED).admit(queue)
    assert taken[0] == 32 - mixed_decode <= 0
    config = EngineConfig(chunked_prefill_size=32, max_running_requests=256)
    assert admit([100], config, carried=100, mixed_decode=mixed_decode) == []


def test_a_carried_request_is_taken_even_where_the_pool_has_no_room() -> None:
    """Upstream must go on with it or leak its memory; the negative remainder is not used."""
    queue = Queue([50], 16, 16384, 512, 8, 256, carried=2000)
    config = EngineConfig(512, 256, page_size=16, max_total_num_tokens=8)
    expected = Admission(MODELLED).admit(queue)
    assert admit([50], config, carried=2000) == expected == [8]
    no_room = queue._replace(mixed_decode=8)
    config_mixed = EngineConfig(512, 256, page_size=16, max_total_num_tokens=8)
    assert admit([50], config_mixed, carried=2000, mixed_decode=8) == [504]
    assert Admission(MODELLED).admit(no_room) == [504]


def test_max_prefill_tokens_is_no_limit_for_ignore_eos_without_a_radix_cache() -> None:
    """16,000 + 32,000 tokens in one batch at 16,384: the path adds first and looks afterwards."""
    queue = Queue([16000, 32000, 1], 1, 16384, None, 10**6, 256, ignore_eos=True)
    config = EngineConfig(None, 256, disable_radix_cache=True)
    late = queue._replace(disable_radix_cache=True)
    for wheel in (MODELLED, NEWEST):
        assert Admission(wheel).admit(late) == [16000, 32000]
        assert Admission(wheel).admit(queue) == [16000]
    assert admit(queue.prompts, config, ignore_eos=True) == [16000, 32000]


@pytest.mark.parametrize("max_new_tokens", [1, 64, 4000])
def test_room_kept_for_outputs_only_ends_a_batch_sooner(max_new_tokens: int) -> None:
    """`admit` knows no outputs: what upstream takes with them is the beginning of what it takes."""
    queues, taken = admission.ADMISSION.cases(MODELLED, 0, 2_000)
    released, shorter = Admission(MODELLED), 0
    for queue, most in zip(queues, taken, strict=True):
        found = released.admit(queue._replace(max_new_tokens=max_new_tokens))
        assert found == most[: len(found)], queue
        shorter += len(found) < len(most)
    assert shorter > 0


def test_near_a_full_pool_later_releases_spare_a_page_of_an_ignore_eos_request() -> None:
    """Drift from 0.5.21 on: ten tokens no longer fit a pool of ten. We keep the 0.5.14 form."""
    assert Admission(MODELLED).admit(admission.DISTINCT) == [10]
    assert Admission(NEWEST).admit(admission.DISTINCT) == []
    assert admission.ours(admission.DISTINCT) == [10]


@pytest.mark.parametrize("version", wheels.NEEDED)
def test_zigzag_over_one_rank_doubles_until_0_5_20(version: str) -> None:
    """Drift: a flag without a second rank aligned to 2, later to 1. We keep the 0.5.14 form."""
    answer = engine_with(version, attn_cp_size=1, cp_zigzag=True).cp_align_size()
    ours = EngineConfig(512, 8, attn_cp_size=1, cp_zigzag=True).cp_align_size
    assert (answer, ours) == (2 if version in ("0.5.14", "0.5.15.post1", "0.5.19") else 1, 2)


def engine_with(version: str, **changes: Any) -> Engine:
    row = draw.configs(1).to_dict("records")[0] | {"tp_size": 8, "dp_size": 1, **changes}
    started = Engine(wheels.sglang(version))
    started.apply(row | {"enable_dp_attention": False})
    return started


def test_dp_attention_over_one_rank_is_switched_off_before_anything_is_sized() -> None:
    """SGLang resolves the flag away, so a configuration with one rank should not have it on."""
    args = SimpleNamespace(dp_size=1, enable_dp_attention=True, enable_dp_lm_head=True)
    room = Room(MODELLED, {"logger": engine.SILENT})
    room.piece("ServerArgs._handle_data_parallelism", engine.ARGS)(args)
    assert args.enable_dp_attention is False


def test_padding_from_0_5_20_has_no_cp_step_while_the_sizing_keeps_it() -> None:
    """Drift: a batch of 5 is padded to 8 in 0.5.14 and stays 5 in 0.5.20 (CP 4)."""
    settings = {"cp_align_size": 4, "attn_cp_size": 4}
    tokens = {
        version: padding.Padding(wheels.sglang(version), **settings)
        .pad([5], is_extend=True)
        .num_tokens
        for version in ("0.5.14", "0.5.19", "0.5.20", "0.5.23")
    }
    assert tokens == {"0.5.14": [8], "0.5.19": [8], "0.5.20": [5], "0.5.23": [5]}
    assert mlp_sync_pad([5], attn_tp_size=1, cp_align_size=4, is_extend=True) == ("max_len", [8])


@pytest.mark.parametrize(
    ("requests", "per_request", "own_bs"), [(125, 8, 125), (49, 4, 50), (7, 1, 8), (8, 1, 8)]
)
def test_a_padded_decode_has_a_row_for_each_whole_request_in_its_tokens(
    requests: int, per_request: int, own_bs: int
) -> None:
    """49 requests of 4 draft tokens: 196 are padded to 200, which are 50 requests (TP 8)."""
    release = padding.Padding(MODELLED, attn_tp_size=8)
    tokens = requests * per_request
    padded = release.pad([tokens], is_extend=False, per_request=per_request)
    config = EngineConfig(
        512,
        requests,
        tp_size=8,
        moe_dense_tp_size=1,
        num_tokens_per_bs=per_request,
        max_total_num_tokens=10**6,
    )
    assert padded.own_bs == own_bs == buffer_size(config, "tight").max_bs


def test_tuning_range_is_the_next_power_of_two() -> None:
    released = Room(MODELLED, {}).piece("next_power_of_2", engine.COMMON)
    assert [next_power_of_2(n) for n in range(-2, 5000)] == [released(n) for n in range(-2, 5000)]


def test_the_default_smooth_factor_is_the_released_one() -> None:
    environment = Room(MODELLED, {}).piece("Envs", f"{engine.SRT}/environ.py")
    released = environment.SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR.get()
    keywords = ChunkSizePredictor.predict.__kwdefaults__
    assert keywords is not None
    assert keywords["smooth_factor"] == released == 0.75


@pytest.mark.parametrize("latencies", [[1.0] * 12, [0.0] * 12, [1e308, -1e308] * 6])
def test_latencies_that_no_model_explains_raise_or_fit_alike(latencies: list[float]) -> None:
    assert answered(_our_fit, latencies) == answered(_released_fit, latencies)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_latency_that_is_no_number_fails_the_fit_here_and_the_first_chunk_upstream(
    broken: float,
) -> None:
    """Decided: refuse at once. Upstream fits NaN, is "ready", and raises once it predicts."""
    a, b, c = _released_fit([broken] * 12)
    assert all(value != value for value in (a, b, c))
    model = Dynamic(MODELLED).predictor()
    model.fit(LENGTHS, [broken] * 12)
    model.set_target_latency(512)
    model.is_ready = True
    with pytest.raises(ValueError, match="NaN"):
        model.predict_next_chunk_size(100, 512, 1, 4096)
    with pytest.raises(ValueError, match="a=nan"):
        ChunkSizePredictor().fit(LENGTHS, [broken] * 12)


LENGTHS = list(range(100, 1300, 100))


def _released_fit(latencies: list[float]) -> tuple[float, float, float]:
    model = Dynamic(MODELLED).predictor()
    model.fit(LENGTHS, latencies)
    return model.quadratic_coeff_a, model.linear_coeff_b, model.constant_coeff_c


def _our_fit(latencies: list[float]) -> tuple[float | None, float | None, float | None]:
    model = ChunkSizePredictor().fit(LENGTHS, latencies)
    return model.a, model.b, model.c
