"""What speculative decoding changes: tokens of a request in one forward, and default requests.

Source: srt/arg_groups/speculative_hook.py; for the adaptive kind also adaptive_spec_params.py.
"""

from __future__ import annotations

from eagerbuf.read.options import Version, version
from eagerbuf.read.settings import Known, Settings, Value

REQUESTS = 48  # running requests where none are asked for
ADAPTIVE_TOKENS = 8  # the longest built-in candidate, 7 steps, and one more
NGRAM_TOKENS = 12
STANDALONE_TOKENS = 4  # 3 steps and one more
_EAGLES = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_ADAPTS = ("EAGLE", "EAGLE3", "NEXTN")
_MIXES = ("EAGLE", "EAGLE3", "NEXTN", "DFLASH", "DSPARK")
_MIXES_SINCE = "0.5.20"
_FALLS_BACK = ("enable_multi_layer_eagle", "enable_two_batch_overlap", "enable_pdmux")


def sets_requests(algorithm: str | None) -> bool:
    """Whether speculation sets `REQUESTS` where none are asked for (UNO does not)."""
    return bool(algorithm) and str(algorithm).upper() != "UNO"


def mixes_chunks(algorithm: str | None, release: Version) -> bool:
    """Whether mixed chunks stay on: without speculation, and for some kinds from 0.5.20."""
    return not algorithm or (release >= version(_MIXES_SINCE) and algorithm.upper() in _MIXES)


def num_tokens_per_bs(s: Settings, known: Known) -> Value | None:
    """Tokens of one request in a verify step of the target worker; 1 without speculation.

    Unknown where it depends on the model: EAGLE without parameters, the block size of a diffusion
    model, DFLASH without a block size.
    """
    algorithm, diffusion = s.get("speculative_algorithm"), s.get("dllm_algorithm")
    if algorithm is None or diffusion is None:
        return None
    if not algorithm.value:
        return None if diffusion.value else Value(1, algorithm.source)
    kind = str(algorithm.value).upper()
    if s.on("speculative_adaptive") and kind in _ADAPTS:
        return _adaptive(s, known["enable_dp_attention"], kind)
    return _fixed(s, kind)


def _adaptive(s: Settings, dp_attention: Value | None, kind: str) -> Value | None:
    """The longest candidate, unless something makes SGLang fall back to fixed parameters."""
    topk, switch = s.get("speculative_eagle_topk"), s.on("speculative_adaptive")
    if topk is None or dp_attention is None or switch is None:
        return None
    if topk.value not in (None, 1) or dp_attention.value or s.on(*_FALLS_BACK):
        return _fixed(s, kind)
    config_file = s.on("speculative_adaptive_config")
    return None if config_file else Value(ADAPTIVE_TOKENS, switch.source)


def _fixed(s: Settings, kind: str) -> Value | None:
    """Draft tokens as given; with one branch (topk 1) SGLang makes them steps + 1."""
    steps, topk = s.get("speculative_num_steps"), s.get("speculative_eagle_topk")
    if kind in _EAGLES and topk and topk.value == 1:
        return Value(steps.value + 1, steps.source) if steps and steps.value is not None else None
    block = s.on(f"speculative_{kind.lower()}_block_size")
    if block:
        return Value(block.value + (kind == "DSPARK"), block.source)
    draft = s.get("speculative_num_draft_tokens")
    if draft is None or draft.value is not None:
        return draft
    if kind == "NGRAM":
        return Value(NGRAM_TOKENS, "default")
    unset = steps and topk and steps.value is None and topk.value is None
    return Value(STANDALONE_TOKENS, "default") if kind == "STANDALONE" and unset else None
