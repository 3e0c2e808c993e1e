"""Reading what people paste: launch commands, config files, Kubernetes lists and start-up logs."""

from __future__ import annotations

from eagerbuf.read.batches import read_log
from eagerbuf.read.read import read_config
from eagerbuf.read.reading import Reading

__all__ = ["Reading", "read_config", "read_log"]
