"""Tuning buckets, the autotune dummy's shape, and what a mis-shape costs when it is measured.

Torch, pandas and numpy are loaded by the functions that need them, not by importing this.
"""

from eagerbuf.autotune.buckets import hybrid_bucket, hybrid_buckets, tune_max_num_tokens
from eagerbuf.autotune.collectives import run_collectives
from eagerbuf.autotune.misshape import DecodeShapes, decode_shapes, misshape_table, rarity
from eagerbuf.autotune.overflow import load_decode
from eagerbuf.autotune.regret import counts_to_time, regrets
from eagerbuf.autotune.tactics import MoeLayer, Timings, time_tactics

__all__ = [
    "DecodeShapes",
    "MoeLayer",
    "Timings",
    "counts_to_time",
    "decode_shapes",
    "hybrid_bucket",
    "hybrid_buckets",
    "load_decode",
    "misshape_table",
    "rarity",
    "regrets",
    "run_collectives",
    "time_tactics",
    "tune_max_num_tokens",
]
