"""Figures of the autotune mis-shape: where it is, and what each of its consequences looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, ceiling, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

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
    fig.add_heatmap(
        x=grid.columns.tolist(),
        y=rows,
        z=grid.to_numpy().tolist(),
        colorscale=_SHORT,
        colorbar={"title": {"text": "tokens<br>short"}, "thickness": 12, "outlinewidth": 0},
        xgap=1,
        ygap=2,
        hovertemplate="%{x} requests, alignment %{y}: %{z} tokens short<extra></extra>",
    )
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
    fig.add_scatter(
        x=table["rank"].tolist(),
        y=lanes,
        mode="markers+text",
        text=["done" if done else "refused" for done in table.done],
        textfont={"color": "white", "size": 12},
        customdata=[[error or "result as expected"] for error in table.error],
        marker={
            "symbol": "square",
            "size": 46,
            "color": [COLORS["fits" if done else "overflow"] for done in table.done],
        },
        hovertemplate="rank %{x}: %{customdata[0]}<extra></extra>",
    )
    ranks = sorted(set(table["rank"].tolist()))
    fig.update_xaxes(tickvals=ranks, range=[min(ranks) - 0.5, max(ranks) + 0.5], showgrid=False)
    fig.update_yaxes(autorange="reversed", showgrid=False)
    return fig


def _refused(calls: int, of: int) -> str:
    if calls in (0, of):
        return "every call is refused" if calls else "none is"
    return f"{calls} of {of} calls are refused"


def peak_load(table: DataFrame) -> go.Figure:
    """Rows of the padded batch against the buffers of each rule, from `load_decode`."""
    old = table[table.rule == table.rule.iloc[0]]
    raised = old[~old.loaded]
    first = f" from {raised.running_requests.min():,} running requests on" if len(raised) else ""
    fig = figure(
        f"Sized the old way, {len(raised)} of {len(old)} loads raise{first}; the new way, none"
        if table[table.rule != table.rule.iloc[0]].loaded.all()
        else f"{len(table[~table.loaded])} of {len(table)} loads raise",
        "running requests on one rank",
        "requests in the batch after padding",
    )
    fig.add_scatter(
        x=old.running_requests.tolist(),
        y=old.bs.tolist(),
        mode="markers",
        marker={"size": 11, "color": [COLORS["fits" if ok else "overflow"] for ok in old.loaded]},
        customdata=[[error or "loaded"] for error in old.error],
        hovertemplate="%{x:,} running, %{y:,} padded: %{customdata[0]}<extra></extra>",
    )
    sides = ("bottom left", "top left")
    for side, (rule, part) in zip(sides, table.groupby("rule", sort=False), strict=False):
        capacity, fits = int(part.max_bs.iloc[0]), bool(part.loaded.all())
        color = COLORS["fits" if fits else "overflow"]
        ceiling(fig, capacity, f"{rule}: {capacity:,} requests", color, side)
    if len(raised):
        _name_raised(fig, raised)
    fig.update_yaxes(range=[int(old.bs.min()) - 3, int(table.max_bs.max()) + 3], tickformat=",")
    fig.update_xaxes(tickformat=",")
    return fig


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
        f"Power-of-two alignments hardly ever tune another bucket set: {differ} of {pairs:,} pairs",
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


def regret(cases: DataFrame, summary: DataFrame) -> go.Figure:
    """Each tactic's time at the live shape relative to the best, the kept one ringed.

    `cases` from `regrets`; bars span the quartiles of the measured rounds (`Timings.summary`).
    """
    worst = float(cases.regret_percent.max())
    fig = figure(
        f"The tactic kept for the dummy costs at most {worst:.0f} % at the live shape",
        "bucket tuned for the dummy → live tokens",
        "time at the live shape,<br>best tactic = 1 (log scale)",
        height=470,
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        margin={"l": 90, "r": 30, "t": 100, "b": 65},
    )
    fig.update_layout(title={"y": 0.97, "yanchor": "top"})
    tactics = summary.tactic.unique().tolist()
    lanes = {name: (at + 0.5) / len(tactics) - 0.5 for at, name in enumerate(tactics)}
    for at, name in enumerate(tactics):
        part = summary[summary.tactic == name].set_index("num_tokens")
        fig.add_scatter(**_tactic(name, part, cases, 0.8 * lanes[name]), marker=_marker(at))
    fig.add_scatter(
        name="kept for the dummy",
        x=[at + 0.8 * lanes[name] for at, name in enumerate(cases.kept)],
        y=(cases.kept_ms / cases.best_ms).tolist(),
        mode="markers",
        marker={"symbol": "circle-open", "size": 18, "color": "#000000", "line": {"width": 2}},
        hovertemplate="%{y:.3f} times the best<extra>kept</extra>",
    )
    labels = [f"{row.dummy_bucket:,} → {row.live_tokens:,}" for row in cases.itertuples()]
    fig.update_xaxes(tickvals=list(range(len(labels))), ticktext=labels, showgrid=False)
    for between in range(1, len(labels)):
        fig.add_vline(x=between - 0.5, line={"color": COLORS["light"], "width": 1})
    fig.update_yaxes(type="log", tickvals=[1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32])
    return fig


def _marker(at: int) -> dict[str, Any]:
    names = ("fits", "probe", "gold", "accent", "sky", "neutral")
    symbols = ("circle", "square", "diamond", "triangle-up", "x", "cross")
    return {"size": 9, "color": COLORS[names[at % 6]], "symbol": symbols[at % 6]}


def _tactic(name: str, at: DataFrame, cases: DataFrame, lane: float) -> dict[str, Any]:
    """One tactic's medians and quartiles at the live counts, relative to the best there."""
    live = at.loc[cases.live_tokens.tolist()]
    best = cases.best_ms.to_numpy()
    middle, low, high = (live[c].to_numpy() / best for c in ("median_ms", "low_ms", "high_ms"))
    return {
        "name": name,
        "x": [place + lane for place in range(len(cases))],
        "y": middle.tolist(),
        "error_y": {
            "symmetric": False,
            "array": (high - middle).tolist(),
            "arrayminus": (middle - low).tolist(),
            "thickness": 1.2,
        },
        "mode": "markers",
        "hovertemplate": f"%{{y:.3f}} times the best<extra>{name}</extra>",
    }
