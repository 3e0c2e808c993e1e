"""Replays of queues worked out by hand: admission, micro-batches, padding, the KV pool."""

import math
from dataclasses import replace as changed

import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, replay
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
    assert batches(frame) == [*first, (P, 2, 1), (D, 3, 3)]


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


def test_a_full_pool_retracts_the_request_that_joined_last():
    config = EngineConfig(64, 4, max_total_num_tokens=20)
    frame = replay(requests((10, 9), (8, 5)), config)
    # 10 + its page leave 9, too few for 8 and a page; then 10 are free. One decode fills the pool
    # (11 + 9), so the second is retracted with 2 outputs (prompt 10, 3 to come), and comes back
    # when the first has finished, 7 decodes later
    first = [(P, 10, 1), (P, 8, 1), (D, 2, 2)]
    assert batches(frame) == [*first, *[(D, 1, 1)] * 7, (P, 10, 1), (D, 1, 1), (D, 1, 1)]
    assert (frame.attrs["retracted"], frame.attrs["finished"]) == (1, 2)


def test_a_request_that_outgrows_the_pool_is_given_up():
    frame = replay(requests((10, 50), (3, 1)), EngineConfig(64, 4, max_total_num_tokens=20))
    assert batches(frame) == [(P, 13, 2), *[(D, 1, 1)] * 10]
    counts = {name: frame.attrs[name] for name in ("aborted", "retracted", "finished")}
    assert counts == {"aborted": 1, "retracted": 0, "finished": 1}


def test_pages_of_the_pool_are_whole():
    # 35 tokens are 8 pages: 3 + 3 after the prefill of 12 + 11, a fourth each with their 13th
    # token; so the 17th of the first has no room until the second leaves with 15 tokens, 5 of its
    # outputs made: a prompt of 16 and 4 to come
    config = EngineConfig(64, 4, max_total_num_tokens=35, page_size=4)
    frame = replay(requests((12, 9), (11, 9)), config)
    alone = [(D, 1, 1)] * 4
    assert batches(frame) == [(P, 23, 2), *[(D, 2, 2)] * 4, *alone, (P, 16, 1), *alone[:3]]
    assert frame.attrs["retracted"] == 1


def test_a_half_done_request_may_fill_its_own_page():
    # one page is the whole pool, and the first chunk holds it
    config = EngineConfig(3, 4, max_total_num_tokens=16, page_size=16, disable_radix_cache=True)
    frame = replay(requests((7, 2)), config, ignore_eos=True)
    assert batches(frame) == [(P, 3, 1), (P, 3, 1), (P, 1, 1), (D, 1, 1)]


def test_a_half_done_request_at_the_end_of_a_page_has_none_to_fill():
    # 15 pages. The running request takes a fourth one just before the other needs its twelfth, so
    # the last 3 of the 47 wait: for one decode, and until the first, which would need a fifth
    # page, is retracted with 13 outputs: 17 tokens to prefill and 7 to come
    config = EngineConfig(5, 4, max_total_num_tokens=60, page_size=4, enable_mixed_chunk=True)
    frame = replay(requests((4, 20), (47, 1, 0.001)), config, step_ms=10)
    both = [(P, 4, 1), *[(M, 5, 2)] * 11, (D, 1, 1), (P, 3, 1)]
    again = [(P, 4, 1), (P, 5, 1), (P, 5, 1), (P, 3, 1), *[(D, 1, 1)] * 6]
    assert batches(frame) == both + again
    assert (frame.attrs["retracted"], frame.attrs["finished"]) == (1, 2)


def test_a_half_done_request_takes_the_last_token_of_the_pool():
    # 16 tokens; 3 go a step, so after four of them 2 are left, one of which the running one takes.
    # Then it would need another and is retracted: 8 tokens, 2 to come
    config = EngineConfig(3, 4, max_total_num_tokens=16, enable_mixed_chunk=True)
    frame = replay(requests((2, 8), (10, 1, 0.001)), config, step_ms=10)
    both = [(P, 2, 1), *[(M, 3, 2)] * 4, (M, 2, 2), (P, 1, 1)]
    assert batches(frame) == [*both, (P, 3, 1), (P, 3, 1), (P, 2, 1), (D, 1, 1)]


def test_a_half_done_request_fills_its_page_to_the_end_and_no_further():
    # 4 pages. The running request takes its second at its 17th token, which leaves two to the
    # other: 32 of its 48 tokens, the last of those steps 2 instead of 3
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
    assert batches(frame) == [*first, (D, 1, 1), (D, 1, 1), *[(P, 4, 1)] * 4]


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
    # 8 tokens are free, but 3 of them are for the running requests: 6 and a page do not fit
    frame = replay(requests(*[(4, 3)] * 3, (6, 1, 0.001)), config)
    assert batches(frame) == [(P, 12, 3), (D, 3, 3), (D, 3, 3), (P, 6, 1)]


def test_accepted_tokens_shorten_the_decode():
    config = EngineConfig(64, 4, num_tokens_per_bs=4)
    for accepted, steps in ((1, 9), (2, 5), (3, 3), (4, 3)):  # 9 outputs after the prefill's
        frame = replay(requests((5, 10)), config, accepted_per_step=accepted)
        assert batches(frame) == [(P, 5, 1), *[(D, 4, 1)] * steps]
