"""How the engine lays its ranks out: DP attention, context parallelism, MoE (per release).

Source: `_handle_data_parallelism`, `_handle_legacy_cp_arguments` and the model hooks of
srt/server_args.py (0.5.14) and srt/arg_groups/parallel_hook.py (from 0.5.20).
"""

from __future__ import annotations

from eagerbuf.read.flags import UNREAD
from eagerbuf.read.settings import Known, Settings, Value

CP = "enable_prefill_cp"
FORMER_CP = {  # switch -> the modes that go with it, and whether it is zigzag by default
    "enable_dsa_prefill_context_parallel": (("dsa_prefill_cp_mode", "nsa_prefill_cp_mode"), False),
    "enable_nsa_prefill_context_parallel": (("nsa_prefill_cp_mode", "dsa_prefill_cp_mode"), False),
    "enable_prefill_context_parallel": (("prefill_cp_mode",), True),
}


def enable_dp_attention(s: Settings, _: Known) -> Value | None:
    """On with more than one attention DP rank, whichever spelling says so (0.5.22 split them)."""
    ranks = s.on("attn_dp_size", "dwdp_size")
    if ranks:
        _refuse_both(s)
        return Value(True, ranks.source)
    flag, dp = s.get("enable_dp_attention", False), s.get("dp_size", 1)
    if flag is None or s.get("attn_dp_size", 1) is None:
        return None
    if not flag.value:
        return None if _model_decides_dp(s) else Value(False, flag.source)
    return None if dp is None else Value(dp.value > 1, flag.source)


def _refuse_both(s: Settings) -> None:
    ranks, replicas = s.by_flag("attn_dp_size"), s.by_flag("dp_size")
    if ranks and replicas:
        raise ValueError(
            f"--dp-size {replicas.value} with --attn-dp-size {ranks.value}: SGLang refuses "
            "replicas combined with attention DP; give one of them"
        )


def _model_decides_dp(s: Settings) -> bool:
    """Under CP, MLA and DSA models turn DP attention on; flags do not say which model it is."""
    return s.by_flag("dp_size") is not None and cp_by_flag(s)


def dp_size(s: Settings, known: Known) -> Value | None:
    """Attention DP ranks under DP attention, else replicas."""
    attention = known["enable_dp_attention"]
    ranks = s.on("attn_dp_size", "dwdp_size") if attention and attention.value else None
    return ranks or s.get("dp_size", 1)


def attention_ranks(known: Known) -> int | None:
    """Attention DP ranks that share one budget of tokens and requests; None where not known."""
    attention, size = known["enable_dp_attention"], known["dp_size"]
    if attention is None or not attention.value:
        return None if attention is None else 1
    return None if size is None else int(size.value)


def cp_switch(s: Settings) -> Value | None:
    """The flag or field that turns context parallelism on, if one does."""
    return s.on(CP, *FORMER_CP)


def cp_by_flag(s: Settings) -> bool:
    """Whether a command turns it on: then the model may set sizes that flags do not show."""
    switch = cp_switch(s)
    return switch is not None and switch.source == "flag"


def attn_cp_size(s: Settings, _: Known) -> Value | None:
    """Under CP, DSA and MLA models set it themselves, so that flags alone do not tell it."""
    if cp_by_flag(s) and "attn_cp_size" not in s.values:
        return None
    return s.get("attn_cp_size", 1)


def cp_zigzag(s: Settings, _: Known) -> Value | None:
    """Whether CP splits zigzag, formerly called in-seq-split."""
    switch = cp_switch(s)
    if switch is None:
        return s.get(CP, False)
    strategy = s.get("cp_strategy")
    if strategy is None or strategy.value:
        return strategy and Value(strategy.value == "zigzag", strategy.source)
    for name in FORMER_CP:
        if s.on(name):
            return _former_zigzag(s, name)
    if switch.source == "flag":
        raise ValueError("--enable-prefill-cp: SGLang wants --cp-strategy zigzag or interleave too")
    return None


def _former_zigzag(s: Settings, switch: str) -> Value | None:
    modes, zigzag = FORMER_CP[switch]
    mode = next((s.values[name] for name in modes if name in s.values), None)
    if mode is None:
        return None if s.partial else Value(zigzag, "default")
    return None if mode.value is UNREAD else Value(mode.value == "in-seq-split", mode.source)


def moe_dense_tp_size(s: Settings, _: Known) -> Value | None:
    """Under CP, DSA and MLA models set it to 1."""
    dwdp = s.on("dwdp_size")
    if dwdp:
        return Value(1, dwdp.source)
    if cp_by_flag(s) and "moe_dense_tp_size" not in s.values:
        return None
    return s.get("moe_dense_tp_size")


def moe_a2a_backend(s: Settings, _: Known) -> Value | None:
    """Under CP, some models set it to deepep."""
    dwdp = s.on("dwdp_size")
    if dwdp:
        return Value("none", dwdp.source)
    if cp_by_flag(s) and "moe_a2a_backend" not in s.values:
        return None
    found = s.get("moe_a2a_backend", "none")
    return Value("none", found.source) if found and found.value is None else found


def attn_tp_input_scattered(s: Settings, known: Known) -> Value | None:
    """Only with tp > 1, and without DP attention, all-to-all, dense TP 1 and EAGLE3."""
    flag = s.get("enable_attn_tp_input_scattered", False)
    if flag is None or not flag.value:
        return flag
    tp, attention = known["tp_size"], known["enable_dp_attention"]
    backend, dense = known["moe_a2a_backend"], known["moe_dense_tp_size"]
    algorithm = s.get("speculative_algorithm")
    if tp is None or attention is None or backend is None or algorithm is None:
        return None
    off = attention.value or backend.value != "none" or (dense is not None and dense.value == 1)
    off = off or tp.value < 2 or str(algorithm.value).upper() == "EAGLE3"
    return Value(not off, flag.source)
