"""Figures of one deployment: its shapes against every ceiling, and what another chunk would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, RULE_COLORS, figure, ink

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
        height=135 + 50 * len(known) + 22 * (len(capacity) + 1),
        margin={"l": 140, "r": 40, "t": 60, "b": 65},
    )
    fig.add_bar(y=known.producer.tolist(), **_bars(tokens, over, edge))
    for place, (rule, value) in enumerate(capacity.items()):
        _ceiling(fig, rule, value, edge, -0.75 - 0.42 * place, bold=rule == asked)
    fig.update_xaxes(range=[0, edge], tickformat=",")
    fig.update_yaxes(range=[len(known) - 0.5, -0.7 - 0.42 * len(capacity)], showgrid=False)
    return fig


def _bars(tokens: list[int], over: list[bool], edge: int) -> dict[str, Any]:
    """A bar a producer, ended at the edge."""
    return {
        "orientation": "h",
        "x": [min(n, edge) for n in tokens],
        "text": [f"{n:,}{' →' if n > edge else ''}" for n in tokens],
        "textposition": "auto",
        "insidetextanchor": "start",
        "customdata": tokens,
        "marker": {"color": [COLORS["overflow" if flag else "fits"] for flag in over]},
        "hovertemplate": "%{y}: %{customdata:,} tokens<extra></extra>",
    }


def _verdict(over: list[bool], asked: str | None) -> str:
    if asked is None:
        return "This release makes no static eager buffers"
    if any(over):
        verb = "overflows" if sum(over) == 1 else "overflow"
        return f"{sum(over)} of {len(over)} copied batch shapes {verb} the buffer of {asked}"
    return f"All {len(over)} copied batch shapes fit the buffer of {asked}"


def _edge(values: list[int]) -> int:
    """The end of the token axis: past every value that is not FAR over the next smaller ones."""
    ordered = sorted(n for n in values if n > 0) or [1]
    middle = ordered[len(ordered) // 2]
    return max(n for n in ordered if n <= FAR * middle) * 6 // 5 + 1


def _ceiling(fig: go.Figure, rule: str, value: int, edge: int, row: float, *, bold: bool) -> None:
    """A line at the capacity, its name over the bars in a row of its own."""
    if value <= 0:
        return
    color, far = RULE_COLORS.get(rule, COLORS["neutral"]), value > edge
    x = min(value, edge)
    left = x > edge / 2  # of its line is where its name stands
    text = f"{rule}: {value:,} tokens{' →' if far else ''}"
    fig.add_annotation(
        x=x,
        y=row,
        xanchor="right" if left else "left",
        xshift=-5 if left else 5,
        showarrow=False,
        text=f"<b>{text}</b>" if bold else text,
        font={"color": ink(color)},
        bgcolor="white",
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
        _told(frame),
        "chunked_prefill_size of one rank (tokens)",
        "tokens in one batch",
        height=500,
        margin={"l": 80, "r": 30, "t": 70, "b": 140},
    )
    _buffer_and_largest(fig, first)
    slider = {"steps": _steps(parts), "currentvalue": {"prefix": "SGLang release: "}}
    fig.update_layout(
        sliders=[{**slider, "pad": {"t": 55}}], showlegend=True, legend={"x": 0.01, "y": 0.99}
    )
    fig.update_yaxes(rangemode="tozero", tickformat=",")
    fig.update_xaxes(rangemode="tozero", tickformat=",")
    return fig


def _buffer_and_largest(fig: go.Figure, part: DataFrame) -> None:
    """What one release holds and gets, over the chunk."""
    fig.add_scatter(
        name="buffer",
        line={"color": COLORS["neutral"], "dash": "dash", "shape": "linear"},
        **_line(part, "capacity"),
    )
    fig.add_scatter(
        name="largest batch that is copied (orange: overflows or hangs)",
        mode="markers",
        marker={"size": 11, "color": _verdicts(part)},
        **_line(part, "largest"),
    )


def _told(frame: DataFrame) -> str:
    """How many pairs of chunk and release go wrong, and where, as a title."""
    bad = frame[frame.verdict.isin(BAD)]
    if bad.empty:
        return f"None of {len(frame)} pairs of chunk and release overflows or hangs"
    found = f"{len(bad)} of {len(frame)} pairs of chunk and release overflow or hang"
    releases = bad.release.unique()
    return f"{found}, all in {releases[0]}" if len(releases) == 1 else found


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
    bad = part.verdict.isin(BAD).tolist()
    return [COLORS["overflow" if flag else "fits"] for flag in bad]
