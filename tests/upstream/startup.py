"""The start-up of a release run by real ranks: SGLang's own code into the hang, or past it.

Requests, batches and the tree cache are stand-ins: that 0.5.19 cannot return a probe to its radix
cache does not show here, only in the engine itself (data/engine_runs.jsonl).
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import asdict

from pandas import DataFrame

from eagerbuf.releases import find_release
from eagerbuf.repro.hang import HangReport
from eagerbuf.repro.hang.run import run_ranks
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.sizing import BufferSize
from tests.upstream.engine import Engine
from tests.upstream.wheels import Wheel, sglang

OLD = "pr28386"  # in no release: injected
SIZES = ("old", "released")
_FRAME = re.compile(r'File "sglang-[^/"]+/(sglang/[^"]+)", line (\d+) in (\S+)')


def run_released(
    release: str,
    size: str = "old",
    ranks: int = 2,
    *,
    chunk: int = 512,
    stall_s: float = 3.0,
    limit_s: float = 90.0,
) -> HangReport:
    """Start the released start-up on `ranks` CPU ranks and say how it ended.

    `size` of the static buffers: "old" (one chunk, rule pr28386) or "released" (what the release
    itself computes). ValueError for a release without eager runner, WheelMissing without its wheel.
    """
    wheel, known = sglang(release), find_release(release)
    if size not in SIZES:
        raise ValueError(f"size={size!r}: unknown, give one of {', '.join(SIZES)}")
    if known.sizing_rule is None:
        raise ValueError(f"release={release!r}: has no eager runner, and so no static buffers")
    rule = OLD if size == "old" else known.sizing_rule
    on_failure = "broadcast" if known.profile_failure_broadcast else "rank0_only"
    settings = Settings(ranks, rule, on_failure, chunk, "cpu", stall_s, limit_s)
    buffers = settings.size if size == "old" else released_size(wheel, settings)
    return run_ranks(settings, _command(wheel, settings, buffers))


def released_frames(report: HangReport) -> DataFrame:
    """Where each rank stands in SGLang's own code, innermost call first, from its stack.

    Columns: rank, file, line (of the release), function; empty but for a hang.
    """
    rows = [
        (rank, file, int(line), function)
        for rank, stack in report.stacks.items()
        for file, line, function in _FRAME.findall(stack)
    ]
    return DataFrame(rows, columns=["rank", "file", "line", "function"])


def released_size(wheel: Wheel, settings: Settings) -> BufferSize:
    """The static buffers that the release's own eager runner allocates for these settings."""
    unset = {name: math.nan for name, value in asdict(settings.config).items() if value is None}
    engine = Engine(wheel)
    engine.apply(asdict(settings.config) | unset)
    return BufferSize(*engine.sizing())


def _command(wheel: Wheel, settings: Settings, size: BufferSize) -> list[str]:
    """A rank's command line; WheelMissing here rather than in every rank."""
    assert wheel.manifest["files"]
    numbers = [str(size.max_bs), str(size.max_num_tokens)]
    program = [sys.executable, "-m", "tests.upstream.released_rank"]
    return [*program, json.dumps(asdict(settings)), wheel.version, *numbers]
