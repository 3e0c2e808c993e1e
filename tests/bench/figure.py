"""The figure of cost: how the time grows with the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.plots.template import COLORS, figure
from tests.bench.goals import growth

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

SERIES = {  # of, side: label at the line's end, its side, colour, dash
    ("admit", "ours"): ("admit", "middle right", COLORS["fits"], "solid"),
    ("admit", "released"): ("PrefillAdder", "top center", COLORS["fits"], "dot"),
    ("size_many", "ours"): ("size_many", "middle right", COLORS["probe"], "solid"),
    ("replay", "ours"): ("replay", "middle right", COLORS["neutral"], "solid"),
    ("load", "ours"): ("load", "top left", COLORS["accent"], "solid"),
    ("load", "released"): ("fill_from", "bottom right", COLORS["accent"], "dot"),
}
TIMES = {1e-5: "10 µs", 1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 1e-1: "0.1 s", 1: "1 s"}


def cost_of_work(rows: DataFrame) -> go.Figure:
    """Seconds against the work, both on log scales; rows: of, case, side, work, seconds.

    `admit` by the requests it admits, where all that wait are admitted.
    """
    fig = figure(
        "A small call costs its overhead, a large one grows with its work",
        "work: requests (admit, replay), rows (size_many) or tokens (load), log scale",
        "processor time, log scale (dotted: released code)",
        height=520,
        margin={"l": 80, "r": 90, "t": 70, "b": 65},
    )
    fig.update_xaxes(type="log", dtick=1)
    fig.update_yaxes(type="log", tickvals=list(TIMES), ticktext=list(TIMES.values()))
    for (of, side), (label, where, color, dash) in SERIES.items():
        line = growth(rows, of, side)
        fig.add_scatter(
            x=line.work.tolist(),
            y=line.seconds.tolist(),
            name=label,
            mode="lines+markers+text",
            text=[""] * (len(line) - 1) + [f" {label} "],
            textposition=where,
            cliponaxis=False,
            line={"color": color, "dash": dash},
            marker={"color": color},
            hovertemplate="%{x:,}: %{y:.3g} s",
        )
    return fig
