"""Tuning buckets, the autotune dummy's shape, and what a mis-shape costs when it is measured.

Torch, pandas and numpy are loaded by the functions that need them, not by importing this.
"""

from eagerbuf.repro.autotune.buckets import hybrid_bucket, hybrid_buckets, tune_max_num_tokens
from eagerbuf.repro.autotune.collectives import run_collectives
from eagerbuf.repro.autotune.misshape import DecodeShapes, decode_shapes, misshape_table, rarity
from eagerbuf.repro.autotune.overflow import load_decode
from eagerbuf.repro.autotune.regret import counts_to_time, regrets
from eagerbuf.repro.autotune.tactics import MoeLayer, Timings, time_tactics

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
