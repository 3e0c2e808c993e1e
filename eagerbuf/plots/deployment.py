"""Figures of one deployment: its shapes against every ceiling, and what another chunk would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, RULE_COLORS, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


BAD = ("overflows", "hangs")
FAR = 4  # a ceiling this many times over what is looked at is named at the edge, not drawn


def shapes_of_one(shapes: DataFrame, rules: DataFrame, asked: str | None) -> go.Figure:
    """Largest batch of each producer, a bar each, against the ceiling of each rule.

    `shapes`: producer, num_tokens (missing ones are left out), copied. `rules`: rule,
    max_num_tokens. `asked`: the rule that bars are held against; None colours none of them.
    Bars and ceilings far over the others end at the edge, marked by an arrow.
    """
    known = shapes[shapes.num_tokens.notna() & shapes.copied]
    tokens = [int(n) for n in known.num_tokens]
    capacity = {rule: int(n) for rule, n in zip(rules.rule, rules.max_num_tokens, strict=True)}
    held = capacity.get(asked) if asked else None
    over = [held is not None and n > held for n in tokens]
    edge = _edge([*tokens, *capacity.values()])
    fig = figure(
        _verdict(over, asked),
        "tokens in the largest batch",
        "",
        height=170 + 50 * (len(known) + 1),
        margin={"l": 140, "r": 40, "t": 75 + 18 * len(capacity), "b": 65},
    )
    fig.update_layout(title={"y": 0.97, "yanchor": "top"})
    fig.add_bar(
        orientation="h",
        x=[min(n, edge) for n in tokens],
        y=known.producer.tolist(),
        text=[f"{n:,}{' →' if n > edge else ''}" for n in tokens],
        textposition="auto",
        insidetextanchor="start",
        customdata=tokens,
        marker={"color": [COLORS["overflow" if flag else "fits"] for flag in over]},
        hovertemplate="%{y}: %{customdata:,} tokens<extra></extra>",
    )
    for place, (rule, value) in enumerate(capacity.items()):
        _ceiling(fig, rule, value, edge, len(capacity) - place, bold=rule == asked)
    fig.update_xaxes(range=[0, edge], tickformat=",")
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _verdict(over: list[bool], asked: str | None) -> str:
    if asked is None:
        return "This release makes no static eager buffers"
    if any(over):
        verb = "overflows" if sum(over) == 1 else "overflow"
        return f"{sum(over)} of {len(over)} batch shapes {verb} the buffer of {asked}"
    return f"All {len(over)} batch shapes fit the buffer of {asked}"


def _edge(values: list[int]) -> int:
    """The end of the token axis: past every value that is not FAR over the next smaller ones."""
    ordered = sorted(n for n in values if n > 0) or [1]
    middle = ordered[len(ordered) // 2]
    return max(n for n in ordered if n <= FAR * middle) * 6 // 5 + 1


def _ceiling(fig: go.Figure, rule: str, value: int, edge: int, row: int, *, bold: bool) -> None:
    """A line at the capacity, its name above the plot in a row of its own."""
    if value <= 0:
        return
    color, far = RULE_COLORS.get(rule, COLORS["neutral"]), value > edge
    x = min(value, edge)
    text = f"{rule}: {value:,} tokens{' →' if far else ''}"
    fig.add_annotation(
        x=x,
        y=1.0,
        yref="paper",
        yanchor="bottom",
        xanchor="right" if x > edge / 2 else "left",
        yshift=18 * (row - 1),
        showarrow=False,
        text=f"<b>{text}</b>" if bold else text,
        font={"color": color},
    )
    if not far:
        line = {"color": color, "width": 4 if bold else 1.5, "dash": "dash"}
        fig.add_vline(x=value, line=line)


def what_if(frame: DataFrame) -> go.Figure:
    """Buffer and largest batch over the chunk, a slider for the release.

    Columns: release, chunk, capacity, largest (tokens), verdict.
    """
    names = frame.release.unique().tolist()
    parts = {name: frame[frame.release == name] for name in names}
    first = parts[names[0]]
    fig = figure(
        _told(names[0], first),
        "chunked_prefill_size of one rank (tokens)",
        "tokens in one batch",
        height=500,
        margin={"l": 80, "r": 30, "t": 70, "b": 140},
    )
    fig.add_scatter(
        name="buffer",
        line={"color": COLORS["neutral"], "dash": "dash", "shape": "linear"},
        **_line(first, "capacity"),
    )
    fig.add_scatter(
        name="largest batch that is copied (orange: overflows or hangs)",
        mode="markers",
        marker={"size": 11, "color": _verdicts(first)},
        **_line(first, "largest"),
    )
    fig.update_layout(
        sliders=[
            {
                "steps": _steps(parts),
                "currentvalue": {"prefix": "SGLang release: "},
                "pad": {"t": 55},
            }
        ],
        showlegend=True,
        legend={"x": 0.01, "y": 0.99},
    )
    fig.update_yaxes(rangemode="tozero", tickformat=",")
    fig.update_xaxes(rangemode="tozero", tickformat=",")
    return fig


def _told(name: str, part: DataFrame) -> str:
    """What one release does with the chunks, as a title."""
    bad = int(part.verdict.isin(BAD).sum())
    found = (
        f"{bad} of {len(part)} chunks overflow or hang" if bad else "no chunk overflows or hangs"
    )
    return f"{name}: {found}"


def _steps(parts: dict[str, DataFrame]) -> list[dict[str, Any]]:
    """A step of the slider for each release: other heights, texts, colours and title."""
    return [
        {
            "label": name.split(" ")[0],
            "method": "update",
            "args": [
                {
                    "y": [part.capacity.tolist(), part.largest.tolist()],
                    "text": [part.verdict.tolist()] * 2,
                    "marker.color": [COLORS["neutral"], _verdicts(part)],
                },
                {"title.text": _told(name, part)},
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
    bad = part.verdict.isin(BAD).tolist()
    return [COLORS["overflow" if flag else "fits"] for flag in bad]
