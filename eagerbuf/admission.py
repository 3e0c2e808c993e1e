"""Prefill admission: which tokens of which requests make up one prefill batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from math import inf

from eagerbuf.config import EngineConfig

CLIP_NEW_TOKENS = 4096  # output tokens of a request that admission counts at most


class Budget:
    """What is left for the batch, in tokens and requests; `chunk` is endless with chunking off.

    `full`: whether the scheduler gave up for want of requests or of KV pool, not of chunk. It then
    does not look again before a request has left (`ScheduleBatch.batch_is_full`).
    """

    __slots__ = ("chunk", "full", "page_size", "pool", "prompt_tokens", "requests", "taken")

    def __init__(self, config: EngineConfig, pool: float, chunk: int, mixed_decode: int) -> None:
        self.page_size = config.page_size
        self.pool = pool - mixed_decode
        self.prompt_tokens = config.max_prefill_tokens - mixed_decode
        self.chunk = chunk - mixed_decode if chunk else inf
        self.requests = config.max_running_requests - mixed_decode
        self.taken: list[int] = []
        self.full = False

    def take(self, tokens: int, output: int = 0) -> None:
        """Add `tokens` of a request, and keep room for its `output`.

        Budgets are charged whole pages, the pool one page more.
        """
        paged = tokens + -tokens % self.page_size
        self.taken.append(tokens)
        self.pool -= paged + output + self.page_size
        self.prompt_tokens -= paged
        self.chunk -= paged

    def carry(self, tokens: int, output: int = 0, free: float = inf) -> None:
        """Go on with a half-done request, even where the pool has no room (upstream must).

        `free`: tokens of the pool that nothing holds, reserved or not.
        """
        room = min(self.chunk, int(self.pool) if self.pool < inf else inf)
        size = int(min(tokens, room if room > 0 else min(self.chunk, free)))
        self.take(size, output if size == tokens else 0)

    def fill(self, prompts: Iterable[int], outputs: Iterable[tuple[int, int]]) -> None:
        """Take prompts in order until upstream's first answer is not CONTINUE.

        `outputs`: for each prompt the tokens still to come, and those it may make in all; the pool
        needs room for the former and is charged the latter. Charges as `take` does, but in local
        variables: a long queue is read three times as fast.
        """
        page, taken = self.page_size, self.taken
        pool, prompt_tokens, chunk = self.pool, self.prompt_tokens, self.chunk
        whole = chunk == inf
        for tokens, (to_come, output) in zip(prompts, outputs, strict=False):
            if tokens < 1:
                raise _empty_prompt(tokens)
            paged = tokens + -tokens % page
            if len(taken) >= self.requests or tokens + to_come + page >= pool:
                self.full = True
                break
            if paged > chunk:
                tokens = paged = int(chunk // page * page)
                output = 0
            if paged <= 0 or (whole and taken and paged >= prompt_tokens):
                break
            taken.append(tokens)
            pool -= paged + output + page
            prompt_tokens -= paged
            chunk -= paged
            if pool <= 0:
                self.full = True
                break
            if prompt_tokens <= 0 or chunk <= 0:
                break

    def fill_ignore_eos(self, prompts: Iterable[int]) -> None:
        """The path of `ignore_eos` requests without a radix cache: adds first, looks afterwards."""
        for tokens in prompts:
            if tokens < 1:
                raise _empty_prompt(tokens)
            paged = tokens + -tokens % self.page_size
            if len(self.taken) >= self.requests or paged > self.pool:
                self.full = True
                break
            if self.chunk <= 0:
                break
            self.take(int(min(tokens, self.chunk)))
            if self.pool <= 0:
                self.full = True
                break
            if self.prompt_tokens <= 0 or self.chunk <= 0:
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
    if 0 < size <= mixed_decode:
        return []
    pool = config.max_total_num_tokens
    budget = Budget(config, inf if pool is None else pool, size, mixed_decode)
    if carried:
        budget.carry(carried)
    if ignore_eos and config.disable_radix_cache:
        budget.fill_ignore_eos(prompts)
    else:
        budget.fill(prompts, repeat((0, 0)))
    return budget.taken


def _empty_prompt(tokens: int) -> ValueError:
    return ValueError(f"prompts: a prompt of {tokens} tokens; give at least 1")


def _refusal(*, carried: int, mixed_decode: int, chunk: int | None) -> ValueError:
    """What is wrong with the first number that is."""
    for name, value in (("carried", carried), ("mixed_decode", mixed_decode)):
        if value < 0:
            return ValueError(f"{name}={value}: must not be negative")
    return ValueError(f"chunk={chunk}: must be at least 1 token")
