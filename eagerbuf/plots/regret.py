"""Figure of the kept tactics: what each costs at the live shape beside the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


def regret(cases: DataFrame, summary: DataFrame) -> go.Figure:
    """Each tactic's time at the live shape relative to the best, the kept one ringed.

    `cases` from `regrets`; bars span the quartiles of the measured rounds (`Timings.summary`).
    """
    worst = float(cases.regret_percent.max())
    fig = figure(
        f"The tactic kept for the dummy costs at most {worst:.0f} % at the live shape",
        "bucket tuned for the dummy → live tokens",
        "time at the live shape,<br>best tactic = 1 (log scale)",
        height=470,
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        margin={"l": 90, "r": 30, "t": 100, "b": 65},
    )
    fig.update_layout(title={"y": 0.97, "yanchor": "top"})
    tactics = summary.tactic.unique().tolist()
    lanes = {name: (at + 0.5) / len(tactics) - 0.5 for at, name in enumerate(tactics)}
    for at, name in enumerate(tactics):
        part = summary[summary.tactic == name].set_index("num_tokens")
        fig.add_scatter(**_tactic(name, part, cases, 0.8 * lanes[name]), marker=_marker(at))
    fig.add_scatter(**_kept(cases, lanes))
    labels = [f"{row.dummy_bucket:,} → {row.live_tokens:,}" for row in cases.itertuples()]
    fig.update_xaxes(tickvals=list(range(len(labels))), ticktext=labels, showgrid=False)
    for between in range(1, len(labels)):
        fig.add_vline(x=between - 0.5, line={"color": COLORS["light"], "width": 1})
    fig.update_yaxes(type="log", tickvals=[1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32])
    return fig


def _kept(cases: DataFrame, lanes: dict[str, float]) -> dict[str, Any]:
    """A ring around the tactic that was kept, in each case."""
    return {
        "name": "kept for the dummy",
        "x": [at + 0.8 * lanes[name] for at, name in enumerate(cases.kept)],
        "y": (cases.kept_ms / cases.best_ms).tolist(),
        "mode": "markers",
        "marker": {"symbol": "circle-open", "size": 18, "color": "#000000", "line": {"width": 2}},
        "hovertemplate": "%{y:.3f} times the best<extra>kept</extra>",
    }


def _marker(at: int) -> dict[str, Any]:
    names = ("fits", "probe", "gold", "accent", "sky", "neutral")
    symbols = ("circle", "square", "diamond", "triangle-up", "x", "cross")
    return {"size": 9, "color": COLORS[names[at % 6]], "symbol": symbols[at % 6]}


def _tactic(name: str, at: DataFrame, cases: DataFrame, lane: float) -> dict[str, Any]:
    """One tactic's medians and quartiles at the live counts, relative to the best there."""
    live = at.loc[cases.live_tokens.tolist()]
    best = cases.best_ms.to_numpy()
    middle, low, high = (live[c].to_numpy() / best for c in ("median_ms", "low_ms", "high_ms"))
    return {
        "name": name,
        "x": [place + lane for place in range(len(cases))],
        "y": middle.tolist(),
        "error_y": {
            "symmetric": False,
            "array": (high - middle).tolist(),
            "arrayminus": (middle - low).tolist(),
            "thickness": 1.2,
        },
        "mode": "markers",
        "hovertemplate": f"%{{y:.3f}} times the best<extra>{name}</extra>",
    }
