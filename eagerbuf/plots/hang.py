"""Figures of the profiler hang: probes, timeline, latency fit, predicted chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.plots.template import AXIS, COLORS, RULE_COLORS, ceiling, figure, ink

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame

# the steps that follow a profile that failed: known to this rank alone, or broadcast
FAILED = ("dynamic chunking disabled", "profile failed")


def probes(frame: DataFrame, ceilings: dict[str, int]) -> go.Figure:
    """Which probes overflow: one bar a probe (columns probe, num_tokens), a line per ceiling.

    The first ceiling is the one that the probes are held against.
    """
    held, capacity = next(iter(ceilings.items()))
    over = int((frame.num_tokens > capacity).sum())
    colors = [COLORS["overflow" if n > capacity else "fits"] for n in frame.num_tokens]
    fig = figure(
        f"{over} of {len(frame)} probes overflow a buffer of {capacity:,} tokens ({held})",
        "probe, in the order they run",
        "tokens in one batch",
        bargap=0,
    )
    hover = "probe %{x}: %{y:,} tokens<extra></extra>"
    fig.add_bar(
        x=frame.probe.tolist(),
        y=frame.num_tokens.tolist(),
        marker={"color": colors},
        hovertemplate=hover,
    )
    for name, value in ceilings.items():
        label = f"{name}: {value:,} tokens"
        place = "bottom right" if _close_below(value, ceilings) else "top right"
        ceiling(fig, value, label, RULE_COLORS.get(name, COLORS["neutral"]), place)
    for fits, verb in ((False, "overflow"), (True, "fit")):
        _count(fig, frame[(frame.num_tokens <= capacity) == fits], verb)
    fig.update_yaxes(tickformat=",")
    return fig


def _close_below(value: int, ceilings: dict[str, int]) -> bool:
    """Whether the next ceiling leaves no room for a label over this one."""
    return any(0 < other - value < max(ceilings.values()) / 10 for other in ceilings.values())


def _count(fig: go.Figure, part: DataFrame, verb: str) -> None:
    """How many of the bars are of this colour, written into them."""
    if len(part):
        fig.add_annotation(
            x=float(part.probe.iloc[: max(len(part) * 2 // 3, 1)].mean()),
            y=float(part.num_tokens.max()) / 3,
            text=f"{len(part)} {verb}",
            font={"color": "white", "size": 15},
            showarrow=False,
        )


def hang_timeline(events: DataFrame, outcome: str, end: float | None = None) -> go.Figure:
    """What each rank did when: columns rank, seconds (since the start), step; one lane a rank.

    `end`: seconds at which watching ended; the time from a rank's last step to it is drawn as the
    wait it is in, in a hang.
    """
    ranks = sorted(events["rank"].unique().tolist())
    stop = float(events.seconds.max()) if end is None else end
    hung = outcome == "hang"
    fig = figure(
        _ended(events, outcome),
        "time since the start (s); grey: works, orange: waits, cross: the profile fails",
        "pipeline rank",
        height=150 + 70 * len(ranks),
    )
    for rank in ranks:
        _lane(fig, events[events["rank"] == rank], rank, stop if hung else None)
    _mark_failures(fig, events)
    fig.update_xaxes(range=[0, 1.01 * stop])
    fig.update_yaxes(tickvals=ranks, range=[max(ranks) + 0.6, -0.7])
    return fig


def _mark_failures(fig: go.Figure, events: DataFrame) -> None:
    """A cross where a rank's profile failed, named after the step that did not end."""
    before = events.groupby("rank").step.shift()
    for at in events.index[events.step.isin(FAILED)]:
        row = events.loc[at]
        fig.add_scatter(
            x=[float(row.seconds)],
            y=[int(row["rank"])],
            mode="markers",
            marker={"symbol": "x", "size": 13, "color": COLORS["overflow"]},
            hovertemplate=f"%{{x:.2f}} s: fails in {before[at]}<extra></extra>",
        )
        fig.add_annotation(
            x=float(row.seconds),
            y=int(row["rank"]),
            text=f"fails: {before[at]}",
            font={"color": ink(COLORS["overflow"])},
            xanchor="right",
            yshift=-20,
            showarrow=False,
        )


def _ended(events: DataFrame, outcome: str) -> str:
    """The outcome as a title, with the second after which nothing moved."""
    last, ranks = float(events.seconds.max()), events["rank"].nunique()
    if outcome == "hang":
        return f"Hang: the last step of {ranks} ranks was at {last:.1f} s, each waits for another"
    if outcome == "completed":
        return f"Completed: {ranks} ranks went through every step in {last:.1f} s"
    return f"Outcome {outcome}: the last step of {ranks} ranks was at {last:.1f} s"


def _lane(fig: go.Figure, own: DataFrame, rank: int, stop: float | None) -> None:
    """One rank: its time in grey, its steps as ticks, and the wait at the end in orange."""
    last = own.iloc[-1]
    spans = [(float(own.seconds.min()), float(last.seconds), COLORS["light"])]
    if stop is not None:
        spans.append((float(last.seconds), stop, COLORS["overflow"]))
    for start, until, color in spans:
        line = {"color": color, "width": 10}
        fig.add_scatter(x=[start, until], y=[rank, rank], mode="lines", line=line, hoverinfo="skip")
    fig.add_scatter(
        x=own.seconds.tolist(),
        y=[rank] * len(own),
        text=own.step.tolist(),
        mode="markers",
        marker={"color": COLORS["neutral"], "size": 8, "symbol": "line-ns-open"},
        hovertemplate="%{x:.2f} s: %{text}<extra></extra>",
    )
    fig.add_annotation(
        x=float(last.seconds if stop is None else stop),
        y=rank,
        text=last.step,
        font={"color": ink(COLORS["neutral" if stop is None else "overflow"])},
        xanchor="right",
        yshift=20,
        showarrow=False,
    )


def latency_fit(samples: DataFrame, curve: DataFrame) -> go.Figure:
    """Measured prefill latency (num_tokens, latency_ms) and the fitted curve (same columns)."""
    fig = figure(
        f"One curve a·l² + b·l + c describes the latency of {len(samples)} probes",
        "tokens in the probe (l)",
        "latency of its prefill (ms)",
    )
    fig.add_scatter(
        x=samples.num_tokens.tolist(),
        y=samples.latency_ms.tolist(),
        mode="markers",
        marker={"color": COLORS["neutral"], "size": 6},
        hovertemplate="%{x:,} tokens: %{y:.2f} ms<extra>measured</extra>",
    )
    fig.add_scatter(
        x=curve.num_tokens.tolist(),
        y=curve.latency_ms.tolist(),
        mode="lines",
        line={"color": COLORS["fits"], "width": 3},
        hovertemplate="%{x:,} tokens: %{y:.2f} ms<extra>fit</extra>",
    )
    middle = curve.iloc[len(curve) // 2]
    _point_at(fig, middle, "fitted curve", COLORS["fits"], (-70, -45))
    _point_at(fig, samples.iloc[len(samples) // 4], "a measured probe", COLORS["neutral"], (40, 60))
    fig.update_yaxes(rangemode="tozero")
    return fig


def _point_at(fig: go.Figure, row: Any, text: str, color: str, offset: tuple[int, int]) -> None:
    """An arrow to the point (num_tokens, latency_ms), its text `offset` pixels away."""
    fig.add_annotation(
        x=float(row.num_tokens),
        y=float(row.latency_ms),
        text=text,
        font={"color": ink(color)},
        ax=offset[0],
        ay=offset[1],
        arrowcolor=color,
    )


def predicted_chunk(frame: DataFrame, chunk: int, buffers: dict[str, int]) -> go.Figure:
    """Predicted chunk against history: columns history_len, smooth_factor, num_tokens."""
    fig = figure(
        _shrinks(int(frame.num_tokens.max()), chunk),
        "tokens of the request computed so far (history)",
        "tokens in the next chunk",
        yaxis={**AXIS, "rangemode": "tozero", "title": {"text": "tokens in the next chunk"}},
    )
    shades = [COLORS["sky"], COLORS["fits"], COLORS["accent"], COLORS["gold"]]
    for at, (factor, part) in enumerate(frame.groupby("smooth_factor")):
        _smoothed(fig, part, f"smoothing {factor}", shades[at % len(shades)])
    ceiling(fig, chunk, f"chunk: {chunk:,} tokens", COLORS["neutral"], "top right")
    for name, value in buffers.items():
        color = RULE_COLORS.get(name, COLORS["light"])
        ceiling(fig, value, f"buffer of {name}: {value:,} tokens", color, "top right")
    fig.update_yaxes(tickformat=",")
    fig.update_xaxes(tickformat=",")
    return fig


def _shrinks(largest: int, chunk: int) -> str:
    if largest <= chunk:
        return "The predicted chunk only ever shrinks: it never needs more than the chunk"
    return f"The predicted chunk reaches {largest:,} tokens, more than the chunk of {chunk:,}"


def _smoothed(fig: go.Figure, part: DataFrame, name: str, shade: str) -> None:
    """The predicted chunks of one smoothing factor as a line, named near its beginning."""
    fig.add_scatter(
        x=part.history_len.tolist(),
        y=part.num_tokens.tolist(),
        mode="lines",
        line={"color": shade, "width": 2.5},
        hovertemplate=f"history %{{x:,}}: %{{y:,}} tokens<extra>{name}</extra>",
    )
    label = part.iloc[len(part) // 4]
    fig.add_annotation(
        x=int(label.history_len),
        y=int(label.num_tokens),
        text=name,
        font={"color": ink(shade)},
        xanchor="left",
        yshift=12,
        showarrow=False,
    )
