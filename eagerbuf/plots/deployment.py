"""Figures of one deployment: its shapes against every ceiling, and what another chunk would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import COLORS, RULE_COLORS, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


BAD = ("overflows", "hangs")
FAR = 4  # a ceiling this many times over what is looked at is named at the edge, not drawn


def shapes_of_one(
    shapes: DataFrame, rules: DataFrame, asked: str | None, verdict: str
) -> go.Figure:
    """Largest batch of each producer, a bar each, against the ceiling of each rule.

    `shapes`: producer, num_tokens (missing ones are left out), copied, in_scheduler. `rules`:
    rule, max_num_tokens, at_least. `asked`: the rule that bars are held against, None for none;
    `verdict`: what `check` says under it. Bars and ceilings far over the others end at the edge,
    marked by an arrow.
    """
    known = shapes[shapes.num_tokens.notna() & shapes.copied]
    tokens = [int(n) for n in known.num_tokens]
    rules = rules.fillna({"max_num_tokens": 0})  # not known: no line is drawn
    ceilings = rules.set_index("rule")
    fates = _fates(known, ceilings.loc[asked] if asked in ceilings.index else None)
    edge = _edge([*tokens, *ceilings.max_num_tokens.astype(int)])
    total = int((shapes.copied & shapes.in_scheduler).sum())
    fig = figure(
        _headline(fates, total, asked, verdict),
        "tokens in the largest batch",
        "",
        height=135 + 50 * len(known) + 22 * (len(ceilings) + 1),
        margin={"l": 140, "r": 40, "t": 60, "b": 65},
    )
    fig.add_bar(y=known.producer.tolist(), **_bars(tokens, fates, edge))
    for place, rule in enumerate(rules.itertuples()):
        _ceiling(fig, rule, edge, -0.75 - 0.42 * place, bold=rule.rule == asked)
    fig.update_xaxes(range=[0, edge], tickformat=",")
    fig.update_yaxes(range=[len(known) - 0.5, -0.7 - 0.42 * len(ceilings)], showgrid=False)
    return fig


def _fates(known: DataFrame, asked: Any) -> list[str]:
    """What becomes of each shape: it fits or overflows, or neither is told of it.

    A benchmark is neutral (it takes what it is told to), and so is a batch over a lower bound.
    """
    if asked is None:
        return ["neutral"] * len(known)
    over = "neutral" if asked.at_least else "overflow"
    return [
        "neutral" if not ours else "fits" if n <= asked.max_num_tokens else over
        for n, ours in zip(known.num_tokens, known.in_scheduler, strict=True)
    ]


def _bars(tokens: list[int], fates: list[str], edge: int) -> dict[str, Any]:
    """A bar a producer, ended at the edge."""
    return {
        "orientation": "h",
        "x": [min(n, edge) for n in tokens],
        "text": [f"{n:,}{' →' if n > edge else ''}" for n in tokens],
        "textposition": "auto",
        "insidetextanchor": "start",
        "customdata": tokens,
        "marker": {"color": [COLORS[fate] for fate in fates]},
        "hovertemplate": "%{y}: %{customdata:,} tokens<extra></extra>",
    }


def _headline(fates: list[str], total: int, asked: str | None, verdict: str) -> str:
    """The verdict, and how many of the scheduler's batches are in the buffer."""
    hangs = "start-up hangs" if verdict == "hangs" else ""
    if asked is None:
        return "This release makes no static eager buffers" + (hangs and f", but {hangs}")
    over = fates.count("overflow")
    fit = total if verdict == "fits" else fates.count("fits")  # then those of no known size do too
    lead = f"{hangs.capitalize()}: " if hangs else ""
    if verdict == "overflows" and not over:
        lead = "Overflows, by requests or by a benchmark: "
    if verdict == "unknown":
        lead = "Not known: "
    told = lead + _told_of(over, fit, total, asked)
    return told[0].upper() + told[1:]


def _told_of(over: int, fit: int, total: int, asked: str) -> str:
    if over:
        verb = "overflows" if over == 1 else "overflow"
        return f"{over} of {total} copied batch shapes {verb} the buffer of {asked}"
    if total == 0:
        return f"no batch is copied into the buffer of {asked}"
    known = "all" if fit == total else f"{fit} of"
    verb = "fit" if fit == total else "is sure to fit" if fit == 1 else "are sure to fit"
    return f"{known} {total} copied batch shapes {verb} the buffer of {asked}"


def _edge(values: list[int]) -> int:
    """The end of the token axis: past every value that is not FAR over the next smaller ones."""
    ordered = sorted(n for n in values if n > 0) or [1]
    middle = ordered[len(ordered) // 2]
    return max(n for n in ordered if n <= FAR * middle) * 6 // 5 + 1


def _ceiling(fig: go.Figure, rule: Any, edge: int, row: float, *, bold: bool) -> None:
    """A line at the capacity, its name over the bars in a row of its own."""
    value = int(rule.max_num_tokens)
    if value <= 0:
        return
    color, far = RULE_COLORS.get(rule.rule, COLORS["neutral"]), value > edge
    x = min(value, edge)
    left = x > edge / 2  # of its line is where its name stands
    least = "at least " if rule.at_least else ""
    text = f"{rule.rule}: {least}{value:,} tokens{' →' if far else ''}"
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

    Columns: release, chunk, capacity, at_least, largest (tokens; missing where not known), verdict.
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


_LARGEST = "largest batch that is copied (orange: overflows or hangs; grey: not known)"


def _buffer(part: DataFrame) -> str:
    return "buffer (at least)" if part.at_least.any() else "buffer"


def _buffer_and_largest(fig: go.Figure, part: DataFrame) -> None:
    """What one release holds and gets, over the chunk."""
    fig.add_scatter(
        name=_buffer(part),
        line={"color": COLORS["neutral"], "dash": "dash", "shape": "linear"},
        **_line(part, "capacity"),
    )
    fig.add_scatter(
        name=_LARGEST,
        mode="markers",
        marker={"size": 11, "color": _verdicts(part)},
        **_line(part, "largest"),
    )


def _told(frame: DataFrame) -> str:
    """How many pairs of chunk and release go wrong, and where, as a title."""
    bad = frame[frame.verdict.isin(BAD)]
    unknown = int((frame.verdict == "unknown").sum())
    if bad.empty:
        if unknown == len(frame):
            return f"Of none of {len(frame)} pairs of chunk and release is it known whether it fits"
        told = f"None of {len(frame)} pairs of chunk and release overflows or hangs"
    else:
        told = f"{len(bad)} of {len(frame)} pairs of chunk and release overflow or hang"
        releases = bad.release.unique()
        told += f", all in {releases[0]}" if len(releases) == 1 else ""
    return f"{told}; of {unknown} it is not known" if unknown else told


def _steps(parts: dict[str, DataFrame]) -> list[dict[str, Any]]:
    """A step of the slider for each release: other heights, texts and colours."""
    return [
        {
            "label": name.split(" ")[0],
            "method": "restyle",
            "args": [
                {
                    "name": [_buffer(part), _LARGEST],
                    "y": [_heights(part, "capacity"), _heights(part, "largest")],
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
        "y": _heights(part, column),
        "text": part.verdict.tolist(),
        "hovertemplate": "chunk %{x:,}: %{y:,} tokens, %{text}<extra></extra>",
    }


def _heights(part: DataFrame, column: str) -> list[int | None]:
    return [
        None if missing else int(n)
        for n, missing in zip(part[column], part[column].isna(), strict=True)
    ]


def _verdicts(part: DataFrame) -> list[str]:
    colors = {**dict.fromkeys(BAD, "overflow"), "unknown": "neutral"}
    return [COLORS[colors.get(verdict, "fits")] for verdict in part.verdict]
