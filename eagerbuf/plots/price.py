"""Figures of the price: ceilings against the KV pool, and buffers as a share of it by model."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, RULE_COLORS, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

DASHES = {"pr28386": "dot", "pr28677": "dash", "pr28894": "solid", "tight": "solid"}
SYMBOLS = {
    "pr28386": "triangle-left-open",
    "pr28677": "circle-open",
    "pr28894": "square-open",
    "tight": "cross-thin-open",
}
MARKED = ("pr28894", "tight")
LEGEND = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}


def ceiling_against_pool(curve: DataFrame, prices: DataFrame) -> go.Figure:
    """Token ceiling of every rule over the KV pool: lines for one deployment, marks for all.

    `curve`: rule, max_total_num_tokens, max_num_tokens; `prices`: those and deployment. Both axes
    are in tokens, on a log scale; a line is named at its right end. Marks are those of two rules:
    the others' would lie on the tight one's.
    """
    fig = figure(
        "One ceiling grows with the KV pool; what the scheduler can send does not",
        "KV pool, tokens (max_total_num_tokens, log scale)",
        "buffer, tokens (max_num_tokens, log scale)",
        height=480,
        margin={"l": 80, "r": 150, "t": 70, "b": 65},
    )
    for rule, part in curve.groupby("rule", sort=False):
        line = {"color": RULE_COLORS[str(rule)], "dash": DASHES[str(rule)], "width": 2}
        fig.add_scatter(**_xy(part), mode="lines", name=str(rule), line=line, hoverinfo="skip")
    shown = prices.drop_duplicates(["deployment", "rule"])
    for rule in MARKED:
        part = shown[shown.rule == rule]
        fig.add_scatter(
            **_xy(part),
            mode="markers",
            marker=_marker(rule),
            text=part.deployment.tolist(),
            hovertemplate=f"%{{text}}<br>{rule}: %{{y:,}} of %{{x:,}} tokens<extra></extra>",
        )
    fig.update_xaxes(type="log", dtick=1, range=[3, log10(int(curve.max_total_num_tokens.max()))])
    fig.update_yaxes(type="log", dtick=1)
    _name_lines(fig, curve)
    return fig


def _name_lines(fig: go.Figure, curve: DataFrame) -> None:
    """Each rule's name and last ceiling at the right of its line, neighbours moved apart."""
    last = curve.groupby("rule").max_num_tokens.last().sort_values()
    shift = dict(zip(last.index, (-18, 0, 18, 0), strict=False))
    for rule, tokens in last.items():
        grows = curve[curve.rule == rule].max_num_tokens.nunique() > 1
        fig.add_annotation(
            text=f"{rule}: the pool" if grows else f"{rule}: {tokens:,}",
            x=1.01,
            xref="paper",
            xanchor="left",
            y=log10(tokens),
            yshift=shift[rule],
            showarrow=False,
            font={"color": ink(RULE_COLORS[str(rule)])},
        )


def overhead_by_model(prices: DataFrame) -> go.Figure:
    """Buffers of each rule as a share of the KV pool, one line a model.

    `prices`: model, rule, share, kv_bytes_per_token, in the order of the lines from the top.
    """
    percent = prices.assign(percent=100 * prices.share)
    pool = percent[percent.rule == "pr28894"].percent
    rest = percent[percent.rule != "pr28894"].percent
    fig = figure(
        f"The pool-sized rule takes {pool.min():.2g} to {pool.max():.2g} % of the KV pool, "
        f"the others {rest.min():.2g} to {rest.max():.2g} %",
        "bytes of the static buffers, % of the KV pool's on the same rank (log scale)",
        "",
        height=570,
        showlegend=True,
        legend=LEGEND,
        margin={"l": 250, "r": 30, "t": 95, "b": 75},
    )
    for rule, part in percent.groupby("rule", sort=False):
        fig.add_scatter(
            name=str(rule),
            mode="markers",
            x=[round(value, 6) for value in part.percent.tolist()],
            y=[f"{row.model} ({row.kv_bytes_per_token:,.0f} B)" for row in part.itertuples()],
            marker=_marker(str(rule)),
            hovertemplate=f"%{{y}}: %{{x:.3g}} %<extra>{rule}</extra>",
        )
    fig.update_xaxes(type="log", dtick=1)
    fig.update_yaxes(**{**AXIS, "autorange": "reversed", "ticks": ""})
    return fig


def _xy(part: DataFrame) -> dict[str, list[int]]:
    return {
        "x": [int(n) for n in part.max_total_num_tokens],
        "y": [int(n) for n in part.max_num_tokens],
    }


def _marker(rule: str) -> dict[str, Any]:
    color = RULE_COLORS[rule]
    return {"symbol": SYMBOLS[rule], "size": 9, "color": color, "line": {"width": 2}}
