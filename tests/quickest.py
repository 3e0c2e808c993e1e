"""Processor time of a call, as little as it takes: a busy machine slows, it never speeds up."""

from __future__ import annotations

import time
from collections.abc import Callable


def within(seconds: float, call: Callable[[], object], tries: int = 3) -> bool:
    """Whether one of several calls takes at most so many seconds of processor time."""
    for _ in range(tries):
        start = time.process_time()
        call()
        if time.process_time() - start <= seconds:
            return True
    return False
