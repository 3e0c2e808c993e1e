"""The autotune dummy's shape held against the scheduler's decode batch after padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from eagerbuf.config import EngineConfig
from eagerbuf.repro.autotune.buckets import tune_max_num_tokens
from eagerbuf.sizing import find_rule, padded_decode, sync_align

if TYPE_CHECKING:
    from pandas import DataFrame

ATTN_DP = 2  # DP attention over two ranks makes every layout of the tables use MLP sync


@dataclass(frozen=True)
class DecodeShapes:
    """The dummy under one sizing rule and the full decode batch after padding, on one rank.

    `*_bs` in requests, `*_tokens` in tokens. `short_by`: tokens the dummy lacks to be aligned, so
    that attention TP can split it. `*_tuned_to`: the tuning range that each shape asks for.
    """

    dummy_bs: int
    dummy_tokens: int
    live_bs: int
    live_tokens: int
    short_by: int
    dummy_tuned_to: int
    live_tuned_to: int

    @property
    def misshaped(self) -> bool:
        """Whether the dummy runs its collectives at an unaligned token count."""
        return self.short_by > 0

    @property
    def tuned_set_differs(self) -> bool:
        """Whether the live shape uses buckets that the dummy did not tune, or the reverse."""
        return self.dummy_tuned_to != self.live_tuned_to

    def _repr_html_(self) -> str:
        from eagerbuf._html import html_table

        return html_table("DecodeShapes", list(asdict(self).items()))


def decode_shapes(config: EngineConfig, rule: str = "pr28386") -> DecodeShapes:
    """Dummy and live decode shape of `config` when the eager runner is sized by `rule`.

    Up to PR #28677 the dummy had `max_running_requests` requests as they came ("pr28386"). Live
    is the 0.5.14 form of MLP-sync padding. ValueError for an unknown rule.
    """
    shapes = _shapes(config, rule)
    tuned = {name: tune_max_num_tokens(shapes[tokens]) for name, tokens in _TUNED.items()}
    return DecodeShapes(**shapes, **tuned)


def misshape_table(
    max_running_requests: Iterable[int],
    attn_tp_sizes: Iterable[int],
    attn_cp_sizes: Iterable[int] = (1,),
    *,
    cp_zigzag: bool = True,
    num_tokens_per_bs: int = 1,
    rule: str = "pr28386",
) -> DataFrame:
    """Dummy and live decode shape over all combinations, one a row, MLP sync on.

    Columns: max_running_requests, attn_tp_size, attn_cp_size (ranks), alignment (tokens that a
    batch of one is padded to), those of DecodeShapes (dummy_bs, live_bs in requests; dummy_tokens,
    live_tokens, short_by, dummy_tuned_to, live_tuned_to in tokens), and misshaped,
    tuned_set_differs (bool).
    """
    import pandas as pd

    names = ["max_running_requests", "attn_tp_size", "attn_cp_size"]
    grid = pd.DataFrame(product(max_running_requests, attn_tp_sizes, attn_cp_sizes), columns=names)
    config = _columns(grid, cp_zigzag, num_tokens_per_bs)
    table = grid.assign(alignment=sync_align(config, 1), **_shapes(config, rule))
    for name, tokens in _TUNED.items():
        table[name] = table[tokens].map({n: tune_max_num_tokens(n) for n in set(table[tokens])})
    table["misshaped"] = table["short_by"] > 0
    table["tuned_set_differs"] = table["dummy_tuned_to"] != table["live_tuned_to"]
    return table


def _columns(grid: DataFrame, cp_zigzag: bool, num_tokens_per_bs: int) -> Any:
    """The configuration of each row, as columns."""
    from eagerbuf._frames import config_columns

    return config_columns(
        grid[["max_running_requests", "attn_cp_size"]].assign(
            chunked_prefill_size=0,
            tp_size=ATTN_DP * grid["attn_tp_size"] * grid["attn_cp_size"],
            dp_size=ATTN_DP,
            enable_dp_attention=True,
            cp_zigzag=(grid["attn_cp_size"] > 1) & cp_zigzag,
            num_tokens_per_bs=num_tokens_per_bs,
        )
    )


def rarity(table: DataFrame) -> DataFrame:
    """How often the mis-shape matters, one alignment a row, from a `misshape_table`.

    Columns: alignment (tokens), power_of_two (bool), pairs (rows of the table), misshaped and
    tuned_set_differs (rows where it holds), and the smallest and largest max_running_requests
    whose tuned set differs (<NA> where none does).
    """
    import pandas as pd

    groups = table.groupby("alignment")
    differing = table[table["tuned_set_differs"]].groupby("alignment")["max_running_requests"]
    counts = groups[["misshaped", "tuned_set_differs"]].sum().astype(int)
    counts.insert(0, "pairs", groups.size())
    counts.insert(0, "power_of_two", [a == tune_max_num_tokens(a) for a in counts.index])
    for name, values in (("smallest", differing.min()), ("largest", differing.max())):
        counts[name] = pd.array(values.reindex(counts.index), dtype="Int64")
    return counts.reset_index()


_TUNED = {"dummy_tuned_to": "dummy_tokens", "live_tuned_to": "live_tokens"}


def _shapes(config: Any, rule: str) -> dict[str, Any]:
    """Both shapes, for one configuration or for columns of them."""
    dummy_bs = find_rule(rule).max_bs(config)
    dummy_tokens = dummy_bs * config.num_tokens_per_bs
    live_tokens, live_bs = padded_decode(config, config.max_running_requests)
    return {
        "dummy_bs": dummy_bs,
        "dummy_tokens": dummy_tokens,
        "live_bs": live_bs,
        "live_tokens": live_tokens,
        "short_by": sync_align(config, dummy_tokens) - dummy_tokens,
    }
