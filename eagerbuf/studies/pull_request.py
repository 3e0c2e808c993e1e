"""The sizing before and after PR #28677 as two short functions, to be read side by side.

Our own words and code; the tests and notebook 03 hold them against `buffer_size`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from html import escape
from itertools import product
from math import ceil
from typing import TYPE_CHECKING

from eagerbuf.config import EngineConfig
from eagerbuf.sizing import ceil_align, size_many

if TYPE_CHECKING:
    from pandas import DataFrame


def before(server: EngineConfig) -> tuple[int, int]:  # noqa: D103
    chunk = server.chunked_prefill_size or 0
    pool = server.max_total_num_tokens or 0
    prefill = chunk if chunk > 0 else pool
    max_bs = server.max_running_requests
    decode = max_bs * server.num_tokens_per_bs
    return max_bs, max(prefill, decode)


def after(server: EngineConfig) -> tuple[int, int]:  # noqa: D103
    pool = server.max_total_num_tokens or 0
    prefill = max_prefill_tokens(server) or pool
    max_bs = align(server, server.max_running_requests)
    decode = max_bs * server.num_tokens_per_bs
    return max_bs, align(server, max(prefill, decode))


def max_prefill_tokens(server: EngineConfig) -> int:  # noqa: D103
    chunk = max(server.chunked_prefill_size or 0, 0)
    if not (chunk and server.pp_dynamic_chunking):
        return chunk
    probe = ceil(1.25 * chunk)
    return max(chunk, server.max_prefill_tokens, probe)


def align(server: EngineConfig, n: int) -> int:  # noqa: D103
    if server.require_mlp_sync:
        # as prepare_mlp_sync_batch pads a batch
        n = ceil_align(n, server.attn_tp_size)
        n = ceil_align(n, server.cp_align_size)
    return n


class SideBySide:
    """Both versions as source text: a table in a notebook, one over the other elsewhere."""

    def _texts(self) -> tuple[str, str]:
        new = [_source(function) for function in (after, max_prefill_tokens, align)]
        return _source(before), "\n".join(new)

    def __repr__(self) -> str:
        return "\n".join(self._texts())

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{h}</th>" for h in ("before (#28386)", "after (#28677)"))
        cells = "".join(f"<td><pre>{escape(text)}</pre></td>" for text in self._texts())
        return f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"


def _source(function: Callable[..., object]) -> str:
    return inspect.getsource(function).replace("  # noqa: D103", "")


def unchanged_grid() -> DataFrame:
    """Configurations without dynamic chunks, chunk and requests aligned, one a row.

    Columns are EngineConfig's fields, and `differs`: whether #28677 changed the size.
    """
    import pandas as pd

    chunks, requests = (2048, 4096, 8192, 16384, -1), (8, 64, 256, 1024, 2048, 4096)
    layouts = product((1, 2, 4, 8), (1, 2, 4), (False, True), (1, 4))
    rows = [
        {
            "chunked_prefill_size": chunk,
            "max_running_requests": bs,
            "max_total_num_tokens": 665_600,
            "tp_size": tp * 2,
            "pp_size": pp,
            "dp_size": 2 if dp_attention else 1,
            "enable_dp_attention": dp_attention,
            "num_tokens_per_bs": per_bs,
        }
        for chunk, bs, (tp, pp, dp_attention, per_bs) in product(chunks, requests, layouts)
    ]
    grid = pd.DataFrame(rows)
    old, new = (size_many(grid, rule) for rule in ("pr28386", "pr28677"))
    return grid.assign(differs=(old != new).any(axis=1))
