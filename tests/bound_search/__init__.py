"""Is the tight ceiling enough, and is it needed? A search for a larger batch, and states that
reach it."""

from __future__ import annotations

from tests.bound_search.bound import PRODUCERS, Bounds
from tests.bound_search.draw import draw_configs, draw_steps, fitted
from tests.bound_search.reach import exists, obstacle, reach
from tests.bound_search.search import search
from tests.bound_search.state import State, Step, admitted, label
from tests.bound_search.table import reach_table, reachability, retracted
from tests.bound_search.tally import Tally

__all__ = [
    "PRODUCERS",
    "Bounds",
    "State",
    "Step",
    "Tally",
    "admitted",
    "draw_configs",
    "draw_steps",
    "exists",
    "fitted",
    "label",
    "obstacle",
    "reach",
    "reach_table",
    "reachability",
    "retracted",
    "search",
]
