"""Which unknown fields matter: the others cannot change a buffer's size or a batch's shape."""

from __future__ import annotations

from eagerbuf.read.settings import Known
from eagerbuf.releases import find_release

POOL_RULES = (None, "pr28894")  # of a release: rules that look at the KV pool whatever the chunk


def needed(name: str, known: Known, release: str | None) -> bool:
    """Whether not knowing `name` leaves something open, given what is known of the others."""
    if name in _PADDING:
        return _padding_needs(name, known)
    dynamic = not is_known(known, "enable_dynamic_chunking", False)
    dynamic = dynamic and not is_known(known, "pp_size", 1)
    chunk, at = known["chunked_prefill_size"], find_release(release)
    chunked = chunk is not None and chunk.value > 0
    whole = not chunked or not is_known(known, "admits_whole_prompts", False)
    matters = {
        "pp_size": not is_known(known, "enable_dynamic_chunking", False),
        "enable_dynamic_chunking": not is_known(known, "pp_size", 1),
        "enable_mixed_chunk": False,
        "page_size": dynamic,
        "max_prefill_tokens": whole or dynamic,
        "disable_radix_cache": whole,
        "max_total_num_tokens": whole or at.sizing_rule in POOL_RULES,
        "context_len": whole or (dynamic and at.probe_clipped_to_context),
        "admits_whole_prompts": chunked or chunk is None,
    }
    return matters.get(name, True)


def is_known(known: Known, name: str, value: object) -> bool:
    """Whether the field is known to have this value."""
    held = known[name]
    return held is not None and held.value == value


_PADDING = (
    "tp_size",
    "dp_size",
    "cp_zigzag",
    "enable_dp_attention",
    "moe_a2a_backend",
    "moe_dense_tp_size",
    "disable_attn_tp_gather",
    "attn_tp_input_scattered",
)


def _padding_needs(name: str, known: Known) -> bool:
    """Fields that matter only where batches may be padded for several ranks."""
    if name != "tp_size" and is_known(known, "tp_size", 1):
        return False
    attention = not is_known(known, "enable_dp_attention", False)
    all_to_all = not is_known(known, "moe_a2a_backend", "none")
    dense = not is_known(known, "moe_dense_tp_size", None)
    split = not is_known(known, "attn_cp_size", 1)
    surely = is_known(known, "enable_dp_attention", True)
    scattered = not is_known(known, "attn_tp_input_scattered", False)
    return {
        "tp_size": attention or all_to_all or dense or split or scattered,
        "dp_size": attention,
        "cp_zigzag": split and (attention or all_to_all or dense),
        "moe_a2a_backend": not surely and (not dense or known["moe_dense_tp_size"] is None),
        "moe_dense_tp_size": not surely and (not all_to_all or known["moe_a2a_backend"] is None),
        "disable_attn_tp_gather": attention or all_to_all or dense,
    }.get(name, True)
