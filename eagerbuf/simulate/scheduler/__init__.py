"""A workload through the scheduler: every batch shape that the requests really make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from eagerbuf.config import EngineConfig
from eagerbuf.predictor import SMOOTH_FACTOR, ChunkSizePredictor
from eagerbuf.simulate.scheduler.engine import Engine
from eagerbuf.simulate.scheduler.incoming import Incoming, incoming
from eagerbuf.simulate.scheduler.policy import Policy, latency
from eagerbuf.simulate.scheduler.rows import Rows

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["replay"]

BAR_DELAY_S = 2.0  # a shorter replay shows no progress bar


def replay(
    requests: DataFrame,
    config: EngineConfig,
    *,
    predictor: ChunkSizePredictor | None = None,
    smooth_factor: float = SMOOTH_FACTOR,
    ignore_eos: bool = False,
    micro_batches: int | None = None,
    pp_max_micro_batch_size: int | None = None,
    accepted_per_step: int = 1,
    step_ms: float | Callable[[int], float] | None = None,
    max_steps: int | None = None,
    progress: bool = True,
) -> DataFrame:
    """Batches that SGLang's scheduler (0.5.14) makes of `requests`: one row a batch and DP rank.

    `requests` has prompt_tokens (>= 1), output_tokens (>= 0; 0 only prefills) and optionally
    arrival_s (seconds, else 0). Columns returned: step, rank, kind ("prefill", "mixed" or
    "decode"), num_tokens, bs (requests), padded_num_tokens, padded_bs. A rank without a batch in
    a step has no row, but counts (as 0 tokens) in the padding of the others.

    What is modelled: the loop without overlap, batch by batch as the engine itself makes them
    (tests/studies/test_recorded.py, tests/engine/test_record.py). Prefill runs whenever anything
    is admitted, else the running requests decode; with enable_mixed_chunk they ride along (never
    under speculation, where SGLang refuses it). A prefill gives a request's first output token,
    each decode step `accepted_per_step` more (at most num_tokens_per_bs). A finished request
    counts as running until the next decode takes it out, and a batch that is full, of requests or
    of KV pool, is offered nothing before. Requests of a DP-attention deployment go to the ranks in
    turn; its ranks step together, and under speculation a rank idles while another prefills. Plain
    `dp_size` replicas run apart, each with its own steps. `micro_batches` (default pp_size) take
    turns, see their results at their next turn, and share the half-done request; one admits up to
    `pp_max_micro_batch_size` requests (default max_running_requests // pp_size).
    With PP dynamic chunking, a fitted `predictor` (and `smooth_factor`) sets the size of each
    further chunk; without one chunks stay static. `ignore_eos` is for all requests.

    The KV pool holds whole pages of what has been computed, and admission keeps room for outputs:
    all those of a new request, and of the running ones a share that falls with every decode (not
    on the path of ignore_eos without a radix cache). Outputs that the pool or the context cannot
    hold are cut. When decoding runs out of pool, the request with the fewest outputs is retracted
    (under speculation the one that joined last): it goes to the end of the queue with its output
    as part of its prompt. No prefix is shared, also not that of a retracted request with itself.

    Time: a step takes `step_ms` milliseconds (a number, or a function of the tokens of the
    largest rank); default `predictor.latency_ms`, else 15 ms + 0.02 ms a token. A turn of an
    empty micro-batch takes what 0 tokens take. Requests are seen at the first step after their
    arrival. `max_steps` ends the replay early (of each replica).

    `attrs` counts: requests, dropped = too_long (prompt + output over context_len) + never_fits
    (the prompt has no room in an empty pool), shortened (output cut), finished, retracted, aborted
    (alone, and out of pool), unfinished, steps, idle (ranks without a batch, over all steps) and
    seconds.
    `progress` shows a bar on stderr when it is a terminal and the replay takes longer than 2 s.
    ValueError names the column and row, or the argument, that makes no sense.
    """
    policy = Policy(
        config,
        predictor,
        smooth_factor,
        ignore_eos,
        config.pp_size if micro_batches is None else micro_batches,
        _micro_batch_size(config, pp_max_micro_batch_size),
        accepted_per_step,
        latency(step_ms, predictor),
    )
    if max_steps is not None and max_steps < 0:
        raise ValueError(f"max_steps={max_steps}: must not be negative")
    requests_in = incoming(requests, policy)
    rows = Rows()
    replicas = config.dp_size // config.attn_dp_size
    engines = [
        Engine(policy, requests_in.share(replica, replicas), rows, replica)
        for replica in range(replicas)
    ]
    with _bar(len(requests_in.requests), progress) as bar:
        for engine in engines:
            engine.run(max_steps, bar.update)
    return _with_counts(rows.frame(), requests_in, engines)


def _bar(total: int, progress: bool) -> Any:
    """A progress bar on stderr, if that is a terminal and it takes long."""
    return tqdm(
        total=total,
        unit=" requests",
        delay=BAR_DELAY_S,
        disable=None if progress else True,  # None: where stderr is no terminal
        file=sys.stderr,
    )


def _micro_batch_size(config: EngineConfig, requests: int | None) -> int:
    """Upstream's default of --pp-max-micro-batch-size."""
    return max(config.max_running_requests // config.pp_size, 1) if requests is None else requests


def _with_counts(frame: DataFrame, requests_in: Incoming, engines: Sequence[Engine]) -> DataFrame:
    frame.attrs.update(requests_in.counts())
    for name in Engine.COUNTS:
        frame.attrs[name] = sum(engine.counts()[name] for engine in engines)
    frame.attrs["seconds"] = max(engine.seconds for engine in engines)
    return frame
