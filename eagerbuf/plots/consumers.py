"""Figure of the all-to-all workspace: released against tight, over ranks, chunks and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, COLORS, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

GB = 1e9


def workspace_by_ranks(frame: DataFrame, first: str, chunk: int) -> go.Figure:
    """Gigabytes of the workspace on each rank over ep_size at one chunk, a button for each model.

    `frame`: model, ep_size, chunk, released_bytes, tight_bytes, saved_bytes, as `workspace_table`
    makes it; `first`: the model that is shown.
    """
    parts = {str(name): part for name, part in frame[frame.chunk == chunk].groupby("model")}
    models = sorted(parts, key=lambda name: (name != first, name))
    fig = figure(
        _finding(parts[models[0]]),
        "expert-parallel ranks (ep_size)",
        "workspace on each rank (GB)",
        height=470,
        margin={"l": 80, "r": 125, "t": 130, "b": 65},
        xaxis={**AXIS, "type": "category", "title": {"text": "expert-parallel ranks (ep_size)"}},
    )
    fig.update_layout(title={"y": 0.96, "yanchor": "top"})
    fig.add_traces(
        [
            {**line, "visible": name == models[0]}
            for name in models
            for line in (
                _line(parts[name], "released", COLORS["overflow"]),
                _line(parts[name], "tight", COLORS["probe"]),
            )
        ]
    )
    fig.update_yaxes(rangemode="tozero")
    fig.update_layout(updatemenus=[_menu(parts, models)])
    return fig


def _finding(part: DataFrame) -> str:
    """What one model's lines show, between the fewest and the most ranks."""
    name, chunk, ends = part.model.iloc[0], int(part.chunk.iloc[0]), part.iloc[[0, -1]]
    if not part.saved_bytes.any():
        return f"{name}, chunk {chunk:,}: every token of the workspace can be used"
    saved = [f"{row.saved_bytes / GB:.1f} GB at EP {row.ep_size}" for row in ends.itertuples()]
    return f"{name}, chunk {chunk:,}: {' and '.join(saved)} on each rank hold no token"


def _line(rows: DataFrame, size: str, color: str) -> dict[str, Any]:
    """One size over the ranks, named at its right end."""
    sizes = [round(n / GB, 4) for n in rows[f"{size}_bytes"].tolist()]
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": size,
        "x": [str(n) for n in rows.ep_size.tolist()],
        "y": sizes,
        "text": [""] * (len(sizes) - 1) + [f" {size}: {sizes[-1]:.1f}"],
        "textposition": "middle right",
        "textfont": {"color": ink(color)},
        "cliponaxis": False,
        "line": {"color": color, "width": 3},
        "hovertemplate": f"{size}, EP %{{x}}: %{{y:.2f}} GB<extra></extra>",
    }


def _menu(parts: dict[str, DataFrame], models: list[str]) -> dict[str, Any]:
    buttons = [
        {
            "label": model,
            "method": "update",
            "args": [
                {"visible": [shown == model for shown in models for _ in range(2)]},
                {"title.text": _finding(parts[model])},
            ],
        }
        for model in models
    ]
    place = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return {"type": "dropdown", "direction": "down", "buttons": buttons, **place}
