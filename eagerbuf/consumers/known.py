"""Who reads the number, since which release, for what, and how far that was checked here."""

from __future__ import annotations

from dataclasses import dataclass

from eagerbuf.consumers import workspace

ALLOCATES, CHECKS, TUNES = "allocates", "checks", "tunes"


@dataclass(frozen=True)
class Consumer:
    """One reader of `max_prefill_buffer_tokens`, called n in its formula.

    `source`: the file under srt/ that reads it in the newest release; `active`: the settings under
    which it counts; `tight`: whether the tight number could take n's place, and what would change;
    `executed`: what of the released code this project runs beside its own formula; `flags`: words
    of a command, one of which turns it on, where `eagerbuf check` says so in a note.
    """

    name: str
    since: str
    kind: str
    source: str
    active: str
    formula: str
    tight: str
    executed: str
    flags: tuple[str, ...] = ()


CONSUMERS = (
    Consumer(
        "eager input buffers",
        "0.5.14",
        ALLOCATES,
        "model_executor/runner/eager_runner.py",
        "always; from 0.5.15 n counts only where the KV pool is smaller",
        "48 bytes x n",
        "yes",
        "the sizing",
    ),
    Consumer(
        "reserve for eager prefill activations",
        "0.5.17",
        CHECKS,
        "arg_groups/overrides.py",
        "prefill CUDA graphs, no MLA, no PD decode server",
        "kept where n > largest captured prefill",
        "yes: graphs up to the tight number would be enough",
        "nothing",
    ),
    Consumer(
        "DCP pack buffers",
        "0.5.19",
        ALLOCATES,
        "disaggregation/common/conn.py",
        "PD prefill server, MLA, once a decode server with DCP registers",
        "queues x dcp_size x ceil(n / dcp_size) x KV bytes a token; n in whole pages from 0.5.21",
        "yes: a longer transfer (a cached prefix) is sent row by row, as it is above n today",
        "dcp_pack_buffer_bytes",
        ("--disaggregation-mode prefill",),
    ),
    Consumer(
        "DeepEP v2 start-up check",
        "0.5.19",
        CHECKS,
        "arg_groups/moe_hook.py",
        "--moe-a2a-backend deepep_v2, no PD decode server",
        "n, from 0.5.22 n / (TP / attention DP), <= DeepEP v2's capacity variable (128 by default)",
        "yes: the variable, and the buffer behind it, could be as much smaller",
        "the check",
    ),
    Consumer(
        "extend autotune",
        "0.5.19",
        TUNES,
        "model_executor/runner/flashinfer_autotune.py",
        "SGLANG_FLASHINFER_AUTOTUNE_EXTEND=1 (off by default)",
        "one dummy forward of n tokens at start-up",
        "yes: the longest live batch is then tuned for",
        "nothing",
        ("SGLANG_FLASHINFER_AUTOTUNE_EXTEND=1",),
    ),
    Consumer(
        "DSV4 TRT-LLM attention",
        "0.5.20",
        ALLOCATES,
        "layers/attention/deepseek_v4_trtllm_backend.py",
        "--dsv4-attn-backend trtllm",
        "4 bytes x heads x max(max_prefill_tokens, n, decode tokens)",
        "yes, and max_prefill_tokens need not count with chunking on",
        "the row capacity",
        ("--dsv4-attn-backend trtllm",),
    ),
    Consumer(
        "TRT-LLM MHA output",
        "0.5.21",
        ALLOCATES,
        "layers/attention/trtllm_mha_backend.py",
        "trtllm_mha with a native NVFP4 KV cache (SM100)",
        "max(n, decode tokens) x heads x head_dim bytes",
        "yes",
        "the row capacity",
        ("--attention-backend trtllm_mha", "--prefill-attention-backend trtllm_mha"),
    ),
    Consumer(
        "FlashInfer all-to-all workspace",
        workspace.SINCE,
        ALLOCATES,
        "layers/moe/token_dispatcher/flashinfer.py",
        "--moe-a2a-backend flashinfer (attention DP = TP = EP)",
        "ep_size x max(n, 4096) x (4 x hidden_size + 8 x top_k) bytes, and a table of 176 a token",
        "yes; in 0.5.23 eager prefill is gathered instead: decode and prefill graphs would do",
        "its sizing, the table's C++, how it dispatches, the start-up checks",
    ),
    Consumer(
        "MegaMoE prefill profile",
        "0.5.22",
        ALLOCATES,
        "model_executor/runner/flashinfer_autotune.py",
        "--moe-runner-backend flashinfer_megamoe, autotune on",
        "a workspace for n tokens, tuned and kept; its bytes are FlashInfer's own",
        "yes: more tokens than n are refused, and no batch has more",
        "nothing",
        ("--moe-runner-backend flashinfer_megamoe",),
    ),
    Consumer(
        "cutlass MoE tuning range",
        "0.5.23",
        TUNES,
        "layers/moe/moe_runner/flashinfer_cutlass.py",
        "--moe-runner-backend flashinfer_cutlass, no PD decode server",
        "min(n x attention DP ranks, 8192) tokens",
        "yes: the same but where the tight number leaves less than 8192",
        "the range",
        ("--moe-runner-backend flashinfer_cutlass",),
    ),
)
