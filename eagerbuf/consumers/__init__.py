"""What else SGLang sizes by `max_prefill_buffer_tokens`: each consumer, its formula, its bytes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eagerbuf.consumers.tokens import needed_tokens, reserved_tokens, wasted_tokens
from eagerbuf.consumers.workspace import payload_bytes, workspace_bytes, workspace_tokens

if TYPE_CHECKING:
    from eagerbuf.consumers.known import CONSUMERS, Consumer
    from eagerbuf.consumers.tables import consumer_table, price, workspace_table

__all__ = [
    "CONSUMERS",
    "Consumer",
    "consumer_table",
    "needed_tokens",
    "payload_bytes",
    "price",
    "reserved_tokens",
    "wasted_tokens",
    "workspace_bytes",
    "workspace_table",
    "workspace_tokens",
]


def __getattr__(name: str) -> Any:
    """The list and the tables when they are first used: a check needs the bytes alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "known" if name in ("CONSUMERS", "Consumer") else "tables"
    return getattr(import_module(f"eagerbuf.consumers.{room}"), name)
