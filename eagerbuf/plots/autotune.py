"""Figures of the autotune mis-shape: where it is, and what each of its consequences looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, ceiling, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

__all__ = ["collectives", "misalignment", "peak_load", "rarity"]

# aligned is grey, one token short already a colour
_SHORT = [[0, "#F2F2F2"], [0.001, "#FBD3B9"], [1, COLORS["overflow"]]]


def misalignment(table: DataFrame) -> go.Figure:
    """Tokens the dummy lacks, over max_running_requests and alignment, from a `misshape_table`.

    A ring marks a cell whose tuned bucket set differs from the live one.
    """
    grid = table.pivot(index="alignment", columns="max_running_requests", values="short_by")
    differing = table[table.tuned_set_differs]
    off, rare = int(table.misshaped.sum()), len(differing)
    rows = [str(alignment) for alignment in grid.index]
    fig = figure(
        f"{off:,} of {len(table):,} dummies are mis-shaped, {rare} tune another bucket set (rings)",
        "max_running_requests (requests on one rank)",
        "alignment (tokens)",
        height=440,
    )
    fig.add_heatmap(**_short(grid, rows))
    fig.add_scatter(
        x=differing.max_running_requests.tolist(),
        y=[str(alignment) for alignment in differing.alignment],
        mode="markers",
        marker={"symbol": "circle-open", "size": 11, "color": "#000000", "line": {"width": 2}},
        hovertemplate="%{x} requests, alignment %{y}: another bucket set<extra></extra>",
    )
    fig.update_yaxes(type="category", categoryorder="array", categoryarray=rows, showgrid=False)
    fig.update_xaxes(showgrid=False)
    return fig


def _short(grid: DataFrame, rows: list[str]) -> dict[str, Any]:
    """What each dummy lacks, as a map of alignment over requests."""
    return {
        "x": grid.columns.tolist(),
        "y": rows,
        "z": grid.to_numpy().tolist(),
        "colorscale": _SHORT,
        "colorbar": {"title": {"text": "tokens<br>short"}, "thickness": 12, "outlinewidth": 0},
        "xgap": 1,
        "ygap": 2,
        "hovertemplate": "%{x} requests, alignment %{y}: %{z} tokens short<extra></extra>",
    }


def collectives(table: DataFrame) -> go.Figure:
    """Who refused: one square a rank, collective and token count, from `run_collectives`."""
    lanes = [f"{row.collective}<br>{row.num_tokens:,} tokens" for row in table.itertuples()]
    told = [
        f"at {n:,} tokens {_refused(int((~done).sum()), len(done))}"
        for n, done in table.groupby("num_tokens").done
    ]
    fig = figure(
        ", ".join(told).capitalize(),
        "attention-TP rank",
        "",
        height=130 + 62 * len(set(lanes)),
        margin={"l": 210, "r": 30, "t": 70, "b": 65},
    )
    fig.add_scatter(**_calls(table, lanes))
    ranks = sorted(set(table["rank"].tolist()))
    fig.update_xaxes(tickvals=ranks, range=[min(ranks) - 0.5, max(ranks) + 0.5], showgrid=False)
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _calls(table: DataFrame, lanes: list[str]) -> dict[str, Any]:
    """A square a call, which says how it ended."""
    colors = [COLORS["fits" if done else "overflow"] for done in table.done]
    return {
        "x": table["rank"].tolist(),
        "y": lanes,
        "mode": "markers+text",
        "text": ["done" if done else "refused" for done in table.done],
        "textfont": {"color": "white", "size": 12},
        "customdata": [[error or "result as expected"] for error in table.error],
        "marker": {"symbol": "square", "size": 46, "color": colors},
        "hovertemplate": "rank %{x}: %{customdata[0]}<extra></extra>",
    }


def _refused(calls: int, of: int) -> str:
    if calls in (0, of):
        return "every call is refused" if calls else "none is"
    return f"{calls} of {of} calls are refused"


def peak_load(table: DataFrame) -> go.Figure:
    """Rows of the padded batch against the buffers of each rule, from `load_decode`.

    A point's colour says whether the buffers of the first rule hold it.
    """
    old = table[table.rule == table.rule.iloc[0]]
    raised = old[~old.loaded]
    fig = figure(
        _raising(table),
        "running requests on one rank",
        "requests in the batch after padding",
    )
    fig.add_scatter(**_loads(old))
    sides = ("bottom left", "top left", "bottom right", "top right")
    for at, (rule, part) in enumerate(table.groupby("rule", sort=False)):
        capacity, fits = int(part.max_bs.iloc[0]), bool(part.loaded.all())
        color = COLORS["fits" if fits else "overflow"]
        ceiling(fig, capacity, f"{rule}: {capacity:,} requests", color, sides[at % len(sides)])
    if len(raised):
        _name_raised(fig, raised)
    fig.update_yaxes(range=[int(old.bs.min()) - 3, int(table.max_bs.max()) + 3], tickformat=",")
    fig.update_xaxes(tickformat=",")
    return fig


def _raising(table: DataFrame) -> str:
    """How many loads raise under each rule, and from how many running requests on."""
    told = []
    for rule, part in table.groupby("rule", sort=False):
        raised = part[~part.loaded]
        first = raised.running_requests.min()
        since = f" (from {first:,} running requests on)" if len(raised) else ""
        told.append(f"{len(raised) or 'none'} under {rule}{since}")
    many, rest = told[0].split(" ", 1)
    told[0] = f"{many.capitalize()} of {len(part)} loads raise {rest}"
    return ", ".join(told)


def _loads(part: DataFrame) -> dict[str, Any]:
    """A point a load: orange where the copy raises."""
    colors = [COLORS["fits" if loaded else "overflow"] for loaded in part.loaded]
    return {
        "x": part.running_requests.tolist(),
        "y": part.bs.tolist(),
        "mode": "markers",
        "marker": {"size": 11, "color": colors},
        "customdata": [[error or "loaded"] for error in part.error],
        "hovertemplate": "%{x:,} running, %{y:,} padded: %{customdata[0]}<extra></extra>",
    }


def _name_raised(fig: go.Figure, raised: DataFrame) -> None:
    """Says in the picture what the orange points are."""
    fig.add_annotation(
        x=float(raised.running_requests.mean()),
        y=int(raised.bs.max()),
        text="the copy raises",
        font={"color": ink(COLORS["overflow"])},
        yshift=18,
        showarrow=False,
    )


def rarity(table: DataFrame) -> go.Figure:
    """Share of max_running_requests whose tuned set differs, a bar an alignment, from `rarity`."""
    two, other = table[table.power_of_two], table[~table.power_of_two]
    differ, pairs = int(two.tuned_set_differs.sum()), int(two.pairs.sum())
    fig = figure(
        f"With power-of-two alignments {differ:,} of {pairs:,} pairs tune another bucket set",
        "alignment (tokens)",
        "pairs with another set (%)",
        bargap=0.25,
    )
    for part, color, name in (
        (two, "fits", "power of two"),
        (other, "light", "any other number"),
    ):
        fig.add_bar(
            x=part.alignment.tolist(),
            y=(100 * part.tuned_set_differs / part.pairs).round(3).tolist(),
            name=name,
            marker={"color": COLORS[color], "line": {"width": 0}},
            customdata=part[["tuned_set_differs", "pairs"]].to_numpy().tolist(),
            hovertemplate="alignment %{x}: %{customdata[0]} of %{customdata[1]}<extra></extra>",
        )
    fig.update_layout(
        showlegend=True, legend={"x": 0.02, "y": 0.98, "title": {"text": "alignment is a"}}
    )
    fig.update_xaxes(tickvals=two.alignment.tolist())
    return fig
