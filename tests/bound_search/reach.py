"""For every producer a state whose batch reaches its ceiling, or the reason why none does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eagerbuf import sizing
from eagerbuf.config import EngineConfig
from eagerbuf.predictor import CONTEXT_MARGIN, ChunkSizePredictor
from eagerbuf.simulate.scheduler.rank import Batch
from tests.bound_search.bound import PRODUCERS, Bounds
from tests.bound_search.draw import longest, next_chunk
from tests.bound_search.state import (
    Admission,
    State,
    Step,
    admitted,
    label,
    prefill_batch,
)

Build = Callable[[EngineConfig], State]


def exists(config: EngineConfig, producer: str, predictor: ChunkSizePredictor | None) -> bool:
    """Whether a deployment has the producer at all; ValueError for an unknown one."""
    if producer not in PRODUCERS:
        raise ValueError(f"producer={producer!r}: unknown, give one of {', '.join(PRODUCERS)}")
    chunked, tokens = config.scheduler_chunking, config.num_tokens_per_bs
    mixes = chunked and config.enable_mixed_chunk and tokens == 1
    has: dict[str, bool] = {
        "prefill": chunked,
        "mixed": mixes and config.max_running_requests > 1 and config.chunk > 1,
        "whole_prefill": not chunked and not config.disable_radix_cache,
        "late_look": not chunked and config.disable_radix_cache,
        "dynamic_chunk": config.profiles and predictor is not None,
        "profiler_probe": config.profiles,
        "decode": tokens == 1,
        "verify": tokens > 1,
    }
    return has[producer]


def reach(
    config: EngineConfig,
    producer: str,
    predictor: ChunkSizePredictor | None = None,
    admission: Admission = admitted,
) -> Step:
    """The largest batch of a producer that this module knows how to provoke, really admitted.

    ValueError where `config` lacks the producer or nothing is admitted.
    """
    if not exists(config, producer, predictor):
        raise ValueError(f"producer={producer!r}: does not exist under this configuration")
    if producer in ("decode", "verify"):
        requests = config.max_running_requests
        return Step(producer, Batch("decode", requests * config.num_tokens_per_bs, requests))
    if producer == "profiler_probe":
        return Step(producer, Batch("prefill", sizing.probe_tokens(config.chunk), 1))
    if producer == "dynamic_chunk":
        states = [_dynamic(config, predictor)] if predictor else []
    else:
        states = [build(config) for build in BUILDERS[producer]]
    return _largest(config, producer, states, admission)


def _largest(
    config: EngineConfig, producer: str, states: Sequence[State], admission: Admission
) -> Step:
    made = [
        Step(producer, batch, state)
        for state in states
        if label(config, state) == producer
        and (batch := prefill_batch(config, state, admission)) is not None
    ]
    if not made:
        raise ValueError(f"producer={producer!r}: no request fits under this configuration")
    return max(made, key=lambda step: step.batch.num_tokens)


def obstacle(config: EngineConfig, producer: str) -> str:
    """Why the ceiling is out of reach by more than rounding: "" where it is not.

    "requests": more short requests would be needed than may run; "max_prefill_tokens": short
    requests stop there, below the chunk, or no larger chunk is predicted; "context": the predictor
    stays 100 tokens under it; "pool": each request needs a page beside its own. The formula looks
    at none of these, so it is an upper bound there.
    """
    if producer == "dynamic_chunk":
        return _dynamic_obstacle(config)
    if PRODUCERS[producer] != "prefill":
        return ""
    wanted, most = Bounds(config).of(producer).raw, longest(config)
    slots = config.max_running_requests - (producer == "mixed")
    if producer == "late_look":
        wanted, slots = wanted - most, slots - 1
    return _short_requests(config, producer, wanted, slots) or _small_pool(config, producer)


def _short_requests(config: EngineConfig, producer: str, wanted: int, slots: int) -> str:
    """Several requests have to make up `wanted` tokens, in whole pages but for the last."""
    most = longest(config)
    if wanted <= (0 if producer == "late_look" else most):
        return ""
    if producer in ("prefill", "mixed") and wanted >= config.max_prefill_tokens:
        return "max_prefill_tokens"
    step = most // config.page_size * config.page_size
    return "" if step and -(-wanted // step) <= slots else "requests"


def _small_pool(config: EngineConfig, producer: str) -> str:
    pool, page = config.max_total_num_tokens, config.page_size
    if pool is None:
        return ""
    wanted, most = Bounds(config).of(producer).raw, longest(config)
    if producer == "whole_prefill" and wanted <= most:
        return "" if pool > page + 1 else "pool"  # one request, a page short at most
    step = max(1, most // page * page)
    return "" if wanted + (2 + -(-wanted // step)) * page < pool else "pool"


def _dynamic_obstacle(config: EngineConfig) -> str:
    wanted = max(config.chunk, sizing.alignment_unit(config.page_size))
    if config.max_prefill_tokens < wanted:
        return "max_prefill_tokens"
    return "" if wanted + config.page_size + CONTEXT_MARGIN < longest(config) else "context"


def _parts(total: int, most: int, page: int, count: int) -> tuple[int, ...]:
    """`total` tokens as at most `count` requests of whole pages, but for the last."""
    step = most if most >= total else max(1, most // page * page)
    full, rest = divmod(max(0, total), step)
    return (*[step] * min(full, count), *([rest] if rest else []))[:count]


def _carried(config: EngineConfig) -> State:
    return State(carried=min(longest(config), config.chunk))


def _queued(config: EngineConfig) -> State:
    most, running = longest(config), config.max_running_requests
    return State(_parts(config.chunk, most, config.page_size, running))


def _mixed_carried(config: EngineConfig) -> State:
    riding = min(config.max_running_requests - 1, config.chunk - 1)
    return State(carried=min(longest(config), config.chunk), mixed_decode=riding)


def _mixed_queued(config: EngineConfig) -> State:
    page, running = config.page_size, config.max_running_requests
    riding = min(config.chunk % page or page, running - 1, config.chunk - 1)
    left = config.chunk - riding
    return State(_parts(left, longest(config), page, running - riding), mixed_decode=riding)


def _mixed_one(config: EngineConfig) -> State:
    running = config.max_running_requests - 1
    parts = _parts(config.chunk - 1, longest(config), config.page_size, running)
    return State(parts, mixed_decode=1)


def _one(config: EngineConfig) -> State:
    return State((_fitting(config, longest(config)),), ignore_eos=config.disable_radix_cache)


def _several(config: EngineConfig) -> State:
    """Prompts that together stay just under `max_prefill_tokens`, in whole pages."""
    page, running = config.page_size, config.max_running_requests
    budget = max(0, config.max_prefill_tokens - 1) // page * page
    return State(_parts(budget, longest(config), page, running))


def _late(config: EngineConfig) -> State:
    """The same, and then the longest one, which is added before anyone looks."""
    page, running = config.page_size, config.max_running_requests
    budget = max(0, config.max_prefill_tokens - 1) // page * page
    before = _parts(budget, longest(config), page, running - 1)
    taken = sum(-(-tokens // page) * page + page for tokens in before)
    last = _fitting(config, longest(config), taken)
    return State((*before, last), ignore_eos=True)


def _fitting(config: EngineConfig, tokens: int, taken: int = 0) -> int:
    """A request of at most `tokens` for which the KV pool still has room, at least one token."""
    pool = config.max_total_num_tokens
    if pool is None:
        return tokens
    return max(1, min(tokens, pool - taken - config.page_size - 1))


BUILDERS: dict[str, tuple[Build, ...]] = {
    "prefill": (_carried, _queued),
    "mixed": (_mixed_carried, _mixed_queued, _mixed_one),
    "whole_prefill": (_one, _several),
    "late_look": (_late, _one),
}


def _dynamic(config: EngineConfig, predictor: ChunkSizePredictor) -> State:
    """A request with one page done and enough left, at its predicted chunk."""
    history = config.page_size
    chunk = next_chunk(config, predictor, history)
    rest = max(1, longest(config) - history)
    return State(carried=rest, history=history, chunk=chunk)
