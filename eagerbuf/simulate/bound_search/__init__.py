"""Is the tight ceiling enough, and is it needed? A search for a larger batch, and states that
reach it."""

from __future__ import annotations

from eagerbuf.simulate.bound_search.bound import PRODUCERS, Bounds
from eagerbuf.simulate.bound_search.draw import draw_configs, draw_steps, fitted
from eagerbuf.simulate.bound_search.reach import exists, obstacle, reach
from eagerbuf.simulate.bound_search.search import search
from eagerbuf.simulate.bound_search.state import State, Step, admitted, label
from eagerbuf.simulate.bound_search.table import reach_table, reachability, retracted
from eagerbuf.simulate.bound_search.tally import Tally

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
