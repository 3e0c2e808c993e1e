"""Prefill admission: which tokens of which requests make up one prefill batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from eagerbuf.columns import ceil_align
from eagerbuf.config import EngineConfig


@dataclass
class _Budget:
    """What is left for the batch, in tokens; `chunk` None means that prompts are not chunked."""

    page_size: int
    pool: float
    prompt_tokens: int
    chunk: int | None
    taken: list[int] = field(default_factory=list)

    def take(self, tokens: int) -> None:
        """Add `tokens` of a request; budgets are charged whole pages, the pool one page more."""
        self.taken.append(tokens)
        paged = ceil_align(tokens, self.page_size)
        self.pool -= paged + self.page_size
        self.prompt_tokens -= paged
        if self.chunk is not None:
            self.chunk -= paged

    @property
    def spent(self) -> bool:
        """Whether upstream stops looking at the queue after the last request."""
        chunk_spent = self.chunk is not None and self.chunk <= 0
        return self.pool <= 0 or self.prompt_tokens <= 0 or chunk_spent

    def carry(self, tokens: int) -> None:
        """Go on with a half-done request, even where the pool has no room (upstream must)."""
        assert self.chunk is not None
        room = min(self.chunk, self.pool)
        self.take(int(min(tokens, room if room > 0 else self.chunk)))

    def offer(self, tokens: int) -> bool:
        """Take what fits of a prompt; False where upstream's first answer is not CONTINUE."""
        paged = ceil_align(tokens, self.page_size)
        if tokens + self.page_size >= self.pool:
            return False
        if self.chunk is None:
            if self.taken and paged >= self.prompt_tokens:
                return False
            self.take(tokens)
        elif paged <= self.chunk:
            self.take(tokens)
        else:
            whole_pages = self.chunk // self.page_size * self.page_size
            if whole_pages <= 0:
                return False
            self.take(whole_pages)
        return not self.spent

    def offer_ignore_eos(self, tokens: int) -> bool:
        """The path of `ignore_eos` requests without a radix cache: adds first, looks afterwards."""
        if ceil_align(tokens, self.page_size) > self.pool:
            return False
        if self.chunk is not None and self.chunk <= 0:
            return False
        self.take(tokens if self.chunk is None else min(tokens, self.chunk))
        return not self.spent


def admit(
    prompts: Iterable[int],
    config: EngineConfig,
    *,
    carried: int = 0,
    mixed_decode: int = 0,
    chunk: int | None = None,
    ignore_eos: bool = False,
) -> list[int]:
    """Tokens taken into one prefill batch: from the carried request, then from each prompt.

    `prompts`: waiting prompts in tokens, in order; `carried`: tokens still to do of a half-done
    request; `mixed_decode`: running requests that decode in the same batch, a token each; `chunk`
    overrides the chunk (a predicted one). Stops where SGLang's `PrefillAdder` (0.5.14) first
    answers other than CONTINUE. No request holds output tokens or a cached prefix, and a KV pool
    of unknown size has room for everything. With `mixed_decode` at or over the chunk upstream
    computes with negative remainders; here the batch is empty. ValueError for a negative number,
    and for a carried request with chunking off.
    """
    size = (config.scheduler_chunk or None) if chunk is None else chunk
    _check(carried=carried, mixed_decode=mixed_decode, chunk=chunk)
    if carried and size is None:
        raise ValueError(f"carried={carried}: a half-done request exists only with chunking on")
    if size is not None and mixed_decode >= size:
        return []
    budget = _budget(config, size, mixed_decode)
    if carried:
        budget.carry(carried)
    late_look = ignore_eos and config.disable_radix_cache
    offer = budget.offer_ignore_eos if late_look else budget.offer
    for tokens in prompts:
        if tokens < 1:
            raise ValueError(f"prompts: a prompt of {tokens} tokens; give at least 1")
        if len(budget.taken) >= config.max_running_requests - mixed_decode or not offer(tokens):
            break
    return budget.taken


def _budget(config: EngineConfig, chunk: int | None, mixed_decode: int) -> _Budget:
    """All of it, less the tokens that decode in the same batch."""
    pool = inf if config.max_total_num_tokens is None else config.max_total_num_tokens
    return _Budget(
        config.page_size,
        pool - mixed_decode,
        config.max_prefill_tokens - mixed_decode,
        None if chunk is None else chunk - mixed_decode,
    )


def _check(*, carried: int, mixed_decode: int, chunk: int | None) -> None:
    for name, value in (("carried", carried), ("mixed_decode", mixed_decode)):
        if value < 0:
            raise ValueError(f"{name}={value}: must not be negative")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk}: must be at least 1 token")
