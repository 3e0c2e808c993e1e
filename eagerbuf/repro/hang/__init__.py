"""The start-up hang of PP dynamic chunking, reproduced with real ranks under torch.distributed."""

from __future__ import annotations

from eagerbuf.repro.hang.report import HangReport
from eagerbuf.repro.hang.run import run_hang

__all__ = ["HangReport", "run_hang"]
