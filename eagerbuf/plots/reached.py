"""Figure of the search: how near its ceiling each producer came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


def reached_ceilings(shares: DataFrame) -> go.Figure:
    """Batches by producer and by their share of the ceiling: columns producer, bin, batches.

    A row a producer, a column a quarter of its ceiling; the last two are the ceiling itself and
    whatever is over it. Cells hold batches, their colour the share of the producer's batches.
    """
    names, bins = list(shares.producer.unique()), list(shares.bin.unique())
    counts = shares.pivot(index="producer", columns="bin", values="batches").loc[names, bins]
    fig = figure(
        _told(counts),
        "number of batches, by their padded tokens as a share of the producer's ceiling",
        "",
        height=440,
        margin={"l": 130, "r": 30, "t": 70, "b": 65},
    )
    fig.add_heatmap(x=bins, y=names, **_cells(counts.values.tolist()))
    fig.update_yaxes(autorange="reversed", showgrid=False)
    fig.update_xaxes(showgrid=False, tickvals=bins)
    return fig


def _told(counts: DataFrame) -> str:
    """How many producers reach their ceiling, and how many batches are over one."""
    total, over = int(counts.to_numpy().sum()), int(counts["over"].sum())
    reached = int((counts["ceiling"] > 0).sum())
    who = f"{reached} of {len(counts)} producers reach their ceiling"
    if reached == len(counts):
        who = "Every producer reaches its ceiling"
    return f"{who}; {over or 'none'} of {total:,} batches {'are' if over > 1 else 'is'} over it"


def _cells(batches: list[list[int]]) -> dict[str, Any]:
    """The numbers of batches as text, their share of the row as colour."""
    return {
        "z": [[round(100 * n / max(1, sum(row)), 1) for n in row] for row in batches],
        "text": [[f"{n:,}" for n in row] for row in batches],
        "texttemplate": "%{text}",
        "textfont": {"size": 12},
        "colorscale": [[0, "#FFFFFF"], [1, COLORS["sky"]]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": "%{y}, %{x}: %{text} batches, %{z} % of the producer's<extra></extra>",
    }
