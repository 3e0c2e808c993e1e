"""The workspace of FlashInfer's MoE all-to-all: the largest thing that the number sizes.

Source: SGLang 0.5.22 and 0.5.23, srt/layers/moe/token_dispatcher/flashinfer.py and
`flashinfer_a2a_max_dispatch_tokens_per_rank` (srt/arg_groups/overrides.py); FlashInfer 0.7.1 and
0.7.2, comm/trtllm_moe_alltoall.py. The table's size is computed in C++ (`calculateOffsets` of
csrc/trtllm_moe_alltoall.cu); `python -m tests.upstream.table` runs that function.
"""

from __future__ import annotations

from eagerbuf._arrays import Int, ceil_align, largest

SINCE = "0.5.22"
FLOOR = 4096  # tokens: the most running requests a rank takes by default
MOST_RANKS = 64  # kMaxRanks of FlashInfer's kernels
MOST_TOP_K = 22  # kMaxTopK: the table has so many entries a token, whatever the model chooses
LINE = 128  # bytes that each part is padded to
INT32 = 4


def workspace_tokens(prefill_tokens: Int, configured: Int | None = None) -> Int:
    """Tokens one rank may dispatch: as `configured` by SGLang's variable, else at least FLOOR.

    Start-up refuses a configured capacity below `prefill_tokens`.
    """
    return largest(prefill_tokens, FLOOR) if configured is None else configured


def payload_bytes(hidden_size: int, top_k: int) -> int:
    """Bytes of one token sent and returned: bf16 hidden states twice, expert ids and weights once.

    SGLang takes the larger of the bf16 and the quantised payload, which is always the bf16 one.
    """
    return _sent(hidden_size, top_k) + _returned(hidden_size)


def workspace_bytes(ep_size: int, tokens: Int, hidden_size: int, top_k: int) -> Int:
    """Bytes of the workspace on each rank; `tokens` as `workspace_tokens` gives them.

    A speculative draft model with MoE layers has a second one. The device rounds it up to its
    allocation granularity.
    """
    slots = ep_size * tokens
    parts = (slots * _sent(hidden_size, top_k), slots * _returned(hidden_size))
    return table_bytes(ep_size, tokens) + sum(ceil_align(part, LINE) for part in parts)


def table_bytes(ep_size: int, tokens: Int) -> Int:
    """Bytes before the payloads: counters, two rows of flags, and two tables of int32 a token."""
    counters = ceil_align((2 + 2 * ep_size) * INT32, LINE)
    flags = ceil_align(ep_size * INT32, LINE)
    routes = ceil_align(tokens * MOST_TOP_K * INT32, LINE)
    return counters + 2 * flags + 2 * routes


def _sent(hidden_size: int, top_k: int) -> int:
    return 2 * hidden_size + 2 * INT32 * top_k


def _returned(hidden_size: int) -> int:
    return 2 * hidden_size
