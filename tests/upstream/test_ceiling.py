"""No batch of the released PrefillAdder is over the tight ceiling, and its batches reach it."""

from __future__ import annotations

import numpy as np
import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, buffer_size
from eagerbuf.sizing import longest_prompt
from tests.bound_search import (
    PRODUCERS,
    State,
    draw_configs,
    exists,
    fitted,
    obstacle,
    reach,
    search,
)
from tests.bound_search.bound import Bounds
from tests.upstream import ceiling, draw, wheels
from tests.upstream.admission import Admission
from tests.upstream.dynamic import Dynamic
from tests.upstream.stubs import Request

MODELLED = wheels.sglang("0.5.14")
LATER = [wheels.sglang(version) for version in wheels.NEEDED[1:]]
ADMITTED = [name for name, shape in PRODUCERS.items() if shape in ("prefill", "dynamic_chunk")]


def test_no_batch_of_the_release_we_model_is_over() -> None:
    """Every state is also put to `admit`, which takes the same tokens."""
    differing: list[tuple[State, list[int]]] = []
    admission = ceiling.released_admission(MODELLED, differing)
    found = search(draw.batches(), seed=1, admission=admission)
    assert found.batches >= 100_000
    assert found.over == 0, found.table()
    assert differing == []
    assert all(found.counts[name].at_ceiling > 100 for name in PRODUCERS)


@pytest.mark.parametrize("wheel", LATER, ids=str)
def test_no_batch_of_a_later_release_is_over(wheel: wheels.Wheel) -> None:
    admission = ceiling.released_admission(wheel)
    found = search(draw.batches() // 20, seed=2, admission=admission)
    assert found.over == 0, found.table()
    assert all(found.counts[name].at_ceiling > 0 for name in PRODUCERS)


@pytest.mark.parametrize("producer", ADMITTED)
def test_the_released_admission_reaches_every_ceiling(producer: str) -> None:
    rng, ask = np.random.default_rng(3), ceiling.released_admission(MODELLED)
    free = 0
    for config in draw_configs(rng, 400):
        predictor = fitted(rng, config)
        if not exists(config, producer, predictor) or obstacle(config, producer):
            continue
        limit = Bounds(config).of(producer)
        made = reach(config, producer, predictor, ask).batch.num_tokens
        assert limit.raw - limit.slack <= made <= limit.raw, config
        free += 1
    assert free >= 10


@pytest.mark.parametrize("wheel", [MODELLED, *LATER], ids=str)
@pytest.mark.parametrize(("context_len", "pool"), [(4096, 10**6), (32768, 40_000)])
def test_a_retracted_request_is_two_tokens_under_the_longest(
    wheel: wheels.Wheel, context_len: int, pool: int
) -> None:
    """The longest request that a release accepts, put back before its last token, admitted whole.

    A fresh prompt is shorter: six tokens under.
    """
    config = EngineConfig(None, 8, max_total_num_tokens=pool, context_len=context_len)
    longest = longest_prompt(config)
    prompt = context_len - 100
    most, output = ceiling.accepted(wheel, context_len, pool, prompt)
    assert most == longest - 6
    request = Request(prompt + output - 1, False, 1)
    request.output_ids = tuple(range(output - 1))
    taken = Admission(wheel).admit_requests(ceiling.queue_of(config, State()), [request])
    assert taken == [longest - 2]
    assert buffer_size(config, "tight").max_num_tokens - max(16384, taken[0]) in (0, 2)


def test_where_rounding_ends_the_lemma_the_released_predictor_is_rounded_alike() -> None:
    """Latencies linear to thirteen digits: what is left of `a` is noise, and so is the chunk."""
    model = Dynamic(MODELLED).predictor()
    model.quadratic_coeff_a, model.linear_coeff_b, model.constant_coeff_c = 1e-22, 0.0094, 0.0
    model.set_target_latency(2048)
    model.is_ready = True
    ours = ChunkSizePredictor(1e-22, 0.0094, 0.0)
    keywords = {"page_size": 1, "context_len": 10**7, "max_chunk_size": 16384}
    grown = [model.predict_next_chunk_size(n, 2048, 1, 10**7, 16384) for n in range(0, 10**5, 999)]
    assert grown == [ours.predict(n, 2048, **keywords) for n in range(0, 10**5, 999)]
    assert max(size for size in grown if size is not None) > 2048 * 5 // 4
