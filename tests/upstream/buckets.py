"""FlashInfer's tuning buckets against ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from eagerbuf import hybrid_bucket, hybrid_buckets
from tests.upstream import draw
from tests.upstream.compare import Comparison
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

UTILS = "flashinfer/fused_moe/utils.py"


@lru_cache(maxsize=1)
def _cases(salt: int, count: int) -> tuple[list[tuple[int, int]], list[Any]]:
    """(live tokens, maximum): every small maximum in turn, then any up to a million."""
    rng = draw.generator(500 + salt)
    small = np.arange(1, 1 + count // 4) + salt * (count // 4)
    most = np.concatenate([small, np.floor(10 ** rng.uniform(0, 6, count - len(small)))])
    live = np.floor(most * rng.uniform(-0.1, 1.2, count))
    pairs = list(zip(live.astype(int).tolist(), most.astype(int).tolist(), strict=True))
    return pairs, [(hybrid_buckets(most), hybrid_bucket(x, most)) for x, most in pairs]


def _released(wheel: Wheel) -> Callable[[tuple[int, int]], Any]:
    room = Room(wheel, {})
    buckets = room.piece("get_hybrid_num_tokens_buckets", UTILS)
    mapped = room.piece("map_to_hybrid_bucket", UTILS)
    return lambda pair: (tuple(buckets(pair[1])), mapped(*pair))


BUCKETS = Comparison(
    "tuning buckets: the set, and the bucket of a live batch",
    lambda _, salt, count: _cases(salt, count),
    _released,
)
