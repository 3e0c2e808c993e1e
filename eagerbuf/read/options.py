"""The option strings of every SGLang release (data/flags.csv), and which of them concern sizing.

The table lists every option of `ServerArgs.add_cli_args` (srt/server_args.py and, later,
srt/arg_groups/fields) and of `bench_one_batch`: a prefix is resolved among all of them.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from eagerbuf import _csv

_SPLITS = ("in-seq-split", "round-robin-split")
CHOICES: dict[str, tuple[str, ...]] = {
    "cp_strategy": ("zigzag", "interleave"),
    "prefill_cp_mode": _SPLITS[:1],
    "nsa_prefill_cp_mode": _SPLITS,
    "dsa_prefill_cp_mode": _SPLITS,
}
WHOLE = frozenset(
    [
        "tp_size",
        "pp_size",
        "dp_size",
        "attn_dp_size",
        "attn_cp_size",
        "dwdp_size",
        "page_size",
        "moe_dense_tp_size",
        "chunked_prefill_size",
        "max_running_requests",
        "max_mamba_cache_size",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_dflash_block_size",
        "speculative_dspark_block_size",
    ]
)
SUFFIXED = frozenset(["max_prefill_tokens", "max_total_tokens", "context_length"])
SUFFIXES_SINCE = "0.5.10"
SWITCHES = frozenset(
    [
        "enable_dp_attention",
        "enable_dynamic_chunking",
        "enable_mixed_chunk",
        "disable_radix_cache",
        "disable_attn_tp_gather",
        "enable_attn_tp_input_scattered",
        "enable_prefill_cp",
        "enable_mis",
        "enable_nsa_prefill_context_parallel",
        "enable_dsa_prefill_context_parallel",
        "enable_prefill_context_parallel",
        "speculative_adaptive",
        "enable_multi_layer_eagle",
        "enable_two_batch_overlap",
        "enable_pdmux",
        "disaggregation_decode_enable_radix_cache",
        "enable_deterministic_inference",
    ]
)
WORDS = frozenset(CHOICES) | frozenset(
    [
        "moe_a2a_backend",
        "speculative_algorithm",
        "speculative_adaptive_config",
        "dllm_algorithm",
        "model_impl",
        "attention_backend",
        "decode_attention_backend",
        "prefill_attention_backend",
        "disaggregation_mode",
    ]
)
LISTS = frozenset(["batch_size", "input_len"])
MODEL = ("model", "model_path")
SHORTEST_PREFIX = 4  # characters, as in "--tp"
LONGEST_NAME = 100  # characters of a flag; SGLang's longest has 62
SIZING = WHOLE | SUFFIXED | SWITCHES | WORDS

_LONG_NAMES = {
    "--tensor-parallel-size": "tp_size",
    "--pipeline-parallel-size": "pp_size",
    "--data-parallel-size": "dp_size",
    "--attention-data-parallel-size": "attn_dp_size",
    "--attention-context-parallel-size": "attn_cp_size",
}
_MAIN = "0.5.14"  # the flags of the stretch of main before that release

Version = tuple[int, ...]
SCHEMA = dict.fromkeys(("option", "args", "first", "last", "program", "source"), str)


class Option(NamedTuple):
    """An option string, its values ("0", "1", "?", "*", "+") and the releases that have it."""

    name: str
    args: str
    first: str
    last: str
    program: str
    source: str

    @property
    def field(self) -> str:
        """The field of `ServerArgs` (or of the benchmark's arguments) that it sets."""
        return _LONG_NAMES.get(self.name) or self.name.lstrip("-").replace("-", "_")

    @property
    def sizes(self) -> bool:
        """Whether the size of a buffer, or of a batch, may depend on it."""
        return self.field in SIZING


@cache
def version(release: str) -> Version:
    """Sortable form of a release name: "0.5.12.post1" -> (0, 5, 12, 1)."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", release)[:4])


def release_name(at: Version) -> str:
    """The name that `version` came from."""
    return ".".join(map(str, at[:3])) + "".join(f".post{post}" for post in at[3:])


@cache
def table() -> tuple[Option, ...]:
    """All rows of data/flags.csv."""
    return tuple(Option(*row.values()) for row in _csv.table("flags.csv", SCHEMA))


@cache
def names() -> frozenset[str]:
    """Every option string that any release has."""
    return frozenset(option.name for option in table())


@cache
def field_names() -> frozenset[str]:
    """Every field that an option of any release sets."""
    return frozenset(option.field for option in table()) | SIZING


def is_option(word: str) -> bool:
    """Whether some release has this very option ("--flag", or "--flag=value")."""
    return word.partition("=")[0] in names()


@cache
def begins_option(word: str) -> bool:
    """Whether some release has an option that begins like this one ("--tp")."""
    return word.startswith("--") and any(name.startswith(word) for name in names())


def names_sizing(word: str) -> bool:
    """Whether a word is, or begins like, a flag that concerns sizing or names the model."""
    name = word.partition("=")[0]
    return SHORTEST_PREFIX <= len(name) <= LONGEST_NAME and _begins_sizing(name)


@lru_cache(maxsize=4096)
def _begins_sizing(name: str) -> bool:
    if not name.startswith("--"):
        return False
    return any(o.name.startswith(name) and (o.sizes or o.field in MODEL) for o in table())


@cache
def listed() -> tuple[Version, ...]:
    """The oldest and the newest release whose options are listed."""
    firsts, lasts = ({getattr(option, end) for option in table()} for end in ("first", "last"))
    return min(map(version, firsts)), max(map(version, lasts))


def list_for(release: str | None) -> Version:
    """The release whose options hold for `release`: the newest for None, the nearest listed."""
    oldest, newest = listed()
    if release is None:
        return newest
    at = version(_MAIN) if release.startswith("main") else version(release)
    return min(max(at, oldest), newest)


@cache
def options(at: Version, bench: bool) -> tuple[Option, ...]:
    """The options of one release, those of the benchmark among them if asked."""
    programs = ("server", "bench") if bench else ("server",)
    return tuple(
        option
        for option in table()
        if option.program in programs and version(option.first) <= at <= version(option.last)
    )


@cache
def _names_of(at: Version, bench: bool) -> frozenset[str]:
    return frozenset(option.name for option in options(at, bench))


@lru_cache(maxsize=4096)
def takes(name: str, at: Version, bench: bool) -> bool:
    """Whether a release's argparse takes a flag: it has it, or just one that begins so."""
    known = _names_of(at, bench)
    return name in known or sum(option.startswith(name) for option in known) == 1
