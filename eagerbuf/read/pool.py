"""The KV pool that a text limits, and the running requests that it caps.

Source: `_resolve_max_num_reqs` and `_apply_token_constraints` (0.5.14), from 0.5.15 on in
srt/mem_cache/kv_cache_configurator.py.
"""

from __future__ import annotations

from typing import NoReturn

from eagerbuf.read import layout, speculation
from eagerbuf.read.options import version
from eagerbuf.read.settings import Known, Settings, Value

MIN_DEFAULT_REQUESTS, MAX_DEFAULT_REQUESTS = 2048, 4096
ONE_REQUEST_SINCE = "0.5.23"  # fewer requests than ranks: one each instead of none
TOKENS_OF_A_REQUEST = 2  # at least, where the pool caps the requests


def max_total_num_tokens(s: Settings, known: Known) -> Value | None:
    """`--max-total-tokens` in whole pages; without it only a log tells the KV pool."""
    limit, page = s.get("max_total_tokens"), known["page_size"]
    if limit is None or limit.value is None:
        return None
    size = page.value if page else 1
    if limit.value < size:
        pages = f"not one page of {size} tokens" if size > 1 else "no token"
        _refuse("max_total_tokens", limit, f"the KV pool holds {pages}; give {size} or more")
    return Value(limit.value - limit.value % size, limit.source)


def max_running_requests(s: Settings, known: Known) -> Value | None:
    """Per attention DP rank, capped by the KV pool; a log's dump shows it undivided."""
    asked, ranks = s.get("max_running_requests"), layout.attention_ranks(known)
    if asked is None or ranks is None:
        return None
    if asked.value is None:
        algorithm = s.get("speculative_algorithm")
        if algorithm is None:
            return None
        if not speculation.sets_requests(algorithm.value):
            return _by_pool(s, known)
        asked = Value(speculation.REQUESTS, "default")
    return Value(_within(_of_a_rank(s, asked, ranks), s, known), asked.source)


def _of_a_rank(s: Settings, asked: Value, ranks: int) -> int:
    if asked.value < 1:
        why = "no request could run; give 1 or more, or leave it out for SGLang's default"
        _refuse("max_running_requests", asked, why)
    if asked.value < ranks and s.release < version(ONE_REQUEST_SINCE):
        why = f"none is left for each of {ranks} attention DP ranks"
        way = f"give {ranks} or more, or take release {ONE_REQUEST_SINCE} or newer"
        _refuse("max_running_requests", asked, f"{why}; {way}")
    return max(int(asked.value) // ranks, 1)


def _within(requests: int, s: Settings, known: Known) -> int:
    """The requests that the pool, where it is known, leaves."""
    pool = known["max_total_num_tokens"]
    if pool is None or pool.value is None:
        return requests
    if 0 < pool.value < TOKENS_OF_A_REQUEST:
        limit = s.values.get("max_total_tokens") if pool.source != "option" else None
        name = "max_total_tokens" if limit else "max_total_num_tokens"
        why = f"a KV pool of {pool.value} token holds no request"
        _refuse(name, limit or pool, f"{why}; give {TOKENS_OF_A_REQUEST} or more")
    return min(requests, int(pool.value) // TOKENS_OF_A_REQUEST)


def _by_pool(s: Settings, known: Known) -> Value | None:
    pool, context = known["max_total_num_tokens"], known["context_len"]
    if not pool or not context or pool.value is None or context.value is None:
        return None
    estimated = int(pool.value / context.value * 512)
    clamped = max(min(estimated, MAX_DEFAULT_REQUESTS), MIN_DEFAULT_REQUESTS)
    return Value(_within(clamped, s, known), "default")


def _refuse(name: str, held: Value, why: str) -> NoReturn:
    """ValueError that names the flag, or the field of a log, with the value that it was given."""
    flag = held.source == "flag"
    given = f"--{name.replace('_', '-')} {held.value}" if flag else f"{name}={held.value}"
    raise ValueError(f"{given}: {why}")
