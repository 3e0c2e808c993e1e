"""Which unknown fields matter: the others cannot change a buffer's size or a batch's shape."""

from __future__ import annotations

from eagerbuf.read.settings import Known
from eagerbuf.releases import find_release


def needed(name: str, known: Known, release: str | None) -> bool:
    """Whether not knowing `name` leaves something open, given what is known of the others."""

    def is_known(field: str, *values: object) -> bool:
        held = known[field]
        return held is not None and held.value in values

    one_rank = is_known("tp_size", 1)
    no_gather = is_known("moe_a2a_backend", "none") and is_known("moe_dense_tp_size", None)
    padded = not (is_known("enable_dp_attention", False) and no_gather)
    aligned = not one_rank and (padded or not is_known("attn_tp_input_scattered", False))
    dynamic = not is_known("enable_dynamic_chunking", False) and not is_known("pp_size", 1)
    chunk = known["chunked_prefill_size"]
    whole = chunk is None or chunk.value <= 0 or not is_known("admits_whole_prompts", False)
    at = find_release(release)
    matters = {
        "tp_size": aligned or not is_known("attn_cp_size", 1),
        "pp_size": not is_known("enable_dynamic_chunking", False),
        "dp_size": not is_known("enable_dp_attention", False),
        "cp_zigzag": not is_known("attn_cp_size", 1) and padded,
        "page_size": dynamic,
        "enable_dp_attention": not one_rank,
        "moe_a2a_backend": not one_rank
        and not is_known("enable_dp_attention", True)
        and (known["moe_dense_tp_size"] is None or is_known("moe_dense_tp_size", None)),
        "moe_dense_tp_size": not one_rank
        and not is_known("enable_dp_attention", True)
        and not (known["moe_a2a_backend"] and not is_known("moe_a2a_backend", "none")),
        "disable_attn_tp_gather": padded and not one_rank,
        "attn_tp_input_scattered": not one_rank,
        "enable_dynamic_chunking": not is_known("pp_size", 1),
        "enable_mixed_chunk": False,
        "disable_radix_cache": whole,
        "max_prefill_tokens": whole or dynamic,
        "max_total_num_tokens": whole or at.sizing_rule in (None, "pr28894"),
        "context_len": whole or (dynamic and at.probe_clipped_to_context),
        "admits_whole_prompts": chunk is None or chunk.value > 0,
    }
    return matters.get(name, True)
