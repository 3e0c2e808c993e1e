"""Figure of the all-to-all workspace: released against tight, over ranks, chunks and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, COLORS, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

RELEASED = COLORS["overflow"]
TIGHT = (COLORS["probe"], COLORS["fits"], COLORS["neutral"], COLORS["accent"])
GB = 1e9


def workspace_by_ranks(frame: DataFrame) -> go.Figure:
    """Gigabytes of the workspace on each rank over ep_size, a button for each model.

    `frame`: model, ep_size, chunk, released_bytes, tight_bytes, as `workspace_table` makes it; the
    released size may not depend on the chunk.
    """
    models = list(frame.model.unique())
    fig = figure(
        _finding(frame[frame.model == models[0]]),
        "ranks of expert parallelism (ep_size)",
        "GB on each rank: released, or tight by chunk",
        height=500,
        margin={"l": 80, "r": 125, "t": 130, "b": 65},
        xaxis={**AXIS, "type": "category", "title": {"text": "expert-parallel ranks (ep_size)"}},
    )
    fig.update_layout(title={"y": 0.96, "yanchor": "top"})
    owners: list[str] = []
    for model in models:
        lines = _lines(frame[frame.model == model])
        fig.add_traces([{**line, "visible": model == models[0]} for line in lines])
        owners += [model] * len(lines)
    fig.update_yaxes(rangemode="tozero")
    fig.update_layout(updatemenus=[_menu(frame, models, owners)])
    return fig


def _finding(part: DataFrame) -> str:
    """What one model's lines show, between the least and the most ranks."""
    name, wasted = part.model.iloc[0], part.chunk[part.saved_bytes > 0]
    if not len(wasted):
        return f"{name}: every token of the workspace can be used, at any of these chunks"
    chunk = int(wasted.max())
    rows = part[part.chunk == chunk].sort_values("ep_size")
    saved = [f"{n / GB:.1f} GB at EP {ranks}" for n, ranks in _ends(rows)]
    return f"{name}: at least {' and '.join(saved)} on each rank hold no token"


def _ends(rows: DataFrame) -> list[tuple[int, int]]:
    ends = rows.iloc[[0, -1]]
    return list(zip(ends.saved_bytes.tolist(), ends.ep_size.tolist(), strict=True))


def _lines(part: DataFrame) -> list[dict[str, Any]]:
    """The released size once, then the tight one for each chunk, each named at its right end."""
    chunks = sorted(part.chunk.unique().tolist(), reverse=True)
    first = part[part.chunk == chunks[0]]
    lines = [_line(first, "released_bytes", "released", RELEASED)]
    for at, chunk in enumerate(chunks):
        label, color = f"chunk {chunk:,}", TIGHT[at % len(TIGHT)]
        lines.append(_line(part[part.chunk == chunk], "tight_bytes", label, color))
    return lines


def _line(rows: DataFrame, column: str, label: str, color: str) -> dict[str, Any]:
    sizes = [round(n / GB, 4) for n in rows[column].tolist()]
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": label,
        "x": [str(n) for n in rows.ep_size.tolist()],
        "y": sizes,
        "text": [""] * (len(sizes) - 1) + [f" {label}: {sizes[-1]:.1f}"],
        "textposition": "middle right",
        "textfont": {"color": ink(color)},
        "cliponaxis": False,
        "line": {"color": color, "width": 3 if column == "released_bytes" else 2},
        "hovertemplate": f"{label}, EP %{{x}}: %{{y:.2f}} GB<extra></extra>",
    }


def _menu(frame: DataFrame, models: list[str], owners: list[str]) -> dict[str, Any]:
    buttons = [
        {
            "label": model,
            "method": "update",
            "args": [
                {"visible": [owner == model for owner in owners]},
                {"title.text": _finding(frame[frame.model == model])},
            ],
        }
        for model in models
    ]
    place = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return {"type": "dropdown", "direction": "down", "buttons": buttons, **place}
