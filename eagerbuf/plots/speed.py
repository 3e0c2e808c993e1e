"""The figure of cost: how the time grows with the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.plots.template import AXIS, COLORS, figure

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
        "Cost grows no faster than the work",
        "work: requests, configurations or tokens (log scale)",
        "processor time, seconds (log scale)",
        height=520,
        showlegend=True,
        xaxis={**AXIS, "type": "log", "dtick": 1},
        yaxis={**AXIS, "type": "log", "dtick": 1},
        legend={"x": 1.01, "y": 1},
    )
    fig.update_xaxes(title_text="work: requests, configurations or tokens (log scale)")
    fig.update_yaxes(title_text="processor time, seconds (log scale)", tickformat="~s")
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


def growth(rows: DataFrame, of: str, side: str) -> DataFrame:
    """Work and seconds of one line of the figure, by work."""
    chosen = rows[(rows.of == of) & (rows.side == side)]
    if of == "admit":
        chosen = chosen[chosen.case.str.endswith("waiting and admitted")]
    if of == "size_many":
        chosen = chosen[chosen.case.isin(("growth", "pr28677"))]
    return chosen.sort_values("work")[["work", "seconds"]]
