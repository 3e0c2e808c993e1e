"""The list of every formula that is compared with a release."""

from __future__ import annotations

from tests.upstream import admission, buckets, dynamic, padding, sizing
from tests.upstream.compare import Comparison
from tests.upstream.facts import eager_runner
from tests.upstream.wheels import Wheel

DYNAMIC = (dynamic.PROBES, dynamic.PREDICTOR)  # older than the eager runner
EAGER = (sizing.SIZING, sizing.SETTINGS, padding.MODE, padding.PADDING, admission.ADMISSION)
FLASHINFER = (buckets.BUCKETS,)


def formulas(wheel: Wheel) -> tuple[Comparison, ...]:
    """What can be compared with this wheel."""
    if wheel.package != "sglang":
        return FLASHINFER
    return (*EAGER, *DYNAMIC) if eager_runner(wheel) else DYNAMIC
