"""From what a text sets to what the engine works with: SGLang's own resolution, per release.

Source: `ServerArgs.__post_init__` (0.5.14 to 0.5.19), the hooks in srt/arg_groups (from 0.5.20) and
`_resolve_max_num_reqs`. What depends on the model or the GPU is unknown unless the text gives it.
"""

from __future__ import annotations

from collections.abc import Callable

from eagerbuf.config import DEFAULTS, FIELDS, check_value
from eagerbuf.read import layout, pool, speculation
from eagerbuf.read.options import version
from eagerbuf.read.settings import Known, Settings, Value

CHUNK_OFF = -1
SMALL_GPU_GIB, FORMER_SMALL_GPU_GIB, SMALL_GPU_SINCE = 20, 35, "0.5.20"
PAGES = {  # tokens; the first one is taken where another is set, one backend after the other
    "flashmla": (64,),
    "cutlass_mla": (128,),
    "trtllm_mla": (64, 32),
    "tokenspeed_mla": (64, 32),
    "cutedsl_mla": (64, 32),
    "trtllm_mha": (64, 32, 16),
    "hpc_ops": (64,),
}
PREFILL_PAGES = ("trtllm_mha", "hpc_ops")  # for prefill alone, too
DUAL_CHUNK = "dual_chunk_flash_attn"
DETERMINISTIC = ("fa3", "triton", "ascend")  # keep the radix cache in deterministic inference
LATER_DETERMINISTIC, LATER_DETERMINISTIC_SINCE = "fa4", "0.5.19"
WIDE_PAGE, WIDE_PAGES_SINCE = 128, "0.5.17"  # of trtllm_mha

Rule = Callable[[Settings, Known], "Value | None"]


def effective(settings: Settings, given: Known) -> Known:
    """Every field of `EngineConfig`: effective value and source, or None where it is unknown.

    `given` values (a log's resolved line, options; None: unknown) stand as they are, and what
    depends on them follows: the KV pool caps the running requests. ValueError for settings that
    SGLang refuses, and for a value that its field cannot have, before it is computed with.
    """
    known: Known = {}
    for name, rule in RULES.items():
        held = given[name] if name in given else rule(settings, known)
        known[name] = held and Value(check_value(name, held.value), held.source)
    return {name: known[name] for name in FIELDS}


def _as_set(name: str) -> Rule:
    """The rule of a field that the engine takes as it is set."""

    def rule(s: Settings, _: Known) -> Value | None:
        found = s.get(name, DEFAULTS[name])
        return Value(DEFAULTS[name], "default") if found and found.value is None else found

    return rule


def _page_size(s: Settings, _: Known) -> Value | None:
    """As set, unless an attention backend knows only certain pages; the model may want its own."""
    found = _as_set("page_size")(s, {})
    if found is None or found.source == "log":
        return found
    held = [s.get(name) for name in ("attention_backend", "decode_attention_backend")]
    prefill = s.get("prefill_attention_backend")
    held += [prefill] if prefill and prefill.value in PREFILL_PAGES else []
    sources = {backend.value: backend.source for backend in held if backend}
    for name in filter(sources.__contains__, PAGES):
        wide = name == "trtllm_mha" and s.release >= version(WIDE_PAGES_SINCE)
        if found.value not in PAGES[name] and not (wide and found.value == WIDE_PAGE):
            found = Value(PAGES[name][0], sources[name])
    return found


def _chunked_prefill_size(s: Settings, known: Known) -> Value | None:
    """Per attention DP rank; a log shows it divided already. Multi-item scoring turns it off."""
    scoring = s.on("enable_mis")
    if scoring:
        return Value(CHUNK_OFF, scoring.source)
    chunk, ranks = s.get("chunked_prefill_size"), layout.attention_ranks(known)
    if chunk and chunk.value is None:
        chunk = _chunk_by_memory(s)
    if chunk is None or chunk.source == "log":
        return chunk
    return None if ranks is None else Value(chunk.value // ranks, chunk.source)


def _chunk_by_memory(s: Settings) -> Value | None:
    """SGLang's default for the memory of a GPU; unknown without it."""
    if s.gpu_mem_gib is None:
        return None
    small = SMALL_GPU_GIB if s.release >= version(SMALL_GPU_SINCE) else FORMER_SMALL_GPU_GIB
    for gib, chunk in ((small, 2048), (60, 4096), (160, 8192)):
        if s.gpu_mem_gib < gib:
            return Value(chunk, "default")
    return Value(16384, "default")


def _context_len(s: Settings, _: Known) -> Value | None:
    found = s.get("context_length")
    return found if found and found.value is not None else None


def _enable_mixed_chunk(s: Settings, _: Known) -> Value | None:
    """Speculation (some kinds until 0.5.20), diffusion and dual chunk attention turn it off."""
    flag, algorithm = s.get("enable_mixed_chunk", False), s.get("speculative_algorithm")
    if dual := _dual_chunk(s):
        return Value(False, dual.source)
    if flag is None or not flag.value or algorithm is None:
        return None if flag is None or flag.value else flag
    stays = speculation.mixes_chunks(algorithm.value, s.release) and not s.on("dllm_algorithm")
    return Value(stays, flag.source)


def _dual_chunk(s: Settings) -> Value | None:
    backend = s.on("attention_backend")
    return backend if backend and backend.value == DUAL_CHUNK else None


def _disable_radix_cache(s: Settings, _: Known) -> Value | None:
    """Scoring, dual chunk attention and a disaggregated decode server turn the radix cache off."""
    scoring, mode = s.on("enable_mis") or _dual_chunk(s), s.get("disaggregation_mode", "null")
    if scoring:
        return Value(True, scoring.source)
    if mode and mode.value == "decode":
        keeps = s.on("disaggregation_decode_enable_radix_cache")
        return Value(keeps is None, (keeps or mode).source)
    flag, switch = s.get("disable_radix_cache", False), s.by_flag("enable_deterministic_inference")
    if switch and flag and not flag.value:
        return _deterministic(s, switch)
    return flag if mode or (flag and flag.value) else None


def _deterministic(s: Settings, switch: Value) -> Value | None:
    """Only some attention backends keep the radix cache; the GPU decides where none is given."""
    backend = s.get("attention_backend")
    if backend is None or backend.value is None:
        return None
    later = s.release >= version(LATER_DETERMINISTIC_SINCE)
    keeps = (*DETERMINISTIC, LATER_DETERMINISTIC) if later else DETERMINISTIC
    return Value(backend.value not in keeps, switch.source)


def _admits_whole_prompts(s: Settings, _: Known) -> Value | None:
    """The Transformers backend does not chunk a multimodal model; flags do not tell the model."""
    found = s.get("model_impl", "auto")
    return None if found is None or found.value == "transformers" else Value(False, found.source)


RULES: dict[str, Rule] = {  # in this order: a rule may look at what stands above it
    "tp_size": _as_set("tp_size"),
    "pp_size": _as_set("pp_size"),
    "enable_dp_attention": layout.enable_dp_attention,
    "dp_size": layout.dp_size,
    "attn_cp_size": layout.attn_cp_size,
    "cp_zigzag": layout.cp_zigzag,
    "moe_dense_tp_size": layout.moe_dense_tp_size,
    "moe_a2a_backend": layout.moe_a2a_backend,
    "disable_attn_tp_gather": _as_set("disable_attn_tp_gather"),
    "attn_tp_input_scattered": layout.attn_tp_input_scattered,
    "page_size": _page_size,
    "max_total_num_tokens": pool.max_total_num_tokens,
    "context_len": _context_len,
    "max_prefill_tokens": _as_set("max_prefill_tokens"),
    "chunked_prefill_size": _chunked_prefill_size,
    "max_running_requests": pool.max_running_requests,
    "enable_dynamic_chunking": _as_set("enable_dynamic_chunking"),
    "enable_mixed_chunk": _enable_mixed_chunk,
    "disable_radix_cache": _disable_radix_cache,
    "admits_whole_prompts": _admits_whole_prompts,
    "num_tokens_per_bs": speculation.num_tokens_per_bs,
}
