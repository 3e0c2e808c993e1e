"""What must hold for any queue under any configuration (about 15 s)."""

import math
from dataclasses import replace as changed

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import ChunkSizePredictor, EngineConfig, admit, buffer_size, replay
from eagerbuf.simulate.scheduler.engine import Engine
from eagerbuf.simulate.scheduler.incoming import incoming
from eagerbuf.simulate.scheduler.policy import Policy, latency
from eagerbuf.simulate.scheduler.rows import Rows
from tests.replays import D, M, P, batches, requests

POOLS = st.none() | st.integers(1, 600)


@st.composite
def configs(draw, pool=POOLS):
    """Small configurations with every feature; the pool is known where sizing needs it."""
    attn_tp, attn_cp, dp = (draw(st.sampled_from([1, 2, 3])) for _ in range(3))
    dp_attention = draw(st.booleans())
    chunk = draw(st.none() | st.integers(1, 90))
    whole = draw(st.sampled_from([False, False, True]))
    tokens = draw(pool)
    if tokens is None and (chunk is None or whole):
        tokens = draw(st.integers(1, 600))
    return EngineConfig(
        chunk,
        draw(st.integers(1, 9)),
        max_prefill_tokens=draw(st.integers(0, 150)),
        max_total_num_tokens=tokens,
        context_len=draw(st.none() | st.integers(2, 250)),
        page_size=draw(st.sampled_from([1, 1, 3, 16])),
        tp_size=attn_tp * attn_cp * (dp if dp_attention else 1),
        pp_size=draw(st.integers(1, 3)),
        dp_size=dp,
        attn_cp_size=attn_cp,
        cp_zigzag=draw(st.booleans()),
        enable_dp_attention=dp_attention,
        enable_dynamic_chunking=draw(st.booleans()),
        enable_mixed_chunk=draw(st.booleans()),
        disable_radix_cache=draw(st.booleans()),
        attn_tp_input_scattered=draw(st.booleans()) and not dp_attention,
        admits_whole_prompts=whole,
        moe_dense_tp_size=draw(st.sampled_from([None, 1])),
        num_tokens_per_bs=draw(st.sampled_from([1, 1, 3, 4])),
    )


@st.composite
def crowded(draw):
    """Deployments where requests wait for each other: for pages, for turns, for a slot."""
    return EngineConfig(
        draw(st.integers(4, 40)),
        draw(st.integers(2, 6)),
        max_total_num_tokens=draw(st.integers(30, 160)),
        page_size=draw(st.sampled_from([1, 3, 16])),
        pp_size=draw(st.integers(1, 3)),
        enable_mixed_chunk=draw(st.booleans()),
        num_tokens_per_bs=draw(st.sampled_from([1, 1, 4])),
    )


QUEUES = st.lists(
    st.tuples(
        st.integers(1, 120) | st.integers(1, 8),
        st.integers(0, 40),
        st.sampled_from([0.0, 0.0, 0.01, 0.0375, 0.5]),
    ),
    max_size=14,
)
PREDICTORS = st.none() | st.builds(
    ChunkSizePredictor, st.floats(1e-6, 1.0), st.floats(0, 1), st.floats(0, 5)
)


@st.composite
def keywords(draw, config):
    return {
        "predictor": draw(PREDICTORS),
        "smooth_factor": draw(st.sampled_from([0.0, 0.75, 1.0])),
        "ignore_eos": draw(st.booleans()),
        "accepted_per_step": draw(st.integers(1, config.num_tokens_per_bs)),
        "step_ms": draw(st.sampled_from([None, 0, 1, 12.5])),
    }


@settings(max_examples=150, deadline=None)
@given(st.data(), configs(), QUEUES)
def test_no_batch_is_over_the_tight_ceiling(data, config, queue):
    frame = replay(requests(*queue), config, **data.draw(keywords(config)))
    size = buffer_size(config, "tight")
    assert (frame["padded_num_tokens"] <= size.max_num_tokens).all()
    assert (frame["padded_bs"] <= size.max_bs).all()
    assert (frame["bs"] <= config.max_running_requests).all()
    assert (frame["num_tokens"] <= frame["padded_num_tokens"]).all()
    if config.require_mlp_sync and not config.attn_tp_input_scattered:
        assert (frame["padded_num_tokens"] % config.cp_align_size == 0).all()


@settings(max_examples=150, deadline=None)
@given(st.data(), configs(), QUEUES)
def test_every_prompt_token_is_prefilled_once_and_every_output_made(data, config, queue):
    chosen = data.draw(keywords(config))
    frame = replay(requests(*queue), config, **chosen)
    counts = frame.attrs
    assert counts["requests"] == len(queue)
    assert counts["dropped"] == counts["too_long"] + counts["never_fits"]
    assert counts["finished"] + counts["aborted"] + counts["dropped"] == len(queue)
    assert counts["unfinished"] == 0
    if any(counts[name] for name in ("retracted", "aborted", "dropped", "shortened")):
        return
    prompts = sum(prompt for prompt, _, _ in queue)
    steps = sum(
        math.ceil((max(output, 1) - 1) / chosen["accepted_per_step"]) for _, output, _ in queue
    )
    decode = frame[frame["kind"] == D]
    assert (decode["num_tokens"] == decode["bs"] * config.num_tokens_per_bs).all()
    extended = frame.loc[frame["kind"] != D, "num_tokens"].sum()
    riding = steps - decode["bs"].sum()  # decode steps inside mixed batches, a token each
    assert extended == prompts + riding
    assert (riding == 0) == (M not in set(frame["kind"]))


LONG_QUEUES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 110), st.sampled_from([0.0, 0.02, 0.11, 0.4])),
    min_size=2,
    max_size=9,
)
CROWDS = st.tuples(crowded(), LONG_QUEUES)


@settings(max_examples=150, deadline=None)
@given(st.data(), CROWDS | st.tuples(configs(), QUEUES))
def test_looking_ahead_changes_nothing(data, crowd):
    config, queue = crowd
    chosen = data.draw(keywords(config))
    bound = {"max_steps": data.draw(st.none() | st.integers(0, 60))}
    fast = replay(requests(*queue), config, **chosen, **bound)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_skip", lambda *_: None)
        slow = replay(requests(*queue), config, **chosen, **bound)
    pd.testing.assert_frame_equal(fast, slow)
    assert fast.attrs == slow.attrs


@settings(max_examples=150, deadline=None)
@given(st.data(), CROWDS | st.tuples(configs(pool=st.integers(20, 300)), QUEUES))
def test_the_pool_is_never_exceeded(data, crowd):
    config, queue = crowd
    chosen = data.draw(keywords(config))
    policy = Policy(
        config,
        chosen["predictor"],
        chosen["smooth_factor"],
        chosen["ignore_eos"],
        config.pp_size,
        max(config.max_running_requests // config.pp_size, 1),
        chosen["accepted_per_step"],
        latency(chosen["step_ms"], chosen["predictor"]),
    )
    engine = Engine(policy, incoming(requests(*queue), policy).share(0, 1), Rows(), 0)
    stride = data.draw(st.sampled_from([1, 5, 40]))  # longer ones look ahead
    while engine.done < engine.total:
        engine.run(engine.steps + stride, lambda _: None)
        for rank in engine.ranks:
            assert 0 <= rank.free <= config.max_total_num_tokens
            assert rank._spare <= rank.free
            assert rank.requests <= config.max_running_requests
    assert all(rank.free == policy.pool for rank in engine.ranks)


def naive(queue, config):
    """One rank, one stage, an endless pool: every request a row of a list, every token counted.

    As in SGLang a finished request counts as running until the next decode, and a full batch is
    not offered anything until it has lost one.
    """
    waiting, running, half, seen = list(queue), [], None, []
    gone, full = 0, False
    while waiting or running or half:
        listed = len(running) + gone
        places = config.max_running_requests - max(listed, len(running) + (half is not None))
        riding = listed if config.enable_mixed_chunk and config.scheduler_chunk else 0
        taken = []
        if not half and waiting and not full and places < 1:
            full = True
        if half or (waiting and not full):
            prompts = [prompt for prompt, _ in waiting] if places > 0 and not full else []
            most = changed(config, max_running_requests=max(places, 1) + riding)
            taken = admit(prompts, most, carried=half[0] if half else 0, mixed_decode=riding)
        if not taken:
            full = full and not gone and bool(running)
            gone = 0
            if running:
                seen.append((D, len(running), len(running)))
            gone = sum(left == 1 for left in running)
            running = [left - 1 for left in running if left > 1]
            continue
        used = riding + sum(-(-size // config.page_size) * config.page_size for size in taken)
        chunk = config.scheduler_chunk or math.inf
        goes_on = taken_half_only(half, taken) or used < min(chunk, config.max_prefill_tokens)
        if len(taken) - (half is not None) < len(waiting) and len(taken) >= places and goes_on:
            full = True
        was_running, decoding = listed > 0, len(running) if riding else 0
        seen.append((M if decoding else P, sum(taken) + decoding, len(taken) + decoding))
        if riding:
            gone, running = 0, [left - 1 for left in running if left > 1]
        sources = ([half] if half else []) + [list(pair) for pair in waiting]
        waiting = waiting[len(taken) - (half is not None) :]
        half, ended = None, False
        for size, (prompt, output) in zip(taken, sources, strict=False):
            if size < prompt:
                half = [prompt - size, output]
            elif output > 1:
                running.append(output - 1)
            else:
                ended = True
        if ended or half or riding or not was_running:
            full = False
    return seen


def taken_half_only(half, taken):
    return half is not None and len(taken) == 1


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 40) | st.just(-1),
    st.integers(1, 5),
    st.integers(0, 60),
    st.booleans(),
    st.sampled_from([1, 4]),
    st.lists(st.tuples(st.integers(1, 70), st.integers(1, 12)), max_size=10),
)
def test_a_naive_scheduler_makes_the_same_batches(chunk, most, prefill, mixed, page, queue):
    page = page if chunk % page == 0 else 1
    config = EngineConfig(chunk, most, max_prefill_tokens=prefill, page_size=page)
    config = changed(config, enable_mixed_chunk=mixed)
    assert batches(replay(requests(*queue), config)) == naive(queue, config)
