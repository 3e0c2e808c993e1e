"""Figures of the fix: actual batch shapes against the ceilings, and what each rule costs."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, COLORS, RULE_COLORS, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

SYMBOLS = {
    "prefill": "circle-open",
    "mixed": "diamond-open",
    "decode": "square-open",
    "probe": "x-thin-open",
}

# 0 fits, 1 overflows
SCALE = {
    "cmin": 0,
    "cmax": 1,
    "colorscale": [[0, COLORS["fits"]], [1, COLORS["overflow"]]],
    "showscale": False,
}


def shapes_and_ceilings(batches: DataFrame, ceilings: DataFrame) -> go.Figure:
    """Every batch shape against the ceiling of each rule, buttons for deployment and rule.

    `batches`: deployment, kind (prefill | mixed | decode | probe), num_tokens, bs, one row a
    distinct shape. `ceilings`: deployment, rule, max_num_tokens, max_bs. Requests on a log scale;
    a ceiling far to the right of every batch is drawn to the edge.
    """
    names, rules = list(batches.deployment.unique()), list(ceilings.rule.unique())
    y_title = "requests in the batch (log scale)"
    fig = figure(
        "Buffers before #28677 are outgrown; every later ceiling holds every batch",
        "tokens in the batch",
        y_title,
        height=580,
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0.45},
        margin={"l": 80, "r": 30, "t": 175, "b": 65},
        yaxis={**AXIS, "type": "log", "dtick": 1, "title": {"text": y_title}},
    )
    fig.update_layout(title={"y": 0.97, "yanchor": "top"})
    fig.update_xaxes(range=_reach(batches, names[0]))
    fig.update_yaxes(range=[-0.15, log10(2 * int(ceilings.max_bs.max()))])
    for name in names:
        for _, part in _kinds(batches, name):
            fig.add_scatter(**_points(part), visible=name == names[0])
        for row in ceilings[ceilings.deployment == name].itertuples():
            fig.add_scatter(**_box(row, _reach(batches, name)[1]), visible=name == names[0])
    _restyle(fig, _by_rule(batches, ceilings, names, rules[0]))
    fig.update_layout(updatemenus=_menus(batches, ceilings, names, rules))
    return fig


def bytes_per_rule(frame: DataFrame) -> go.Figure:
    """Device bytes under each rule: columns deployment, rule, nbytes; bars on a log scale."""
    fig = figure(
        "The pool-sized rule takes tens of megabytes and more, the others about one or less",
        "megabytes of static buffers on one rank (log scale)",
        "",
        height=470,
        barmode="group",
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        margin={"l": 220, "r": 60, "t": 95, "b": 65},
    )
    for rule, part in frame.groupby("rule", sort=False):
        megabytes = [n / 1e6 for n in part.nbytes.tolist()]
        fig.add_bar(
            name=str(rule),
            orientation="h",
            y=part.deployment.tolist(),
            x=megabytes,
            text=[f"{value:.3g} MB" for value in megabytes],
            textposition="outside",
            marker={"color": RULE_COLORS[str(rule)]},
            hovertemplate=f"%{{y}}: %{{x:.3f}} MB<extra>{rule}</extra>",
        )
    fig.update_xaxes(type="log", dtick=1, range=[-1.2, 2.8])
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _kinds(batches: DataFrame, name: str) -> list[tuple[str, DataFrame]]:
    distinct = batches[["deployment", "kind", "num_tokens", "bs"]].drop_duplicates()
    own = distinct[distinct.deployment == name]
    return [(kind, own[own.kind == kind]) for kind in SYMBOLS if (own.kind == kind).any()]


def _points(part: DataFrame) -> dict[str, Any]:
    kind = part.kind.iloc[0]
    return {
        "x": part.num_tokens.tolist(),
        "y": part.bs.tolist(),
        "name": kind,
        "mode": "markers",
        "marker": {"symbol": SYMBOLS[kind], "size": 7, **SCALE},
        "hovertemplate": f"{kind}: %{{x:,}} tokens, %{{y:,}} requests<extra></extra>",
    }


def _reach(batches: DataFrame, name: str) -> list[int]:
    """Range of the token axis: a fifth more than the largest batch."""
    return [0, int(batches[batches.deployment == name].num_tokens.max()) * 6 // 5]


def _box(row: Any, edge: int) -> dict[str, Any]:
    """The corner of a ceiling: nothing to its right or above it fits."""
    end = min(row.max_num_tokens, edge)
    label = f"{row.rule}: {row.max_num_tokens:,} tokens, {row.max_bs:,} requests"
    return {
        "x": [0, end, row.max_num_tokens],
        "y": [row.max_bs, row.max_bs, 1 if end == row.max_num_tokens else row.max_bs],
        "text": ["", label, ""],
        "textposition": "top left",
        "textfont": {"color": RULE_COLORS[row.rule]},
        "line": {"color": RULE_COLORS[row.rule], "width": 1},
        "mode": "lines",
        "showlegend": False,
        "hovertemplate": f"{label}<extra></extra>",
    }


def _by_rule(
    batches: DataFrame, ceilings: DataFrame, names: list[str], rule: str
) -> dict[str, list[Any]]:
    """What a rule's button changes, a value per trace: colours of points, weight of ceilings."""
    colors: list[Any] = []
    widths: list[int] = []
    modes: list[str] = []
    for name in names:
        own = ceilings[ceilings.deployment == name]
        held = own[own.rule == rule].iloc[0]
        for _, part in _kinds(batches, name):
            over = (part.num_tokens > held.max_num_tokens) | (part.bs > held.max_bs)
            colors.append([int(flag) for flag in over])
            widths.append(1)
            modes.append("markers")
        for other in own.rule:
            colors.append(COLORS["neutral"])
            widths.append(4 if other == rule else 1)
            modes.append("lines+text" if other == rule else "lines")
    return {"marker.color": colors, "line.width": widths, "mode": modes}


def _restyle(fig: go.Figure, values: dict[str, list[Any]]) -> None:
    for trace, color, width, mode in zip(fig.data, *values.values(), strict=True):
        trace.mode = mode
        if mode == "markers":
            trace.marker.color = color
        else:
            trace.line.width = width


def _menus(
    batches: DataFrame, ceilings: DataFrame, names: list[str], rules: list[str]
) -> list[dict[str, Any]]:
    owner = [
        name
        for name in names
        for _ in range(len(_kinds(batches, name)) + int((ceilings.deployment == name).sum()))
    ]
    deployments = [
        {
            "label": name,
            "method": "update",
            "args": [
                {"visible": [o == name for o in owner]},
                {"xaxis.range": _reach(batches, name)},
            ],
        }
        for name in names
    ]
    by_rule = [
        {
            "label": rule,
            "method": "restyle",
            "args": [_by_rule(batches, ceilings, names, rule)],
        }
        for rule in rules
    ]
    place = {"direction": "right", "xanchor": "left", "yanchor": "bottom", "type": "buttons"}
    return [
        {**place, "buttons": deployments, "x": 0, "y": 1.18, "font": {"size": 11}},
        {**place, "buttons": by_rule, "x": 0, "y": 1.06, "font": {"size": 11}},
    ]
