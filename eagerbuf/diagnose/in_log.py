"""Batches that a log shows, set against the ceilings: how close they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eagerbuf.read.batches import LAST_START_UP

if TYPE_CHECKING:
    from pandas import DataFrame


class Largest(NamedTuple):
    """The largest batch of one kind in a log; `page_rounded`: tokens count whole pages.

    `num_tokens` of a decode batch is requests times the tokens of each (None where not known).
    """

    kind: str
    batches: int
    num_tokens: int | None
    requests: int
    page_rounded: bool


def largest_in_log(batches: DataFrame, tokens_per_request: int | None) -> list[Largest]:
    """The largest prefill and decode batch of `read_log`'s rows, before the scheduler's padding.

    `tokens_per_request`: of a decode batch (`num_tokens_per_bs`), None where not known. Of several
    start-ups in the log only the last one's batches, which a report is about.
    """
    if first := batches.attrs.get(LAST_START_UP):
        batches = batches[batches.index >= first]
    found = []
    for kind in ("prefill", "decode"):
        own = batches[batches.kind == kind]
        if own.empty:
            continue
        requests = int(own.requests.max())
        if kind == "prefill":
            tokens: int | None = int(own.new_tokens.max())
        else:
            tokens = None if tokens_per_request is None else requests * tokens_per_request
        rounded = kind == "prefill" and bool(own.page_rounded.fillna(False).any())
        found.append(Largest(kind, len(own), tokens, requests, rounded))
    return found
