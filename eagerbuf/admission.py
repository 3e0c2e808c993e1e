"""Prefill admission: which tokens of which requests make up one prefill batch."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from eagerbuf.config import EngineConfig


class _Budget:
    """What is left for the batch, in tokens and requests; `chunk` is endless with chunking off."""

    __slots__ = ("chunk", "page_size", "pool", "prompt_tokens", "requests", "taken")

    def __init__(self, config: EngineConfig, pool: float, chunk: int, mixed_decode: int) -> None:
        self.page_size = config.page_size
        self.pool = pool - mixed_decode
        self.prompt_tokens = config.max_prefill_tokens - mixed_decode
        self.chunk = chunk - mixed_decode if chunk else inf
        self.requests = config.max_running_requests - mixed_decode
        self.taken: list[int] = []

    def take(self, tokens: int) -> bool:
        """Add `tokens` of a request; whether `max_prefill_tokens` leaves room for another.

        Budgets are charged whole pages, the pool one page more. Once the pool or the chunk is used
        up, SGLang looks no further either: the next request would find no room in it.
        """
        paged = tokens + -tokens % self.page_size
        self.taken.append(tokens)
        self.pool -= paged + self.page_size
        self.prompt_tokens -= paged
        self.chunk -= paged
        return self.prompt_tokens > 0

    def carry(self, tokens: int) -> None:
        """Go on with a half-done request, even where the pool has no room (upstream must)."""
        room = min(self.chunk, self.pool)
        self.take(int(min(tokens, room if room > 0 else self.chunk)))

    def fill(self, prompts: Iterable[int]) -> None:
        """Take prompts in order until upstream's first answer is not CONTINUE.

        Charges as `take` does, but in local variables: a long queue is read three times as fast.
        """
        page, taken = self.page_size, self.taken
        pool, prompt_tokens, chunk = self.pool, self.prompt_tokens, self.chunk
        whole = chunk == inf
        for tokens in prompts:
            if tokens < 1:
                raise _empty_prompt(tokens)
            paged = tokens + -tokens % page
            if len(taken) >= self.requests or tokens + page >= pool:
                break
            if paged > chunk:
                tokens = paged = int(chunk // page * page)
            if paged <= 0 or (whole and taken and paged >= prompt_tokens):
                break
            taken.append(tokens)
            pool -= paged + page
            prompt_tokens -= paged
            chunk -= paged
            if prompt_tokens <= 0:  # nothing left of pool or chunk stops the next one above
                break

    def fill_ignore_eos(self, prompts: Iterable[int]) -> None:
        """The path of `ignore_eos` requests without a radix cache: adds first, looks afterwards."""
        for tokens in prompts:
            if tokens < 1:
                raise _empty_prompt(tokens)
            paged = tokens + -tokens % self.page_size
            if len(self.taken) >= self.requests or paged > self.pool or self.chunk <= 0:
                break
            if not self.take(int(min(tokens, self.chunk))):
                break


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
    if carried < 0 or mixed_decode < 0 or (chunk is not None and chunk < 1):
        raise _refusal(carried=carried, mixed_decode=mixed_decode, chunk=chunk)
    size: int = config.scheduler_chunk if chunk is None else chunk
    if carried and not size:
        raise ValueError(f"carried={carried}: a half-done request exists only with chunking on")
    pool = config.max_total_num_tokens
    return fill_batch(
        prompts, config, inf if pool is None else pool, size, carried, mixed_decode, ignore_eos
    )


def fill_batch(
    prompts: Iterable[int],
    config: EngineConfig,
    pool: float,
    chunk: int,
    carried: int,
    mixed_decode: int,
    ignore_eos: bool,
) -> list[int]:
    """`admit` with `pool` tokens instead of the configured ones, and `chunk` 0 for none."""
    if 0 < chunk <= mixed_decode:
        return []
    budget = _Budget(config, pool, chunk, mixed_decode)
    if carried:
        budget.carry(carried)
    if ignore_eos and config.disable_radix_cache:
        budget.fill_ignore_eos(prompts)
    else:
        budget.fill(prompts)
    return budget.taken


def _empty_prompt(tokens: int) -> ValueError:
    return ValueError(f"prompts: a prompt of {tokens} tokens; give at least 1")


def _refusal(*, carried: int, mixed_decode: int, chunk: int | None) -> ValueError:
    """What is wrong with the first number that is."""
    for name, value in (("carried", carried), ("mixed_decode", mixed_decode)):
        if value < 0:
            return ValueError(f"{name}={value}: must not be negative")
    return ValueError(f"chunk={chunk}: must be at least 1 token")
