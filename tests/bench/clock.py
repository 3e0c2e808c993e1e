"""What the benchmarks count: processor seconds, to which other programs add nothing."""

from __future__ import annotations

import resource
import time


def cpu() -> float:
    """Processor seconds of this process so far, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
