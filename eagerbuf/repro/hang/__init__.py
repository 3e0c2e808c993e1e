"""The start-up hang of PP dynamic chunking, reproduced with real ranks under torch.distributed."""

from __future__ import annotations

from eagerbuf.repro.hang.report import HangReport
from eagerbuf.repro.launch.worker_group import run_hang

__all__ = ["HangReport", "run_hang"]
