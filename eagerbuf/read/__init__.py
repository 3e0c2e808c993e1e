"""Reading what people paste: launch commands, config files, Kubernetes lists and start-up logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.read.read import read_config, read_servers
from eagerbuf.read.reading import Reading

if TYPE_CHECKING:
    from eagerbuf.read.batches import read_log

__all__ = ["Reading", "read_config", "read_log", "read_servers"]


def __getattr__(name: str) -> Any:
    """Load `read_log` when it is first used: a check of one command does not need it."""
    if name != "read_log":
        raise AttributeError(f"module 'eagerbuf.read' has no attribute {name!r}")
    from eagerbuf.read.batches import read_log

    return read_log
