"""What else SGLang sizes by `max_prefill_buffer_tokens`: each consumer, its formula, its bytes."""

from eagerbuf.consumers.known import CONSUMERS, Consumer
from eagerbuf.consumers.tables import consumer_table, price, workspace_table
from eagerbuf.consumers.tokens import needed_tokens, reserved_tokens, wasted_tokens
from eagerbuf.consumers.workspace import payload_bytes, workspace_bytes, workspace_tokens

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
