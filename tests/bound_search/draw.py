"""Seeded configurations and states: any numbers, and numbers next to every limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerbuf import sizing
from eagerbuf.config import EngineConfig
from eagerbuf.predictor import ChunkSizePredictor, probe_lengths
from eagerbuf.simulate.scheduler.rank import Batch
from tests.bound_search.state import State, Step

PAGES = (1, 1, 1, 7, 16, 32, 64, 128, 256)
QUEUE = 8  # waiting prompts at most
ENDLESS = 100_000  # tokens of the longest prompt where neither pool nor context is known


def draw_configs(rng: np.random.Generator, count: int) -> list[EngineConfig]:
    """Configurations of every kind the search is about, small limits as often as large ones."""
    columns = _sizes(rng, count) | _layouts(rng, count)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [EngineConfig(**_row(dict(zip(columns, row, strict=True)))) for row in rows]


def _sizes(rng: np.random.Generator, count: int) -> dict[str, Any]:
    page = rng.choice(PAGES, count)
    chunk = _log(rng, count, 1, np.where(rng.random(count) < 0.2, 130, 20_000))
    whole_pages = np.maximum(1, chunk // page) * page
    chunk = np.where(rng.random(count) < 0.7, whole_pages, chunk)
    return {
        "chunked_prefill_size": np.where(rng.random(count) < 0.3, -1, chunk),
        "max_running_requests": _log(rng, count, 1, 512),
        "max_prefill_tokens": np.where(rng.random(count) < 0.05, 0, _log(rng, count, 1, 40_000)),
        "max_total_num_tokens": _log(rng, count, 20, 1_000_000),
        "context_len": np.where(rng.random(count) < 0.2, 0, _log(rng, count, 10, 200_000)),
        "page_size": page,
        "pp_size": rng.choice([1, 2, 4], count),
        "enable_dynamic_chunking": rng.random(count) < 0.5,
        "enable_mixed_chunk": rng.random(count) < 0.5,
        "disable_radix_cache": rng.random(count) < 0.4,
        "admits_whole_prompts": rng.random(count) < 0.1,
        "num_tokens_per_bs": rng.choice([1, 1, 1, 2, 4, 5, 8], count),
    }


def _layouts(rng: np.random.Generator, count: int) -> dict[str, Any]:
    dp_attention = rng.random(count) < 0.35
    dp = np.where(dp_attention, rng.choice([2, 3, 4], count), 1)
    cp = rng.choice([1, 1, 2, 4], count)
    tp = rng.choice([1, 2, 3, 4, 8], count) * cp * dp
    backend = rng.choice(["none", "deepep"], count, p=[0.8, 0.2])
    alone = ~dp_attention & (backend == "none") & (tp > 1)
    return {
        "tp_size": tp,
        "dp_size": dp,
        "attn_cp_size": cp,
        "cp_zigzag": (cp > 1) & (rng.random(count) < 0.5),
        "enable_dp_attention": dp_attention,
        "disable_attn_tp_gather": rng.random(count) < 0.1,
        "attn_tp_input_scattered": alone & (rng.random(count) < 0.4),
        "moe_a2a_backend": backend,
        "moe_dense_tp_size": np.where(rng.random(count) < 0.2, 1, 0),
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    optional = {name: row[name] or None for name in ("context_len", "moe_dense_tp_size")}
    return row | optional


def _log(rng: np.random.Generator, shape: Any, low: int, high: Any) -> Any:
    """Whole numbers from `low` to `high`, each order of magnitude equally often."""
    return np.floor(low * (high / low) ** rng.random(shape)).astype(np.int64)


def longest(config: EngineConfig) -> int:
    """Tokens of the longest request that can wait."""
    if config.max_total_num_tokens is None and config.context_len is None:
        return ENDLESS
    if config.max_total_num_tokens is None:
        return (config.context_len or 2) - 1
    most: int = sizing.longest_prompt(config)
    return most


def fitted(rng: np.random.Generator, config: EngineConfig) -> ChunkSizePredictor | None:
    """A predictor fitted to noisy latencies of the profiler's own probes; None where the fit
    fails, as it then switches dynamic chunking off."""
    if not config.profiles:
        return None
    lengths = probe_lengths(config.chunk, config.context_len if rng.random() < 0.5 else None)
    a, b, c = 10 ** rng.uniform((-9, -6, -2), (-4, 0, 2))
    noise = 10 ** rng.uniform(-7, -2) * rng.standard_normal(len(lengths))
    latencies = [(a * x * x + b * x + c) * (1 + e) for x, e in zip(lengths, noise, strict=True)]
    try:
        return ChunkSizePredictor().fit(lengths, latencies)
    except ValueError:
        return None


def edges(config: EngineConfig) -> Any:
    """Lengths at and beside every limit of a configuration, each one a possible request."""
    most, page = longest(config), config.page_size
    limits = {config.chunk, config.max_prefill_tokens, most, most // 2, page, 2 * page, 1}
    limits |= {config.chunk - page, config.max_prefill_tokens - page, most - page}
    near = {limit + d for limit in limits for d in (-1, 0, 1)}
    return np.array(sorted({min(max(1, tokens), most) for tokens in near}))


def draw_states(
    rng: np.random.Generator,
    config: EngineConfig,
    predictor: ChunkSizePredictor | None,
    count: int,
) -> Iterator[State]:
    """Queues and what they meet; half of all lengths lie beside a limit of the configuration."""
    most, beside = longest(config), edges(config)
    lengths = _lengths(rng, (count, QUEUE + 2), most, beside)
    waiting = rng.integers(0, QUEUE + 1, count).tolist()
    carries = (rng.random(count) < 0.5) & config.scheduler_chunking
    decodes = np.where(rng.random(count) < 0.7, _decodes(rng, config, count), 0).tolist()
    flags = rng.random((count, 2)) < 0.6
    rows = zip(lengths.tolist(), waiting, carries.tolist(), decodes, flags.tolist(), strict=True)
    for row, n, carries_one, riding, (eos, predicts) in rows:
        state = State(tuple(row[:n]), mixed_decode=riding, ignore_eos=eos)
        if carries_one:
            state = _carrying(config, state, row[-1], row[-2], most)
            state = _predicted(config, state, predictor) if predicts else state
        yield state


def _lengths(rng: np.random.Generator, shape: tuple[int, int], most: int, beside: Any) -> Any:
    near = beside[rng.integers(0, len(beside), shape)]
    return np.where(rng.random(shape) < 0.5, near, np.minimum(_log(rng, shape, 1, most + 1), most))


def _decodes(rng: np.random.Generator, config: EngineConfig, count: int) -> Any:
    """Requests that decode along: none unless chunks are mixed and nothing is speculated."""
    mixes = config.enable_mixed_chunk and config.scheduler_chunking
    if not mixes or config.num_tokens_per_bs > 1:
        return np.zeros(count, np.int64)
    running, chunk = config.max_running_requests, config.scheduler_chunk
    near = np.array([1, chunk - 1, chunk, running - 1, running])
    drawn = np.where(rng.random(count) < 0.5, rng.choice(near, count), _log(rng, count, 1, running))
    return np.clip(drawn, 0, running)


def _carrying(config: EngineConfig, state: State, done: int, rest: int, most: int) -> State:
    """The same state with a half-done request, which has a row of its own in the request pool."""
    history = min(done, most - 1)
    rest = max(1, min(rest, most - history))
    riding = min(state.mixed_decode, config.max_running_requests - 1)
    return state._replace(carried=rest, history=history, mixed_decode=riding)


def _predicted(config: EngineConfig, state: State, predictor: ChunkSizePredictor | None) -> State:
    if predictor is None:
        return state
    return state._replace(chunk=next_chunk(config, predictor, state.history))


def next_chunk(config: EngineConfig, predictor: ChunkSizePredictor, history: int) -> int | None:
    """Tokens of the chunk that the scheduler asks for after `history` tokens of a request."""
    return predictor.predict(
        history,
        config.chunk,
        page_size=config.page_size,
        context_len=config.context_len or 1 << 40,
        max_chunk_size=config.max_prefill_tokens,
    )


def draw_steps(rng: np.random.Generator, config: EngineConfig, count: int) -> Iterator[Step]:
    """Decode and verify batches, and probes where the profiler sends any."""
    running, tokens = config.max_running_requests, config.num_tokens_per_bs
    name = "decode" if tokens == 1 else "verify"
    for row in _log(rng, (count, 4), 1, running + 1).tolist():
        own, *others = (min(n, running) for n in row)
        own = running if rng.random() < 0.3 else own
        batches = [Batch("decode", n * tokens, n) for n in (own, *others)]
        yield Step(name, batches[0], None, tuple(batches[1 : config.attn_dp_size]))
    if config.profiles:
        lengths = probe_lengths(config.chunk)
        for at in (0, *rng.integers(0, 128, count - 1).tolist()):
            if at < len(lengths):
                yield Step("profiler_probe", Batch("prefill", lengths[at], 1))
