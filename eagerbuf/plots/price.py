"""Figures of the price: ceilings against the KV pool, and buffers as a share of it by model."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, figure, ink, rule_color

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame, Series

# a rule that is not named here gets the look of OTHER
OTHER = ("longdashdot", "diamond-open")
DASHES = {"pr28386": "dot", "pr28677": "dash", "pr28894": "solid", "tight": "solid"}
SYMBOLS = {
    "pr28386": "triangle-left-open",
    "pr28677": "circle-open",
    "pr28894": "square-open",
    "tight": "cross-thin-open",
}
MARKED = ("pr28894", "tight")
CLOSE = 0.2  # decades: names of ceilings nearer than that would overlap
LEGEND = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}


def ceiling_against_pool(curve: DataFrame, prices: DataFrame) -> go.Figure:
    """Token ceiling of every rule over the KV pool: lines for one deployment, marks for all.

    `curve`: rule, max_total_num_tokens, max_num_tokens; `prices`: those and deployment. Both axes
    are in tokens, on a log scale; a line is named at its right end. Marks are those of two rules:
    the others' would lie on the tight one's.
    """
    fig = figure(
        _grown(curve),
        "KV pool, tokens (max_total_num_tokens, log scale)",
        "buffer, tokens (max_num_tokens, log scale)",
        height=480,
        margin={"l": 80, "r": 150, "t": 70, "b": 65},
    )
    for rule, part in curve.groupby("rule", sort=False):
        name = str(rule)
        line = {"color": rule_color(name), "dash": DASHES.get(name, OTHER[0]), "width": 2}
        fig.add_scatter(**_xy(part), mode="lines", name=name, line=line, hoverinfo="skip")
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


def _growing(curve: DataFrame) -> list[str]:
    """The rules whose ceiling is not the same for every pool."""
    sizes = curve.groupby("rule", sort=False).max_num_tokens.nunique()
    return [str(rule) for rule, different in sizes.items() if different > 1]


def _grown(curve: DataFrame) -> str:
    growing = _growing(curve)
    many = {0: "No ceiling grows", 1: "One ceiling grows"}
    told = many.get(len(growing), f"{len(growing)} ceilings grow") + " with the KV pool"
    if "tight" in growing:
        return f"{told}, and so does what the scheduler can send"
    return f"{told}; what the scheduler can send does not"


def _name_lines(fig: go.Figure, curve: DataFrame) -> None:
    """Each rule's name and last ceiling at the right of its line, neighbours moved apart."""
    last = curve.groupby("rule").max_num_tokens.last().sort_values()
    growing, shift = _growing(curve), _apart(last)
    for rule, tokens in last.items():
        fig.add_annotation(
            text=f"{rule}: the pool" if rule in growing else f"{rule}: {tokens:,}",
            x=1.01,
            xref="paper",
            xanchor="left",
            y=log10(tokens),
            yshift=shift[str(rule)],
            showarrow=False,
            font={"color": ink(rule_color(str(rule)))},
        )


def _apart(last: Series[int]) -> dict[str, int]:
    """Pixels that move each rule's name, so that those of close ceilings stand one over another.

    `last`: each rule's ceiling, the lowest first.
    """
    groups: list[list[str]] = []
    before = 0
    for rule, tokens in last.items():
        if not groups or tokens > before * 10**CLOSE:
            groups.append([])
        groups[-1].append(str(rule))
        before = tokens
    return {
        rule: 18 * at - 9 * (len(group) - 1) for group in groups for at, rule in enumerate(group)
    }


def overhead_by_model(prices: DataFrame) -> go.Figure:
    """Buffers of each rule as a share of the KV pool, one line a model.

    `prices`: model, rule, share, kv_bytes_per_token, in the order of the lines from the top.
    """
    percent = prices.assign(percent=100 * prices.share)
    fig = figure(
        _taken(percent),
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


def _taken(percent: DataFrame) -> str:
    pool = percent[percent.rule == "pr28894"].percent
    rest = percent[percent.rule != "pr28894"].percent
    return (
        f"The pool-sized rule takes {pool.min():.2g} to {pool.max():.2g} % of the KV pool, "
        f"the others {rest.min():.2g} to {rest.max():.2g} %"
    )


def _xy(part: DataFrame) -> dict[str, list[int]]:
    return {
        "x": [int(n) for n in part.max_total_num_tokens],
        "y": [int(n) for n in part.max_num_tokens],
    }


def _marker(rule: str) -> dict[str, Any]:
    symbol = SYMBOLS.get(rule, OTHER[1])
    return {"symbol": symbol, "size": 9, "color": rule_color(rule), "line": {"width": 2}}
