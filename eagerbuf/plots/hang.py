"""Figures of the profiler hang: probes, timeline, latency fit, predicted chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.plots.template import AXIS, COLORS, RULE_COLORS, ceiling, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pandas import DataFrame


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
        ceiling(fig, value, label, RULE_COLORS.get(name, COLORS["neutral"]), "top right")
    return fig


def hang_timeline(events: DataFrame, outcome: str, end: float | None = None) -> go.Figure:
    """What each rank did when: columns rank, seconds (since the start), step; one lane a rank.

    `end`: seconds at which watching ended; the time from a rank's last step to it is drawn as the
    wait it is in, in a hang.
    """
    ranks = sorted(events["rank"].unique().tolist())
    stop = float(events.seconds.max()) if end is None else end
    hung = outcome == "hang"
    fig = figure(
        "Hang: every rank stays in its last step"
        if hung
        else f"Outcome {outcome}: the steps of each rank",
        "seconds since the start",
        "rank",
        height=150 + 70 * len(ranks),
    )
    for rank in ranks:
        _lane(fig, events[events["rank"] == rank], rank, stop if hung else None)
    fig.update_yaxes(tickvals=ranks, range=[max(ranks) + 0.6, -0.7])
    return fig


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
        text=f"{last.step}, since {last.seconds:.1f} s" if stop is not None else last.step,
        font={"color": COLORS["neutral" if stop is None else "overflow"]},
        xanchor="right",
        yshift=20,
        showarrow=False,
    )


def latency_fit(samples: DataFrame, curve: DataFrame) -> go.Figure:
    """Measured prefill latency (num_tokens, latency_ms) and the fitted curve (same columns)."""
    fig = figure(
        "Prefill latency grows with the square of the length",
        "tokens in the probe",
        "latency (ms)",
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
    fig.add_annotation(
        x=float(middle.num_tokens),
        y=float(middle.latency_ms),
        text="fit a·l² + b·l + c",
        font={"color": COLORS["fits"]},
        ax=-70,
        ay=-40,
        arrowcolor=COLORS["fits"],
    )
    return fig


def predicted_chunk(frame: DataFrame, chunk: int, buffers: dict[str, int]) -> go.Figure:
    """Predicted chunk against history: columns history_len, smooth_factor, num_tokens."""
    fig = figure(
        "The predicted chunk only ever shrinks: it never needs more than the chunk",
        "tokens of the request done before (history)",
        "tokens in the next chunk",
        yaxis={**AXIS, "rangemode": "tozero", "title": {"text": "tokens in the next chunk"}},
    )
    shades = [COLORS["sky"], COLORS["fits"], COLORS["accent"], COLORS["gold"]]
    for shade, (factor, part) in zip(shades, frame.groupby("smooth_factor"), strict=False):
        fig.add_scatter(
            x=part.history_len.tolist(),
            y=part.num_tokens.tolist(),
            mode="lines",
            line={"color": shade, "width": 2.5},
            hovertemplate=f"history %{{x:,}}: %{{y:,}} tokens<extra>smoothing {factor}</extra>",
        )
        middle = part.iloc[len(part) // 2]
        fig.add_annotation(
            x=int(middle.history_len),
            y=int(middle.num_tokens),
            text=f"smoothing {factor}",
            font={"color": shade},
            yshift=12,
            showarrow=False,
        )
    ceiling(fig, chunk, f"chunk: {chunk:,}", COLORS["neutral"], "top left")
    for name, value in buffers.items():
        ceiling(
            fig, value, f"{name}: {value:,}", RULE_COLORS.get(name, COLORS["light"]), "top right"
        )
    return fig
