"""What else a command turns on that SGLang sizes by `max_prefill_buffer_tokens`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eagerbuf.read.launch import Launch

EXTEND_AUTOTUNE = "SGLANG_FLASHINFER_AUTOTUNE_EXTEND"
# flag and value -> the consumer, and the release since when it reads the number
USES = {
    ("--disaggregation-mode", "prefill"): ("its DCP pack buffers", "0.5.19"),
    ("--dsv4-attn-backend", "trtllm"): ("the DSV4 TRT-LLM attention's counters", "0.5.20"),
    ("--attention-backend", "trtllm_mha"): ("the TRT-LLM MHA output", "0.5.21"),
    ("--prefill-attention-backend", "trtllm_mha"): ("the TRT-LLM MHA output", "0.5.21"),
    ("--moe-runner-backend", "flashinfer_megamoe"): ("MegaMoE's prefill profile", "0.5.22"),
    ("--moe-runner-backend", "flashinfer_cutlass"): ("the cutlass MoE tuning range", "0.5.23"),
}


def also_sized(launches: Sequence[Launch], env: Mapping[str, str]) -> Iterator[str]:
    """A note for each such consumer, under dynamic chunking, where the number has a spare part."""
    for launch in launches:
        if "--enable-dynamic-chunking" not in launch.argv:
            continue
        words = {*pairwise(launch.argv), *(_split(word) for word in launch.argv)}
        for flag, value in USES:
            if (flag, value) in words:
                what, since = USES[flag, value]
                yield f"{flag} {value}: from {since} max_prefill_tokens also sizes {what}"
        if env.get(EXTEND_AUTOTUNE, "").lower() in ("1", "true", "yes", "y"):
            yield f"{EXTEND_AUTOTUNE}: from 0.5.19 max_prefill_tokens also sizes its dummy batch"


def _split(word: str) -> tuple[str, str]:
    flag, _, value = word.partition("=")
    return flag, value
