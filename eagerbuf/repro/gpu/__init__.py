"""One command for a GPU: what a CPU cannot show is run in one go and recorded in one file."""

from __future__ import annotations

from eagerbuf.repro.gpu.record import GpuPart, GpuRecord, load_record, recorded

__all__ = ["GpuPart", "GpuRecord", "load_record", "recorded"]
