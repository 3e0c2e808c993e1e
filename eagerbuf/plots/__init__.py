"""Plotly figures, each one function of a DataFrame, in one light template."""

from eagerbuf.plots.consumers import workspace_by_ranks
from eagerbuf.plots.deployment import shapes_of_one, what_if
from eagerbuf.plots.hang import hang_timeline, latency_fit, predicted_chunk, probes
from eagerbuf.plots.price import ceiling_against_pool, overhead_by_model
from eagerbuf.plots.reached import reached_ceilings
from eagerbuf.plots.sizing import bytes_per_rule, shapes_and_ceilings
from eagerbuf.plots.template import AXIS, COLORS, RULE_COLORS, ceiling, figure

__all__ = [
    "AXIS",
    "COLORS",
    "RULE_COLORS",
    "bytes_per_rule",
    "ceiling",
    "ceiling_against_pool",
    "figure",
    "hang_timeline",
    "latency_fit",
    "overhead_by_model",
    "predicted_chunk",
    "probes",
    "reached_ceilings",
    "shapes_and_ceilings",
    "shapes_of_one",
    "what_if",
    "workspace_by_ranks",
]
