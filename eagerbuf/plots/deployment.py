"""Figures of one deployment: its shapes against every ceiling, and what another chunk would do."""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, RULE_COLORS, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


def shapes_of_one(shapes: DataFrame, rules: DataFrame, asked: str | None) -> go.Figure:
    """Largest batch of each producer, a bar each, against the ceiling of each rule.

    `shapes`: producer, num_tokens (missing ones are left out), copied. `rules`: rule,
    max_num_tokens. `asked`: the rule that bars are held against; None colours none of them.
    """
    known = shapes[shapes.num_tokens.notna() & shapes.copied]
    capacity = dict(zip(rules.rule, rules.max_num_tokens, strict=True))
    held = capacity.get(asked)
    over = [held is not None and tokens > held for tokens in known.num_tokens]
    count = f"{sum(over)} of {len(known)} batch shapes overflow"
    words = f"{count if any(over) else f'All {len(known)} batch shapes fit'} {asked}"
    fig = figure(
        words if asked else "This release makes no static eager buffers",
        "tokens in the largest batch (log scale)",
        "",
        height=140 + 55 * (len(known) + 1),
        margin={"l": 140, "r": 40, "t": 110, "b": 65},
    )
    fig.add_bar(
        orientation="h",
        x=[int(tokens) for tokens in known.num_tokens],
        y=known.producer.tolist(),
        text=[f"{int(tokens):,}" for tokens in known.num_tokens],
        textposition="auto",
        marker={"color": [COLORS["overflow" if flag else "fits"] for flag in over]},
        hovertemplate="%{y}: %{x:,} tokens<extra></extra>",
    )
    for place, (rule, value) in enumerate(capacity.items()):
        _ceiling(fig, rule, int(value), place, bold=rule == asked)
    most = max([*capacity.values(), *known.num_tokens, 10])
    fig.update_xaxes(type="log", dtick=1, range=[0, log10(1.3 * int(most))])
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _ceiling(fig: go.Figure, rule: str, value: int, place: int, *, bold: bool) -> None:
    if value <= 0:
        return
    color = RULE_COLORS.get(rule, COLORS["neutral"])
    fig.add_vline(x=value, line={"color": color, "width": 4 if bold else 1.5, "dash": "dash"})
    fig.add_annotation(
        x=0.02 + 0.25 * place,
        y=1.0,
        xref="paper",
        yref="paper",
        yanchor="bottom",
        xanchor="left",
        showarrow=False,
        text=f"{'<b>' if bold else ''}{rule}: {value:,}{'</b>' if bold else ''}",
        font={"color": color},
    )


def what_if(frame: DataFrame) -> go.Figure:
    """Buffer and largest batch over the chunk, a slider for the release.

    Columns: release, chunk, capacity, largest (tokens), verdict.
    """
    names = frame.release.unique().tolist()
    parts = {name: frame[frame.release == name] for name in names}
    first = parts[names[0]]
    fig = figure(
        "Another chunk, another release: orange overflows or hangs",
        "chunked_prefill_size of one rank (tokens)",
        "tokens",
        height=500,
        margin={"l": 80, "r": 30, "t": 70, "b": 140},
    )
    fig.add_scatter(
        name="buffer",
        line={"color": COLORS["neutral"], "dash": "dash", "shape": "linear"},
        **_line(first, "capacity"),
    )
    fig.add_scatter(
        name="largest batch",
        mode="markers",
        marker={"size": 11, "color": _verdicts(first)},
        **_line(first, "largest"),
    )
    fig.update_layout(
        sliders=[
            {"steps": _steps(parts), "currentvalue": {"prefix": "release "}, "pad": {"t": 55}}
        ],
        showlegend=True,
        legend={"x": 0.01, "y": 0.99},
    )
    fig.update_yaxes(rangemode="tozero")
    return fig


def _steps(parts: dict[str, DataFrame]) -> list[dict[str, Any]]:
    """A step of the slider for each release: other heights, texts and colours."""
    return [
        {
            "label": name.split(" ")[0],
            "method": "restyle",
            "args": [
                {
                    "y": [part.capacity.tolist(), part.largest.tolist()],
                    "text": [part.verdict.tolist()] * 2,
                    "marker.color": [COLORS["neutral"], _verdicts(part)],
                }
            ],
        }
        for name, part in parts.items()
    ]


def _line(part: DataFrame, column: str) -> dict[str, Any]:
    return {
        "x": part.chunk.tolist(),
        "y": part[column].tolist(),
        "text": part.verdict.tolist(),
        "hovertemplate": "chunk %{x:,}: %{y:,} tokens, %{text}<extra></extra>",
    }


def _verdicts(part: DataFrame) -> list[str]:
    bad = part.verdict.isin(["overflows", "hangs"]).tolist()
    return [COLORS["overflow" if flag else "fits"] for flag in bad]
