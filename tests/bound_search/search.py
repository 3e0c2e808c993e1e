"""A search that tries to break the ceiling: drawn states, then changes to the largest of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from eagerbuf.config import EngineConfig
from eagerbuf.simulate.scheduler.rank import Batch
from tests.bound_search.bound import Bounds
from tests.bound_search.draw import draw_configs, draw_states, draw_steps, edges, fitted
from tests.bound_search.state import (
    Admission,
    State,
    Step,
    admitted,
    label,
    prefill_batch,
)
from tests.bound_search.tally import Tally

AT_ONCE = 200  # configurations
STATES, STEPS, CLIMBS = 48, 4, 24  # for each configuration


def search(
    batches: int = 100_000,
    *,
    seed: int = 0,
    rule: str = "tight",
    admission: Admission = admitted,
) -> Tally:
    """Make at least so many batches and hold each one, padded, against the buffer of `rule`.

    `admission` takes the tokens of each request: `admit`, or a released PrefillAdder. Same seed,
    same configurations and drawn states.
    """
    tally, rng = Tally(), np.random.default_rng([seed, 29159])
    while tally.batches < batches:
        for config in draw_configs(rng, AT_ONCE):
            bounds = Bounds(config, rule)
            for step in steps(rng, config, admission):
                tally.add(bounds, step)
            if tally.batches >= batches:
                break
    return tally


def steps(rng: np.random.Generator, config: EngineConfig, admission: Admission) -> Iterator[Step]:
    """Batches of one configuration; those of other DP ranks are batches it has made before."""
    yield from draw_steps(rng, config, STEPS)
    predictor = fitted(rng, config)
    made: list[Batch | None] = [None, Batch("decode", *_running(config))]
    best, most = None, 0
    for state in draw_states(rng, config, predictor, STATES):
        batch = prefill_batch(config, state, admission)
        if batch is None:
            continue
        yield Step(label(config, state), batch, state, _others(rng, config, made))
        made.append(batch)
        if batch.num_tokens > most:
            best, most = state, batch.num_tokens
    if best is not None:
        yield from climb(Random(int(rng.integers(1 << 62))), config, best, admission)


def _running(config: EngineConfig) -> tuple[int, int]:
    requests = config.max_running_requests
    return requests * config.num_tokens_per_bs, requests


def _others(
    rng: np.random.Generator, config: EngineConfig, made: list[Batch | None]
) -> tuple[Batch | None, ...]:
    ranks = config.attn_dp_size - 1
    return tuple(made[at] for at in rng.integers(0, len(made), ranks).tolist()) if ranks else ()


def climb(rng: Random, config: EngineConfig, start: State, admission: Admission) -> Iterator[Step]:
    """Change one thing at a time, and keep what makes the batch no smaller."""
    beside = edges(config).tolist()
    state, most = start, 0
    for _ in range(CLIMBS):
        changed = change(rng, state, beside, config.page_size)
        batch = prefill_batch(config, changed, admission)
        if batch is None:
            continue
        yield Step(label(config, changed), batch, changed)
        if batch.num_tokens >= most:
            state, most = changed, batch.num_tokens


def change(rng: Random, state: State, beside: list[int], page_size: int) -> State:
    """The state with one prompt longer, shorter, new, gone or first, or another `carried`."""
    longest, prompts = beside[-1], list(state.prompts)
    if state.carried and rng.random() < 0.3:
        room = longest - state.history
        return state._replace(carried=max(1, min(rng.choice(beside), room)))
    if not prompts or rng.random() < 0.3:
        prompts.insert(rng.randrange(len(prompts) + 1), rng.choice(beside))
        return state._replace(prompts=tuple(prompts))
    at = rng.randrange(len(prompts))
    moved = prompts[at] + rng.choice((-page_size, -1, 1, page_size))
    length = rng.choice((moved, moved, rng.choice(beside), 0))
    kept = [min(length, longest)] if length > 0 else []
    return state._replace(prompts=(*prompts[:at], *kept, *prompts[at + 1 :]))
