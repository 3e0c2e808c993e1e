"""Is the tight ceiling enough, and is it needed? A search for a larger batch, and states that
reach it."""

from __future__ import annotations

from eagerbuf.ceiling.bound import PRODUCERS, Bounds
from eagerbuf.ceiling.draw import draw_configs, draw_steps, fitted
from eagerbuf.ceiling.reach import exists, obstacle, reach
from eagerbuf.ceiling.search import search
from eagerbuf.ceiling.state import State, Step, admitted, label
from eagerbuf.ceiling.table import reach_table, reachability, retracted
from eagerbuf.ceiling.tally import Tally

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
