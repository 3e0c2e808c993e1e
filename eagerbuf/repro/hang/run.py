"""run_hang: the ranks of one start-up run for real, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from eagerbuf.repro.hang.report import HangReport
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.worker_group import WorkerGroup


def run_hang(
    ranks: int = 2,
    rule: str = "pr28386",
    on_failure: str = "rank0_only",
    chunk: int = 512,
    device: str = "auto",
    stall_s: float = 3.0,
    limit_s: float = 90.0,
) -> HangReport:
    """Run the start-up of `ranks` pipeline ranks (2 to 8) for real and say how it ended.

    Buffers are sized by `rule` (see RULES) for `chunk` tokens. `on_failure` says who learns of a
    failing profile: "rank0_only" (SGLang up to 0.5.19) or "broadcast" (PR #37675, from 0.5.20).
    `device` is "auto", "cpu" or "cuda"; after `stall_s` seconds in which no rank moves it is a
    hang; the run is over after `limit_s` seconds. ValueError for an argument out of its limits.
    """
    settings = Settings(ranks, rule, on_failure, chunk, device, stall_s, limit_s)
    if device == "cuda":
        from eagerbuf.repro.hang.groups import check_cuda

        check_cuda()
    return run_ranks(settings, rank_command(settings))


def rank_command(settings: Settings) -> list[str]:
    """The command line of a rank, the same for each."""
    return [sys.executable, "-m", "eagerbuf.repro.hang", json.dumps(asdict(settings))]


def run_ranks(settings: Settings, command: Sequence[str]) -> HangReport:
    """Start `command` once a rank, watch the ranks, end them all."""
    limits = {"stall_s": settings.stall_s, "limit_s": settings.limit_s}
    group = WorkerGroup(command, settings.ranks, **limits)
    outcome = group.run()
    return HangReport(outcome, group.seconds(), settings, group.statuses)
