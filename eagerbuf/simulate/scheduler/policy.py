"""How a replay decides: the settings of the scheduler, and how long a step takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eagerbuf._arrays import ceil_align
from eagerbuf.admission import admit
from eagerbuf.config import MOST, EngineConfig
from eagerbuf.predictor import ChunkSizePredictor
from eagerbuf.sizing import longest_prompt

if TYPE_CHECKING:
    from numpy.typing import NDArray

Latency = Callable[[int], float]


def default_step_ms(tokens: int) -> float:
    """A stand-in where no latency is known: 15 ms for a step and 0.02 ms a token."""
    return 15 + 0.02 * tokens


@dataclass(frozen=True)
class Policy:
    """What all ranks share; `config` and the keywords are those of `replay`."""

    config: EngineConfig
    predictor: ChunkSizePredictor | None
    smooth_factor: float
    ignore_eos: bool
    micro_batches: int
    pp_max_micro_batch_size: int
    accepted_per_step: int
    step_ms: Latency
    durations: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        most = self.config.num_tokens_per_bs
        if not 1 <= self.accepted_per_step <= most:
            raise ValueError(
                f"accepted_per_step={self.accepted_per_step}: must be 1 to "
                f"num_tokens_per_bs={most}, the tokens verified for a request in one step"
            )
        for name in ("micro_batches", "pp_max_micro_batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        if not self.smooth_factor >= 0:
            raise ValueError(f"smooth_factor={self.smooth_factor}: must not be negative")

    @cached_property
    def pool(self) -> int | None:
        """The KV pool in whole pages, in tokens; None: not known, and taken as endless."""
        tokens, page = self.config.max_total_num_tokens, self.config.page_size
        return None if tokens is None else tokens // page * page

    @cached_property
    def _in_pages(self) -> EngineConfig:
        return replace(self.config, max_total_num_tokens=self.pool)

    @cached_property
    def scheduler_chunk(self) -> int:
        """The static chunk in tokens, 0 with chunking off."""
        return self.config.scheduler_chunk

    @cached_property
    def mixes(self) -> bool:
        """Whether running requests decode in prefill batches (SGLang: not under speculation)."""
        config = self.config
        chunked = config.scheduler_chunking
        return config.enable_mixed_chunk and chunked and config.num_tokens_per_bs == 1

    @cached_property
    def prefill_excludes_decode(self) -> bool:
        """Whether ranks without a prefill idle while another prefills: DP ranks that speculate."""
        return self.config.attn_dp_size > 1 and self.config.num_tokens_per_bs > 1

    def fits(self, prompt: int) -> bool:
        """Whether an empty engine takes a prompt of so many tokens: length check and admission."""
        longest = math.inf if self.pool is None else longest_prompt(self.config)
        if self.pool == 0 or prompt > longest:  # less than a page is no pool
            return False
        return bool(admit([prompt], self._in_pages, ignore_eos=self.ignore_eos))

    def most_output(self, prompts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Output tokens that SGLang allows after each prompt (`init_req_max_new_tokens`)."""
        page, context = self.config.page_size, self.config.context_len
        pool = MOST if self.pool is None else self.pool
        in_context = min(MOST if context is None else context, pool) - 2 - prompts
        in_pool = pool - ceil_align(prompts, page) - page - 1
        allowed: NDArray[np.int64] = np.minimum(in_context, in_pool)
        return allowed

    def next_chunk(self, history_len: int) -> int | None:
        """The predicted chunk after `history_len` tokens; None: keep the static one."""
        if self.predictor is None or not self.config.pp_dynamic_chunking:
            return None
        return self.predictor.predict(
            history_len,
            self.config.chunk,
            page_size=self.config.page_size,
            context_len=self.config.context_len or MOST,
            max_chunk_size=self.config.max_prefill_tokens,
            smooth_factor=self.smooth_factor,
        )

    def step_ns(self, tokens: int) -> int:
        """Nanoseconds of a step whose largest rank has `tokens`: whole ones, so that sums agree."""
        if tokens not in self.durations:
            milliseconds = self.step_ms(tokens)
            if not math.isfinite(milliseconds):
                raise ValueError(f"step_ms of {tokens} tokens is {milliseconds}, not a duration")
            self.durations[tokens] = max(0, round(1e6 * milliseconds))
        return self.durations[tokens]


def latency(step_ms: float | Latency | None, predictor: ChunkSizePredictor | None) -> Latency:
    """The function of tokens that `step_ms` stands for; ValueError for a negative number."""
    if callable(step_ms):
        return step_ms
    if step_ms is None:
        fitted = predictor is not None and predictor.a is not None
        return predictor.latency_ms if predictor is not None and fitted else default_step_ms
    if not 0 <= step_ms < math.inf:
        raise ValueError(f"step_ms={step_ms}: must be a number of milliseconds, not negative")
    milliseconds = float(step_ms)
    return lambda _: milliseconds
