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


def hang_timeline(events: DataFrame, outcome: str) -> go.Figure:
    """What each rank did when: columns rank, seconds (since the start), step; one lane a rank."""
    ranks = sorted(events["rank"].unique().tolist())
    end = float(events.seconds.max())
    fig = figure(
        f"Outcome: {outcome}; the last step of each rank is where it stayed",
        "seconds since the start",
        "rank",
        height=150 + 70 * len(ranks),
    )
    for rank in ranks:
        own = events[events["rank"] == rank]
        color = COLORS["overflow" if outcome == "hang" else "fits"]
        fig.add_scatter(
            x=[float(own.seconds.min()), end],
            y=[rank, rank],
            mode="lines",
            line={"color": COLORS["light"], "width": 8},
            hoverinfo="skip",
        )
        fig.add_scatter(
            x=own.seconds.tolist(),
            y=[rank] * len(own),
            text=own.step.tolist(),
            mode="markers",
            marker={"color": COLORS["neutral"], "size": 8, "symbol": "line-ns-open"},
            hovertemplate="%{x:.2f} s: %{text}<extra></extra>",
        )
        last = own.iloc[-1]
        fig.add_annotation(
            x=float(last.seconds),
            y=rank,
            text=f"{last.step} at {last.seconds:.1f} s",
            font={"color": color},
            xanchor="right",
            yshift=20,
            showarrow=False,
        )
    fig.update_yaxes(tickvals=ranks, range=[max(ranks) + 0.6, -0.7])
    return fig


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
        last = part.iloc[-1]
        fig.add_annotation(
            x=int(last.history_len),
            y=int(last.num_tokens),
            text=f"smoothing {factor}",
            font={"color": shade},
            xanchor="right",
            yshift=12,
            showarrow=False,
        )
    ceiling(fig, chunk, f"chunk: {chunk:,}", COLORS["neutral"], "top left")
    for name, value in buffers.items():
        ceiling(
            fig, value, f"{name}: {value:,}", RULE_COLORS.get(name, COLORS["light"]), "top right"
        )
    return fig
