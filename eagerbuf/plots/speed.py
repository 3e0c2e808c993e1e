"""The figure of cost: how the time grows with the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.plots.template import COLORS, figure
from eagerbuf.speed import growth

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

SERIES = {  # of, side: label, colour, dash
    ("admit", "ours"): ("admit, by requests", COLORS["fits"], "solid"),
    ("admit", "released"): ("released PrefillAdder", COLORS["fits"], "dot"),
    ("size_many", "ours"): ("size_many, by configurations", COLORS["probe"], "solid"),
    ("replay", "ours"): ("replay, by requests", COLORS["overflow"], "solid"),
    ("load", "ours"): ("load, by tokens", COLORS["accent"], "solid"),
    ("load", "released"): ("released fill_from", COLORS["accent"], "dot"),
}


def cost_of_work(rows: DataFrame) -> go.Figure:
    """Seconds against the work, both on log scales; rows: of, case, side, work, seconds.

    `admit` by the requests it admits, where all that wait are admitted.
    """
    fig = figure(
        "First the cost of a call, then of the work",
        "work: requests, configurations or tokens (log scale)",
        "processor time, seconds (log scale)",
        height=520,
        showlegend=True,
        legend={"x": 1.01, "y": 1},
    )
    for axis in (fig.layout.xaxis, fig.layout.yaxis):
        axis.update(type="log", dtick=1, exponentformat="power")
    for (of, side), (label, color, dash) in SERIES.items():
        line = growth(rows, of, side)
        fig.add_scatter(
            x=line.work.tolist(),
            y=line.seconds.tolist(),
            name=label,
            mode="lines+markers",
            line={"color": color, "dash": dash},
            marker={"color": color},
        )
    return fig
