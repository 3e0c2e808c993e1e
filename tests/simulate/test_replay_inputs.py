"""What a replay drops, waits for, counts and refuses, and when it shows a bar."""

import io
import math
import sys
from dataclasses import FrozenInstanceError

import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, replay
from eagerbuf.simulate.scheduler import BAR_DELAY_S
from eagerbuf.simulate.scheduler.engine import Engine
from eagerbuf.simulate.scheduler.incoming import incoming
from eagerbuf.simulate.scheduler.policy import Policy, latency
from eagerbuf.simulate.scheduler.rows import COLUMNS, Rows
from tests.replays import D, P, batches, dp_config, requests


def test_what_cannot_run_is_dropped_and_counted():
    config = EngineConfig(8, 4, context_len=50, max_total_num_tokens=40)
    frame = replay(requests((50, 1), (49, 1), (30, 21), (39, 2), (38, 2), (10, 0)), config)
    # 50 + 1, 30 + 21 are over the context; 49 and 39 are not less than 40 with a page of 1
    names = ("requests", "dropped", "too_long", "never_fits", "finished", "aborted", "unfinished")
    assert [frame.attrs[name] for name in names] == [6, 4, 2, 2, 2, 0, 0]
    assert frame.loc[frame["kind"] == P, "num_tokens"].sum() == 38 + 10


def test_a_pool_smaller_than_a_page_takes_nothing():
    frame = replay(requests((1, 1)), EngineConfig(64, 4, max_total_num_tokens=7, page_size=8))
    assert frame.empty
    assert list(frame.columns) == list(COLUMNS)
    assert frame.attrs["never_fits"] == 1


def test_an_empty_table_gives_an_empty_table():
    frame = replay(requests(), EngineConfig(8, 4))
    assert frame.empty
    assert list(frame.columns) == list(COLUMNS)
    assert frame.attrs["requests"] == 0


def test_arrivals_are_waited_for_in_order():
    late_first = requests((3, 1, 0.025), (4, 2, 0.0), (5, 1, 9.0))
    frame = replay(late_first, EngineConfig(64, 4), step_ms=10)
    # steps end at 10, 20 ms; 25 ms: waits for the second; 9 s: waits again
    assert batches(frame) == [(P, 4, 1), (D, 1, 1), (P, 3, 1), (P, 5, 1)]
    assert frame.attrs["seconds"] == 9.01


def test_every_arrival_is_waited_for_to_the_nanosecond():
    queue = requests(*[(1, 1, float(second)) for second in range(300)])
    assert replay(queue, EngineConfig(8, 4), step_ms=7).attrs["seconds"] == 299.007


def test_a_request_is_seen_at_the_first_step_after_its_arrival():
    for arrival, before in ((0.010, 1), (0.0101, 2), (0.020, 2), (0.0201, 3)):
        frame = replay(requests((4, 9), (3, 1, arrival)), EngineConfig(64, 4), step_ms=10)
        assert frame["num_tokens"].tolist().index(3) == before


def test_the_last_second_that_is_taken():
    frame = replay(requests((4, 1, 1e9)), EngineConfig(8, 4), step_ms=0)
    assert frame.attrs["seconds"] == 1e9


def test_what_is_done_is_told_as_it_is_done():
    config = EngineConfig(8, 4)
    policy = Policy(config, None, 0.75, False, 1, 4, 1, latency(1, None))
    told = []
    queue = incoming(requests((4, 1), (4, 2), (4, 4), (4, 1, 0.5)), policy)
    engine = Engine(policy, queue.share(0, 1), Rows(), 0)
    engine.run(None, told.append)
    assert [done for done in told if done] == [1, 1, 1, 1]


def test_the_latency_of_a_step_is_that_of_its_largest_rank():
    seen = []

    def step_ms(tokens):
        seen.append(tokens)
        return 2.0

    frame = replay(requests((5, 2), (30, 2)), dp_config(), step_ms=step_ms)
    assert sorted(set(seen)) == [1, 30]
    assert frame.attrs["seconds"] == 0.004


def test_a_turn_of_an_empty_micro_batch_takes_what_no_tokens_take():
    frame = replay(requests((4, 2)), EngineConfig(8, 4, pp_size=2), step_ms=lambda n: n + 1)
    # 5 ms, an empty turn of 1 ms, 2 ms, and a turn in which the result comes through
    assert frame.attrs["seconds"] == 0.009


def test_time_never_runs_backwards():
    frame = replay(requests((4, 9)), EngineConfig(8, 4), step_ms=lambda _: -5.0)
    assert frame.attrs["seconds"] == 0


def test_the_longest_prompt_that_is_a_number_of_tokens():
    assert replay(requests((2**40, 1)), EngineConfig(8, 4)).attrs["too_long"] == 1


def test_default_latencies():
    queue, config = requests((100, 1)), EngineConfig(100, 4)
    assert replay(queue, config).attrs["seconds"] == 0.017  # 15 ms and 0.02 ms a token
    model = ChunkSizePredictor(0.0001, 0.02, 1.0)
    assert replay(queue, config, predictor=model).attrs["seconds"] == 0.004  # 1 + 2 + 1 ms


def test_max_steps_ends_early():
    frame = replay(requests((4, 1000), (4, 1000)), EngineConfig(8, 4), max_steps=100)
    assert frame["step"].max() == 99
    assert frame.attrs["steps"] == 100
    assert frame.attrs["unfinished"] == 2
    assert replay(requests((4, 2)), EngineConfig(8, 4), max_steps=0).empty
    assert replay(requests((4, 2000)), EngineConfig(8, 4), max_steps=1000).attrs["steps"] == 1000


def test_what_replicas_share_cannot_be_changed():
    policy = Policy(EngineConfig(8, 4), None, 0.75, False, 1, 4, 1, latency(1, None))
    shared = incoming(requests((4, 1)), policy)
    for thing, name in ((policy, "ignore_eos"), (shared, "too_long")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, 1)


def test_a_chunk_smaller_than_a_page_admits_nothing():
    for chunk, dropped in ((8, 1), (15, 1), (16, 0)):
        frame = replay(requests((20, 1)), EngineConfig(chunk, 4, page_size=16))
        assert frame.attrs["never_fits"] == dropped


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("prompt_tokens", 0, "prompt_tokens=0 (row 1)"),
        ("prompt_tokens", 2.5, "prompt_tokens=2.5 (row 1)"),
        ("prompt_tokens", "x", "prompt_tokens=x (row 1)"),
        ("prompt_tokens", 2**50, "prompt_tokens"),
        ("output_tokens", -1, "output_tokens=-1"),
        ("output_tokens", None, "output_tokens"),
        ("arrival_s", -0.5, "arrival_s=-0.5"),
        ("arrival_s", 1e9 + 1, "arrival_s=1000000001.0"),
        ("prompt_tokens", 2**40 + 1, "prompt_tokens=1099511627777"),
        ("arrival_s", float("nan"), "arrival_s=nan"),
        ("arrival_s", float("inf"), "arrival_s=inf"),
    ],
)
def test_a_bad_request_is_named(column, value, words):
    frame = requests((4, 1), (4, 1)).astype(object)
    frame.loc[1, column] = value
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        replay(frame, EngineConfig(8, 4))


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"accepted_per_step": 2}, "accepted_per_step=2: must be 1 to num_tokens_per_bs=1"),
        ({"accepted_per_step": 0}, "accepted_per_step=0"),
        ({"micro_batches": 0}, "micro_batches=0"),
        ({"pp_max_micro_batch_size": 0}, "pp_max_micro_batch_size=0"),
        ({"smooth_factor": -0.1}, "smooth_factor=-0.1"),
        ({"smooth_factor": math.nan}, "smooth_factor=nan"),
        ({"step_ms": -1}, "step_ms=-1"),
        ({"step_ms": math.nan}, "step_ms=nan"),
        ({"step_ms": math.inf}, "step_ms=inf"),
        ({"step_ms": lambda _: math.inf}, "step_ms of 4 tokens is inf"),
        ({"max_steps": -1}, "max_steps=-1"),
    ],
)
def test_a_bad_argument_is_named(keywords, words):
    with pytest.raises(ValueError, match=words):
        replay(requests((4, 1)), EngineConfig(8, 4), **keywords)


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="'output_tokens' is missing"):
        replay(requests((4, 1)).drop(columns="output_tokens"), EngineConfig(8, 4))


def test_arrivals_are_optional():
    frame = replay(requests((4, 1)).drop(columns="arrival_s"), EngineConfig(8, 4))
    assert batches(frame) == [(P, 4, 1)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("progress", [True, False])
def test_the_bar_is_for_long_replays_on_a_terminal(monkeypatch, progress):
    monkeypatch.setattr(sys.modules["eagerbuf.simulate.scheduler"], "BAR_DELAY_S", 0.0)
    for stream, shown in ((Terminal(), progress), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        replay(requests((4, 3)), EngineConfig(8, 4), progress=progress)
        assert bool(stream.getvalue()) == shown


def test_a_bar_is_shown_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(sys.modules["eagerbuf.simulate.scheduler"], "BAR_DELAY_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    replay(requests((4, 3)), EngineConfig(8, 4))
    assert stream.getvalue()


def test_a_short_replay_shows_no_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    replay(requests((4, 3)), EngineConfig(8, 4))
    assert stream.getvalue() == ""
    assert BAR_DELAY_S == 2
