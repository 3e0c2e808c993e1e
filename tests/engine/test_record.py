"""Batches recorded from a live engine, and replay held against them."""

import pandas as pd
import pytest

from eagerbuf import EngineConfig, record_batches, replay, sample_requests
from eagerbuf.engine.record import NotServed, batches_of, serve_and_record
from eagerbuf.engine.run import Lists

pytestmark = pytest.mark.xdist_group("engine")
FLAGS = ("--chunked-prefill-size", "2048", "--max-running-requests", "16")
FLAGS += ("--max-total-tokens", "16384", "--context-length", "8192", "--disable-overlap-schedule")


def test_replay_makes_the_batches_of_a_live_engine_one_by_one(needs):
    needs("0.5.14")
    requests = sample_requests("azure-2023-conversation", 60).drop(columns="arrival_s")
    requests["output_tokens"] = requests.output_tokens.clip(1, 40)
    requests = requests[requests.prompt_tokens < 8000]
    recorded = record_batches(requests, flags=FLAGS)
    config = EngineConfig(2048, 16, max_total_num_tokens=16384, context_len=8192)
    pd.testing.assert_frame_equal(recorded, replay(requests, config), check_dtype=False)
    assert recorded.bs.max() == 16
    assert recorded.attrs["model"] == {}


def test_an_engine_that_serves_nothing_is_an_error(needs):
    needs("0.5.14")
    flags = ("--pp-size", "2", "--enable-dynamic-chunking", *FLAGS)
    with pytest.raises(NotServed, match=r"hang, .*tensor a \(2048\) must match"):
        record_batches([(5, 2)], flags=flags, rule="pr28386", stall_s=5.0)


@pytest.mark.slow
def test_the_batches_are_the_same_with_the_arithmetic_of_attention(needs):
    needs("0.5.14")
    requests = Lists([[(900 + 37 * at, 3 + at % 5) for at in range(30)]])
    with_it, without = (
        batches_of(serve_and_record(requests, "0.5.14", flags=FLAGS, arithmetic=arithmetic))
        for arithmetic in (True, False)
    )
    pd.testing.assert_frame_equal(with_it, without)


@pytest.mark.slow
def test_a_pipeline_waits_for_all_requests_too_and_replay_makes_its_batches(needs):
    needs("0.5.14")
    flags = ("--pp-size", "2", "--page-size", "16", *FLAGS)
    requests = sample_requests("azure-2023-code", 40).drop(columns="arrival_s")
    requests["output_tokens"] = requests.output_tokens.clip(1, 20)
    recorded = record_batches(requests, flags=flags)
    config = EngineConfig(
        2048, 16, pp_size=2, page_size=16, max_total_num_tokens=16384, context_len=8192
    )
    pd.testing.assert_frame_equal(recorded, replay(requests, config), check_dtype=False)
