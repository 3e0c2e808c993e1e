"""Decode steps that change nothing but lengths are taken at once: how many turns are left."""

import pytest

from eagerbuf import EngineConfig, replay
from eagerbuf.simulate.scheduler.engine import Engine
from tests.replays import requests


def turns(monkeypatch, queue, config, **keywords):
    """(turns that were taken one by one, steps of the replay)."""
    taken, step = [], Engine._step

    def counted(engine, turn):
        taken.append(turn)
        step(engine, turn)

    monkeypatch.setattr(Engine, "_step", counted)
    frame = replay(requests(*queue), config, **keywords)
    return len(taken), frame.attrs["steps"]


ALONE = EngineConfig(64, 4)
STAGES = EngineConfig(100, 4, pp_size=2)
VERIFIED = EngineConfig(64, 4, num_tokens_per_bs=4)


def pages(pool, page=4, **fields):
    return EngineConfig(64, 4, max_total_num_tokens=pool, page_size=page, **fields)


@pytest.mark.parametrize(
    ("queue", "config", "keywords", "expected"),
    [
        ([(5, 1000)], ALONE, {}, (2, 1000)),  # the prefill, and the last decode
        (
            [(5, 1000), (5, 500)],
            ALONE,
            {},
            (4, 1000),
        ),  # the one in which the second ends, and the next
        ([(5, 1000), (50, 5)], EngineConfig(64, 1), {}, (6, 1005)),  # one by one; a look too late
        ([(5, 1000)], VERIFIED, {"accepted_per_step": 3}, (2, 334)),
        # the pool: 8 + 999 tokens need 252 pages, 1008 tokens
        ([(8, 1000)], pages(1016), {}, (2, 1000)),
        # what the pool cannot hold is cut: the prompt, a page and a token of it are not for outputs
        ([(8, 1000)], pages(1012), {}, (2, 999)),
        ([(8, 1000)], pages(400), {}, (2, 387)),
        # 3 tokens a step: 63 steps for the 189 outputs after the first
        ([(8, 1000)], pages(200, 1, num_tokens_per_bs=4), {"accepted_per_step": 3}, (2, 64)),
        ([(8, 200), (8, 200)], pages(500), {}, (2, 200)),
        ([(8, 200), (8, 200)], pages(400), {}, (14, 211)),  # one of them is retracted
        ([(5, 1000)], STAGES, {}, (6, 1000)),  # the other has nothing to run
        # two stages: a look ahead once in a round of both
        ([(5, 1000)] * 4, STAGES, {}, (7, 2000)),
        ([(5, 1000)] * 4, STAGES, {"max_steps": 101}, (5, 101)),
        ([(5, 1000), (5, 998), (5, 990)], EngineConfig(100, 3, pp_size=3), {}, (24, 2988)),
        # up to the next arrival, or as far as it may go
        ([(5, 1000), (5, 1, 5.0)], ALONE, {"step_ms": 10}, (4, 1001)),
        ([(5, 1000)], ALONE, {"max_steps": 100}, (2, 100)),
    ],
)
def test_turns_that_are_left(monkeypatch, queue, config, keywords, expected):
    assert turns(monkeypatch, queue, config, **keywords) == expected
