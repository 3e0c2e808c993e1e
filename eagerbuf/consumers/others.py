"""What the other consumers of the number allocate, check or tune, each as its release does.

Sizes are for one rank. `tokens` is the number, as released or as needed.
"""

from __future__ import annotations

from eagerbuf._arrays import Int, ceil_align, largest, smallest

PACK_QUEUES = 4  # SGLANG_DISAGGREGATION_QUEUE_SIZE
TUNED_MOST = 8192  # FlashInfer's own default of tune_max_num_tokens
INT32 = 4


def dcp_pack_bytes(
    tokens: Int,
    kv_token_bytes: int,
    *,
    dcp_size: int = 2,
    page_size: int = 1,
    queues: int = PACK_QUEUES,
) -> Int:
    """Bytes of a prefill server's pack buffers once a decode server with DCP registers.

    `kv_token_bytes`: a token in all layers of the rank. Source: `dcp_pack_buffer_bytes`
    (srt/disaggregation/common/dcp_pack.py, 0.5.19); from 0.5.21 `tokens` is whole pages first,
    before that give page_size 1.
    """
    each = -(-ceil_align(tokens, page_size) // dcp_size)
    return queues * dcp_size * each * kv_token_bytes


def deepep_v2_tokens(tokens: Int, scatter_ranks: int = 1) -> Int:
    """Tokens that SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK must allow a rank.

    `scatter_ranks`: tp_size // attention DP from 0.5.22, before that 1. Source:
    `validate_deepep_v2_dispatch_token_budget` (srt/arg_groups/moe_hook.py, 0.5.19); models may
    register a rule of their own from 0.5.21.
    """
    return -(-tokens // scatter_ranks)


def dsv4_counter_bytes(
    tokens: Int,
    *,
    max_prefill_tokens: int,
    decode_tokens: int = 0,
    num_heads: int = 128,
    sm_count: int = 148,
) -> Int:
    """Bytes of the DSV4 TRT-LLM backend's counters, an int32 for each query row and head.

    `max_prefill_tokens` counts here whatever the chunks are. Source: `_trtllm_query_row_capacity`
    (srt/layers/attention/deepseek_v4_trtllm_backend.py, 0.5.20) and FlashInfer's
    `get_trtllm_gen_multi_ctas_kv_counter_bytes` (utils.py, 0.6.18).
    """
    rows = largest(tokens, max_prefill_tokens, decode_tokens, 1)
    return INT32 * ceil_align(largest(rows * num_heads, sm_count), 8)


def mha_output_bytes(tokens: Int, *, num_heads: int, head_dim: int, decode_tokens: int = 0) -> Int:
    """Bytes of TRT-LLM MHA's FP8 output under a native NVFP4 KV cache; chunking is on.

    `num_heads`: query heads of the rank. Source: `_native_fp4_prefill_output_capacity`
    (srt/layers/attention/trtllm_mha_backend.py, 0.5.21).
    """
    return largest(tokens, decode_tokens) * num_heads * head_dim


def cutlass_tuned_tokens(tokens: Int, attn_dp_size: int = 1) -> Int:
    """Largest token count that FlashInfer's cutlass MoE is tuned for.

    Source: `_cutlass_moe_tune_max_num_tokens` (srt/layers/moe/moe_runner/flashinfer_cutlass.py,
    0.5.23); servers that only decode tune by the call.
    """
    return smallest(tokens * attn_dp_size, TUNED_MOST)
