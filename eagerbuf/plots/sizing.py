"""Figures of the fix: actual batch shapes against the ceilings, and what each rule costs."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, COLORS, figure, ink, rule_color

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

SYMBOLS = {
    "prefill": "circle-open",
    "mixed": "diamond-open",
    "decode": "square-open",
    "probe": "x",
    "idle": "triangle-up-open",
}

# where a ceiling's label stands: how high on the log axis, and on which side of its line
LABELS = {
    "pr28386": (0.85, "left"),
    "tight": (0.7, "left"),
    "pr28677": (0.55, "right"),
    "pr28894": (0.4, "left"),
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
        _outgrown(batches, ceilings, names[0]),
        "tokens in the batch",
        y_title,
        height=575,
        showlegend=True,
        legend={"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0},
        margin={"l": 80, "r": 30, "t": 150, "b": 110},
        yaxis={**AXIS, "type": "log", "dtick": 1, "title": {"text": y_title}},
    )
    fig.update_layout(title={"y": 0.97, "yanchor": "top"})
    fig.update_xaxes(range=_reach(batches, names[0]), tickformat=",")
    fig.update_yaxes(range=[-0.15, log10(2 * int(ceilings.max_bs.max()))])
    for name in names:
        for row in ceilings[ceilings.deployment == name].itertuples():
            fig.add_scatter(**_box(row, _reach(batches, name)[1]), visible=name == names[0])
        for _, part in _kinds(batches, name):
            fig.add_scatter(**_points(part), visible=name == names[0])
    _explain_orange(fig)
    _restyle(fig, _by_rule(batches, ceilings, names, rules[0]))
    fig.update_layout(updatemenus=_menus(batches, ceilings, names, rules))
    return fig


def _outgrown(batches: DataFrame, ceilings: DataFrame, name: str) -> str:
    """Which rules' ceilings some batch of a deployment is over."""
    own, most = ceilings[ceilings.deployment == name], batches[batches.deployment == name]
    over = (own.max_num_tokens < most.num_tokens.max()) | (own.max_bs < most.bs.max())
    rules = own.rule[over].unique().tolist()
    if not rules:
        return f"{name}: every buffer holds every batch"
    told = f"{name}: the buffer of {rules[0]} is outgrown"
    if len(rules) > 1:
        told = f"{name}: the buffers of {' and '.join(rules)} are outgrown"
    return told if len(rules) == len(own) else f"{told}, the others hold every batch"


def bytes_per_rule(frame: DataFrame) -> go.Figure:
    """Device bytes under each rule: columns deployment, rule, nbytes; a bar each."""
    pool = frame.nbytes.where(frame.rule == "pr28894") / 1e6
    others = frame.nbytes.where(frame.rule != "pr28894").max() / 1e6
    fig = figure(
        f"The pool-sized rule pr28894 takes {pool.min():.0f} to {pool.max():.0f} MB, "
        f"every other at most {others:.1f} MB",
        "megabytes of static buffers on one rank",
        "",
        height=470,
        barmode="group",
        margin={"l": 220, "r": 30, "t": 60, "b": 65},
    )
    for rule, part in frame.groupby("rule", sort=False):
        fig.add_bar(**_bar(str(rule), part))
    fig.update_xaxes(range=[0, 1.25 * frame.nbytes.max() / 1e6])
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _bar(rule: str, part: DataFrame) -> dict[str, Any]:
    megabytes, color = [n / 1e6 for n in part.nbytes.tolist()], rule_color(rule)
    return {
        "name": rule,
        "orientation": "h",
        "y": part.deployment.tolist(),
        "x": megabytes,
        "text": [f"{rule}: {value:.3g} MB" for value in megabytes],
        "textposition": "outside",
        "textfont": {"color": ink(color)},
        "marker": {"color": color},
        "hovertemplate": f"%{{y}}: %{{x:.3f}} MB<extra>{rule}</extra>",
    }


def _explain_orange(fig: go.Figure) -> None:
    """A legend entry for the colour of what does not fit; it has no point."""
    fig.add_scatter(
        x=[None],
        y=[None],
        name="does not fit the bold ceiling",
        mode="markers",
        marker={"symbol": "square", "size": 9, "color": COLORS["overflow"]},
    )


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
        "marker": {"symbol": SYMBOLS[kind], "opacity": 1, **SCALE},
        "hovertemplate": f"{kind}: %{{x:,}} tokens, %{{y:,}} requests<extra></extra>",
    }


def _reach(batches: DataFrame, name: str) -> list[int]:
    """Range of the token axis: a third more than the largest batch, room for labels."""
    return [0, int(batches[batches.deployment == name].num_tokens.max()) * 4 // 3]


def _box(row: Any, edge: int) -> dict[str, Any]:
    """The corner of a ceiling: nothing to its right or above it fits. Its label is beside it."""
    end, far = min(row.max_num_tokens, edge), row.max_num_tokens > edge
    height, side = LABELS.get(row.rule, (0.5, "left"))
    label = f"{row.rule}: {row.max_num_tokens:,}{' →' if far else ''}"
    middle = row.max_bs if far else max(row.max_bs**height, 1)
    return {
        "x": [0, end, end, row.max_num_tokens],
        "y": [row.max_bs, row.max_bs, middle, row.max_bs if far else 1],
        "text": ["", "", f" {label} ", ""],
        "textposition": "top left" if far else f"middle {side}",
        "textfont": {"color": ink(rule_color(row.rule)), "size": 13},
        "line": {"color": rule_color(row.rule), "width": 1},
        "mode": "lines+text",
        "showlegend": False,
        "hovertemplate": f"{label} tokens, {row.max_bs:,} requests<extra></extra>",
    }


def _by_rule(
    batches: DataFrame, ceilings: DataFrame, names: list[str], rule: str
) -> dict[str, list[Any]]:
    """What a rule's button changes, a value per trace: its points, the weight of its ceilings."""
    colors: list[Any] = []
    sizes: list[Any] = []
    widths: list[int] = []
    for name in names:
        own = ceilings[ceilings.deployment == name]
        held = own[own.rule == rule].iloc[0]
        colors += [COLORS["neutral"]] * len(own)
        sizes += [7] * len(own)
        widths += [4 if other == rule else 1 for other in own.rule]
        for _, part in _kinds(batches, name):
            over = (part.num_tokens > held.max_num_tokens) | (part.bs > held.max_bs)
            colors.append([int(flag) for flag in over])
            sizes.append([10 if flag else 7 for flag in over])
            widths.append(1)
    return {
        "marker.color": [*colors, COLORS["overflow"]],
        "marker.size": [*sizes, 9],
        "line.width": [*widths, 1],
    }


def _restyle(fig: go.Figure, values: dict[str, list[Any]]) -> None:
    for trace, color, size, width in zip(fig.data, *values.values(), strict=True):
        if trace.mode == "markers":
            trace.marker.color, trace.marker.size = color, size
        else:
            trace.line.width = width


def _menus(
    batches: DataFrame, ceilings: DataFrame, names: list[str], rules: list[str]
) -> list[dict[str, Any]]:
    deployments = _by_deployment(batches, ceilings, names)
    by_rule = [
        {
            "label": f"against {rule}",
            "method": "restyle",
            "args": [_by_rule(batches, ceilings, names, rule)],
        }
        for rule in rules
    ]
    place = {"type": "buttons", "direction": "right", "x": 0, "xanchor": "left"}
    place |= {"yanchor": "bottom", "font": {"size": 11}}
    return [
        {**place, "buttons": deployments, "name": "Deployment", "y": 1.16},
        {**place, "buttons": by_rule, "name": "Batches held", "y": 1.03},
    ]


def _by_deployment(
    batches: DataFrame, ceilings: DataFrame, names: list[str]
) -> list[dict[str, Any]]:
    """A button a deployment: its own traces, the legend's entry, and the reach of its axis."""
    owner = [
        name
        for name in names
        for _ in range(len(_kinds(batches, name)) + int((ceilings.deployment == name).sum()))
    ]
    return [
        {
            "label": name,
            "method": "update",
            "args": [
                {"visible": [*(o == name for o in owner), True]},
                {
                    "xaxis.range": _reach(batches, name),
                    "title.text": _outgrown(batches, ceilings, name),
                },
            ],
        }
        for name in names
    ]
