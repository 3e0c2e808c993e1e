"""Replays of queues worked out by hand: admission, micro-batches, padding, the KV pool."""

import math
from dataclasses import replace as changed

import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, replay
from eagerbuf.simulate.scheduler import reserve
from eagerbuf.simulate.scheduler.reserve import NewTokenRatio
from eagerbuf.simulate.scheduler.rows import COLUMNS
from tests.replays import D, M, P, batches, dp_config, padded, requests

# Queues worked out by hand


def test_a_long_prompt_is_chunked_and_the_next_one_fills_its_last_chunk():
    frame = replay(requests((10, 3), (5, 2)), EngineConfig(8, 4))
    # 8 of the 10; then 2 + 5, whose last tokens give an output each; two tokens and one are left
    assert batches(frame) == [(P, 8, 1), (P, 7, 2), (D, 2, 2), (D, 1, 1)]
    assert list(frame.columns) == list(COLUMNS)
    assert frame["step"].tolist() == [0, 1, 2, 3]
    assert padded(frame) == [(0, 8, 8, 1), (0, 7, 7, 2), (0, 2, 2, 2), (0, 1, 1, 1)]


def test_pages_round_the_budget_but_not_the_batch():
    # 5 tokens are charged as 8, all of the chunk, so 3 more have to wait
    frame = replay(requests((5, 1), (3, 1)), EngineConfig(8, 4, page_size=4))
    assert batches(frame) == [(P, 5, 1), (P, 3, 1)]


def test_mixed_batches_take_running_requests_along():
    config = EngineConfig(8, 4, enable_mixed_chunk=True)
    frame = replay(requests((4, 5), (10, 1, 0.001)), config, step_ms=10)
    # the second arrives during the first's prefill and leaves a token of each chunk to it;
    # of its 5 outputs the prefill gave one and the mixed batches two
    assert batches(frame) == [(P, 4, 1), (M, 8, 2), (M, 4, 2), (D, 1, 1), (D, 1, 1)]


def test_without_mixing_the_running_request_waits():
    frame = replay(requests((4, 3), (10, 1, 0.001)), EngineConfig(8, 4), step_ms=10)
    assert batches(frame) == [(P, 4, 1), (P, 8, 1), (P, 2, 1), (D, 1, 1), (D, 1, 1)]


def test_speculation_never_mixes():
    config = EngineConfig(8, 4, enable_mixed_chunk=True, num_tokens_per_bs=2)
    frame = replay(requests((4, 2), (10, 1, 0.001)), config, step_ms=10)
    assert batches(frame) == [(P, 4, 1), (P, 8, 1), (P, 2, 1), (D, 2, 1)]


def test_dynamic_chunks_follow_the_latency_model():
    # f(l) = l^2, so after L tokens x = sqrt(L^2 + 256^2) - L, pulled a quarter back to 256:
    # L = 256: 106.0 -> 143.5; 384: 77.5 -> 122.1; 448: 68.0 -> 115.0; 512: 60.4 -> 109.3;
    # rounded down to multiples of 64. The last 24 tokens are all that is left.
    config = EngineConfig(256, 4, pp_size=2, enable_dynamic_chunking=True)
    model = ChunkSizePredictor(1.0, 0.0, 0.0)
    frame = replay(requests((600, 1)), config, predictor=model)
    assert frame["num_tokens"].tolist() == [256, 128, 64, 64, 64, 24]


@pytest.mark.parametrize("predictor", [None, ChunkSizePredictor()])
def test_without_a_fitted_predictor_chunks_stay_static(predictor):
    config = EngineConfig(256, 4, pp_size=2, enable_dynamic_chunking=True)
    frame = replay(requests((600, 1)), config, predictor=predictor)
    assert frame["num_tokens"].tolist() == [256, 256, 88]


def test_one_stage_never_predicts():
    config = EngineConfig(256, 4, enable_dynamic_chunking=True)
    frame = replay(requests((600, 1)), config, predictor=ChunkSizePredictor(1.0, 0.0, 0.0))
    assert frame["num_tokens"].tolist() == [256, 256, 88]


def test_micro_batches_take_turns_with_half_the_requests_each():
    frame = replay(requests(*[(4, 2)] * 5), EngineConfig(100, 4, pp_size=2))
    # 4 // 2 requests each; the fifth is admitted by the first of them, after its two finished
    assert batches(frame) == [(P, 8, 2), (P, 8, 2), (D, 2, 2), (D, 2, 2), (P, 4, 1), (D, 1, 1)]


def test_a_half_done_request_goes_on_in_the_next_micro_batch():
    config = EngineConfig(8, 2, pp_size=2)
    frame = replay(requests((2, 4), (14, 2, 0.001)), config, step_ms=1)
    # first micro-batch: 2; second: 8 of the 14; first again: the other 6 join its running request
    assert batches(frame) == [(P, 2, 1), (P, 8, 1), (P, 6, 1), (D, 2, 2), (D, 1, 1), (D, 1, 1)]


def test_a_micro_batch_admits_what_it_is_told_to():
    config = EngineConfig(100, 4, pp_size=2)
    frame = replay(requests(*[(4, 2)] * 4), config, pp_max_micro_batch_size=1)
    assert batches(frame) == [(P, 4, 1)] * 2 + [(D, 1, 1)] * 2 + [(P, 4, 1)] * 2 + [(D, 1, 1)] * 2
    one = replay(requests(*[(4, 2)] * 4), config, micro_batches=1, pp_max_micro_batch_size=4)
    assert batches(one) == [(P, 16, 4), (D, 4, 4)]


def test_micro_batches_share_the_request_pool():
    config = EngineConfig(100, 4, pp_size=2)
    frame = replay(requests(*[(4, 3)] * 8), config, pp_max_micro_batch_size=4)
    four = [(P, 16, 4), (D, 4, 4), (D, 4, 4)]
    assert batches(frame) == four + four  # not four in each


def test_the_half_done_request_has_a_place_in_the_request_pool():
    config = EngineConfig(8, 4, pp_size=2)
    queue = requests(*[(4, 3)] * 3, (10, 3), (2, 1))
    frame = replay(queue, config, pp_max_micro_batch_size=4)
    # two and two, of which the last goes on in the first micro-batch; its chunk has room for the
    # fifth, but the pool has not until the third has finished
    first = [(P, 8, 2), (P, 8, 2), (P, 6, 1), (D, 1, 1), (D, 3, 3), (D, 1, 1)]
    assert batches(frame) == [*first, (D, 3, 3), (P, 2, 1)]


def test_the_half_done_request_counts_twice_in_the_request_pool():
    # one runs and one is half done, so there are places for two; the half-done one is one of them
    # and has its row in the pool already, which leaves place for none
    frame = replay(requests((2, 9), (10, 2), (1, 2), (1, 2)), EngineConfig(8, 3))
    assert batches(frame)[:2] == [(P, 8, 2), (P, 4, 1)]
    more = replay(requests((2, 9), (10, 2), (1, 2), (1, 2)), EngineConfig(8, 4))
    assert batches(more)[:2] == [(P, 8, 2), (P, 5, 2)]


def test_a_full_batch_admits_nothing_before_a_decode_has_taken_a_finished_request_out():
    frame = replay(requests((4, 2), (4, 9), (4, 2)), EngineConfig(100, 2))
    # the first is finished by the first decode, taken out by the second, and only then replaced
    assert batches(frame)[:4] == [(P, 8, 2), (D, 2, 2), (D, 1, 1), (P, 4, 1)]


def test_a_chunk_of_one_token_mixes_nothing_in():
    config = EngineConfig(1, 4, enable_mixed_chunk=True)
    frame = replay(requests((1, 3), (2, 1, 0.001)), config, step_ms=10)
    assert batches(frame) == [(P, 1, 1), (D, 1, 1), (D, 1, 1), (P, 1, 1), (P, 1, 1)]


def test_a_half_done_request_counts_for_its_micro_batch():
    frame = replay(requests((10, 1), (3, 1)), EngineConfig(8, 4), pp_max_micro_batch_size=1)
    assert batches(frame) == [(P, 8, 1), (P, 2, 1), (P, 3, 1)]


def test_running_requests_are_bounded():
    frame = replay(requests(*[(4, 3)] * 3), EngineConfig(100, 2))
    assert batches(frame) == [(P, 8, 2), (D, 2, 2), (D, 2, 2), (P, 4, 1), (D, 1, 1), (D, 1, 1)]


def test_whole_prompts_share_a_batch_only_inside_max_prefill_tokens():
    config = EngineConfig(None, 8, max_prefill_tokens=10, max_total_num_tokens=1000)
    # 30 is taken whole; then 4 + 5, since another 5 is not less than the 1 that is left
    frame = replay(requests((30, 1), (4, 1), (5, 1), (5, 1)), config)
    assert batches(frame) == [(P, 30, 1), (P, 9, 2), (P, 5, 1)]


def test_ignore_eos_without_a_radix_cache_looks_too_late():
    config = EngineConfig(
        None, 8, max_prefill_tokens=16384, max_total_num_tokens=100_000, disable_radix_cache=True
    )
    both = requests((16_000, 1), (32_000, 1))
    assert batches(replay(both, config, ignore_eos=True)) == [(P, 48_000, 2)]
    assert batches(replay(both, config)) == [(P, 16_000, 1), (P, 32_000, 1)]


def test_no_path_takes_a_prompt_as_long_as_the_pool():
    config = EngineConfig(None, 8, max_total_num_tokens=40, disable_radix_cache=True)
    frame = replay(requests((40, 1), (39, 1)), config, ignore_eos=True)
    assert batches(frame) == [(P, 39, 1)]
    assert frame.attrs["never_fits"] == 1


# Padding


def test_dp_ranks_take_requests_in_turn_and_pad_together():
    frame = replay(requests((5, 3), (7, 1), (4, 1)), dp_config())
    # extends: each rank to its attention TP of 2; then rank 1 idles, 2 * (2 + 0) >= 2 * 2, so the
    # largest rank decides, and rank 0 is padded from 1 token to 2, a request for each
    assert padded(frame) == [(0, 9, 10, 2), (1, 7, 8, 1), (0, 1, 2, 2), (0, 1, 2, 2)]
    assert frame["step"].tolist() == [0, 0, 1, 2]
    assert frame.attrs["idle"] == 2


def test_a_rank_decodes_unpadded_by_the_other_that_extends():
    late = requests((5, 9), (7, 9), (40, 9, 0.001))
    frame = replay(late, dp_config(), step_ms=1, max_steps=3)
    # rank 0 prefills the late prompt while rank 1 decodes its request: 40 and 1 -> 40 and 2
    assert padded(frame)[2:] == [(0, 40, 40, 1), (1, 1, 2, 2), (0, 2, 2, 2), (1, 1, 2, 2)]
    assert frame["kind"].tolist()[2:4] == [P, D]


def test_decodes_of_uneven_ranks_are_padded_to_the_largest():
    frame = replay(requests((2, 2), (2, 2), (2, 2), (2, 1), (2, 2), (2, 1)), dp_config())
    # 3 and 1 running -> 4 and 2 -> 2 * 6 >= 2 * 4 -> 4 and 4
    assert padded(frame)[2:] == [(0, 3, 4, 4), (1, 1, 4, 4)]


def test_a_speculating_rank_idles_while_another_prefills():
    late = requests((5, 9), (7, 9), (40, 9, 0.001))
    for tokens in (4, 2):
        frame = replay(late, dp_config(num_tokens_per_bs=tokens), step_ms=1, max_steps=3)
        both, one = 2 * tokens, tokens
        assert padded(frame)[2:] == [(0, 40, 40, 1), (0, both, both, 2), (1, one, both, 2)]
        assert frame.attrs["idle"] == 1


def test_verify_batches_are_padded_by_whole_requests():
    # 49 * 4 = 196 -> 200 = 50 * 4, and 125 * 8 = 1000 is aligned already (tp 8, dense TP of 1)
    for count, tokens, want in ((49, 4, (196, 200, 50)), (125, 8, (1000, 1000, 125))):
        config = EngineConfig(None, count, max_total_num_tokens=10**6, tp_size=8)
        config = changed(config, moe_dense_tp_size=1, num_tokens_per_bs=tokens)
        frame = replay(requests(*[(1, 2)] * count), config)
        assert padded(frame)[-1] == (0, *want)
        assert padded(frame)[0] == (0, count, math.ceil(count / 8) * 8, count)


def test_zigzag_pads_to_twice_the_context_ranks():
    config = EngineConfig(100, 4, tp_size=4, attn_cp_size=4, cp_zigzag=True, moe_dense_tp_size=1)
    assert padded(replay(requests((13, 2)), config)) == [(0, 13, 16, 1), (0, 1, 8, 8)]


def test_scattered_inputs_pad_extends_only():
    config = EngineConfig(8100, 4, tp_size=8, attn_tp_input_scattered=True)
    frame = replay(requests((8100 + 13, 2)), config)
    assert padded(frame) == [(0, 8100, 8104, 1), (0, 13, 16, 1), (0, 1, 1, 1)]


def test_plain_replicas_run_apart():
    frame = replay(requests((5, 3), (7, 1), (4, 1)), EngineConfig(100, 8, dp_size=2))
    assert padded(frame) == [(0, 9, 9, 2), (0, 1, 1, 1), (0, 1, 1, 1), (1, 7, 7, 1)]
    assert frame["step"].tolist() == [0, 1, 2, 0]
    assert frame.attrs["finished"] == 3


# The KV pool


@pytest.fixture
def unreserved(monkeypatch):
    """Nothing is kept for the outputs of running requests, so that the pool can run out."""
    monkeypatch.setattr(reserve, "FIRST", 0.0)


def test_room_is_kept_for_the_outputs_to_come():
    # of 7 outputs to come 0.7 are kept free; the second wants 4, its 2 outputs and a page
    queue = requests((10, 8), (4, 2))
    frame = replay(queue, EngineConfig(64, 4, max_total_num_tokens=22))  # 22 - 10 - 4.9 = 7.1
    assert batches(frame) == [(P, 10, 1), (P, 4, 1), (D, 2, 2), *[(D, 1, 1)] * 6]
    frame = replay(queue, EngineConfig(64, 4, max_total_num_tokens=21))
    assert batches(frame) == [(P, 10, 1), *[(D, 1, 1)] * 7, (P, 4, 1), (D, 1, 1)]


def test_the_room_kept_falls_with_every_decode_and_is_less_under_dp_attention():
    alone, ranks = NewTokenRatio(False), NewTokenRatio(True)
    assert (alone.now, round(ranks.now, 9)) == (0.7, 0.21)
    alone.decay(300)
    assert round(alone.now, 9) == round((0.7 + 0.098) / 2, 9)
    alone.decay(301)
    assert round(alone.now, 9) == 0.098
    alone.retracted(2, 30, 99)
    assert alone.now == 0.7  # (30 + 2 * 20) / 100
    alone.retracted(9, 30, 99)
    assert alone.now == 1.0
    alone.reset()
    assert alone.now == 0.7


def test_outputs_that_the_pool_cannot_hold_are_cut():
    frame = replay(requests((10, 50), (3, 1)), EngineConfig(64, 4, max_total_num_tokens=20))
    # 20 - 10 and the page leave 9, of which one stays free
    assert batches(frame) == [(P, 10, 1), (P, 3, 1), *[(D, 1, 1)] * 7]
    assert (frame.attrs["shortened"], frame.attrs["finished"]) == (1, 2)


@pytest.mark.usefixtures("unreserved")
def test_a_full_pool_retracts_the_longest_of_those_with_the_fewest_outputs():
    config = EngineConfig(64, 4, max_total_num_tokens=30)
    frame = replay(requests((10, 9), (8, 9)), config)
    # 18 tokens, two more with each decode; after six of them both have 7 outputs and the first
    # goes: 17 tokens to prefill and 2 to come, when the second has finished
    first = [(P, 10, 1), (P, 8, 1), *[(D, 2, 2)] * 6]
    assert batches(frame) == [*first, (D, 1, 1), (D, 1, 1), (P, 17, 1), (D, 1, 1)]
    assert (frame.attrs["retracted"], frame.attrs["finished"]) == (1, 2)


@pytest.mark.usefixtures("unreserved")
def test_speculation_retracts_the_request_that_joined_last():
    config = EngineConfig(64, 4, max_total_num_tokens=30, num_tokens_per_bs=2)
    frame = replay(requests((10, 9), (8, 9)), config)
    assert [tokens for kind, tokens, _ in batches(frame) if kind == P] == [10, 8, 15]


@pytest.mark.usefixtures("unreserved")
def test_pages_of_the_pool_are_whole():
    # 32 of the 35 tokens are pages; three requests of 4 tokens would end with 12 each
    config = EngineConfig(64, 4, max_total_num_tokens=35, page_size=4)
    frame = replay(requests((4, 9), (4, 9, 0.001), (4, 9, 0.011)), config, step_ms=10)
    # a third page for all three is one too many: the last goes, with 5 outputs and 4 to come
    both = [(P, 4, 1)] * 3 + [(D, 3, 3)] * 4 + [(D, 2, 2)] * 4
    assert batches(frame) == [*both, (P, 9, 1), (D, 1, 1), (D, 1, 1), (D, 1, 1)]
    assert (frame.attrs["retracted"], frame.attrs["finished"]) == (1, 3)


@pytest.mark.usefixtures("unreserved")
def test_a_half_done_request_takes_the_last_token_of_the_pool():
    # 16 tokens; 3 go a step, so after four of them 2 are left, one of which the running one takes.
    # Then it would need another, and alone as it is it is given up
    config = EngineConfig(3, 4, max_total_num_tokens=16, enable_mixed_chunk=True)
    frame = replay(requests((2, 8), (10, 1, 0.001)), config, step_ms=10)
    assert batches(frame) == [(P, 2, 1), *[(M, 3, 2)] * 4, (M, 2, 2), (P, 1, 1)]
    assert (frame.attrs["aborted"], frame.attrs["finished"]) == (1, 1)


@pytest.mark.usefixtures("unreserved")
def test_a_half_done_request_fills_its_page_to_the_end_and_no_further():
    # 4 pages. The running request takes its second at its 17th token, which leaves two to the
    # other: 32 of its 48 tokens, the last of those steps 2 instead of 3. When the running one has
    # finished it is counted once more, so the next chunk is a token short
    config = EngineConfig(
        *(4, 4),
        max_total_num_tokens=64,
        page_size=16,
        enable_mixed_chunk=True,
        disable_radix_cache=True,
    )
    queue = requests((10, 14), (48, 1, 0.001))
    frame = replay(queue, config, ignore_eos=True, step_ms=10)
    first = [(P, 4, 1), (P, 4, 1), (P, 2, 1), *[(M, 4, 2)] * 10, (M, 3, 2)]
    assert batches(frame) == [*first, (D, 1, 1), (D, 1, 1), (P, 3, 1), *[(P, 4, 1)] * 3, (P, 1, 1)]


def test_an_idle_rank_counts_nothing_where_the_padding_is_chosen():
    # 8, 3 and 0 tokens: 2 * 11 < 8 * 3, so no rank is padded to the largest
    config = EngineConfig(100, 24, tp_size=3, dp_size=3, enable_dp_attention=True)
    turn = [(2, 2), (2, 2), (2, 1)], [(2, 2), (2, 1), (2, 1)]
    frame = replay(requests(*(turn[0] * 3 + turn[1] * 5)), config)
    assert padded(frame)[3:] == [(0, 8, 8, 8), (1, 3, 3, 3)]


def test_a_broken_page_of_the_pool_is_of_no_use():
    config = EngineConfig(64, 4, max_total_num_tokens=35, page_size=4)
    frame = replay(requests((28, 1), (27, 1)), config)  # 28 + 4 is under 35, but not under 32
    assert batches(frame) == [(P, 27, 1)]
    assert frame.attrs["never_fits"] == 1


def test_riding_requests_come_before_a_new_one_in_the_pool():
    config = EngineConfig(64, 8, max_total_num_tokens=20, enable_mixed_chunk=True)
    # 12 tokens are free, but the two that run take 2 of them now and, by the ratio, 2.8 later:
    # the third, 4 tokens with 3 outputs and a page, has to wait
    frame = replay(requests(*[(4, 3)] * 3, (6, 1, 0.001)), config)
    assert batches(frame) == [(P, 8, 2), (D, 2, 2), (D, 2, 2), (P, 10, 2), (D, 1, 1), (D, 1, 1)]


def test_accepted_tokens_shorten_the_decode():
    config = EngineConfig(64, 4, num_tokens_per_bs=4)
    for accepted, steps in ((1, 9), (2, 5), (3, 3), (4, 3)):  # 9 outputs after the prefill's
        frame = replay(requests((5, 10)), config, accepted_per_step=accepted)
        assert batches(frame) == [(P, 5, 1), *[(D, 4, 1)] * steps]
