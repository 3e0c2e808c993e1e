"""read_config: a launch command, a config file, a Kubernetes list or a start-up log -> Reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eagerbuf.config import FIELDS, check_value
from eagerbuf.read.environment import doubts, in_effect
from eagerbuf.read.find import agreed_flags, find_launches, release_of
from eagerbuf.read.flags import Flags
from eagerbuf.read.launch import Launch
from eagerbuf.read.layout import attention_ranks
from eagerbuf.read.logged import log_part
from eagerbuf.read.options import list_for
from eagerbuf.read.profile import profile_in
from eagerbuf.read.reading import NO_COPY, ON, Reading, make_reading
from eagerbuf.read.resolve import CHUNK_OFF, effective
from eagerbuf.read.served import served_model
from eagerbuf.read.settings import Known, Settings, Value
from eagerbuf.read.sized import also_sized
from eagerbuf.read.startup import Startup, startup
from eagerbuf.read.text import plain, shown

MAX_GPU_GIB = 2**16

_WHOLE_PROMPTS = "Chunked prefill is disabled for multimodal models with the"
_SPECULATES = ", accept len: "
_TAG_SHOWS = {  # a rank tag appears only where its size is over 1
    "TP": ("tp_size",),
    "PP": ("pp_size", "enable_dynamic_chunking"),
    "DP": ("dp_size", "enable_dp_attention"),
    "ATTN_CP": ("attn_cp_size", "cp_zigzag"),
    "EP": ("moe_a2a_backend",),
}


def read_config(
    text: str, *, release: str | None = None, gpu_mem_gib: float | None = None, **overrides: Any
) -> Reading:
    """What a launch command, config file, Kubernetes list or start-up log sets, resolved.

    `release`: SGLang's ("0.5.14"); else an image's tag in the text, else the newest known, says
    which flags there are. `gpu_mem_gib`: memory of one GPU in GiB, for the default chunk.
    `overrides`: fields of `EngineConfig`, effective values; they beat the text, and in the text a
    log beats a command (comments and prose beside one are no log). Nothing is evaluated, expanded
    or executed, and no file is opened.
    ValueError, one line, for text that holds none of these, is too long or contradicts itself, and
    for flags that this release's argparse refuses.
    """
    text = plain(text)
    options = {name: _option(name, v) for name, v in overrides.items() if v is not None}
    memory = _memory(gpu_mem_gib)
    logged, prose = log_part(text)
    log = startup(logged)
    last = logged[log.begins :]
    profile = profile_in(last)
    launches = find_launches(text, log, alone=profile is not None)
    named, remarks = release_of(release, launches, text)
    decided = log.dump is not None and log.dump.complete
    flags = agreed_flags(launches, named, text, log_decides=decided)
    if not launches and not log.found:
        flags = replace(flags, partial=True)
    settings = Settings(*_settings(flags, log), list_for(named), memory)
    known = effective(settings, {**_log_values(log, last), **options})
    if log.dump is None and not launches:
        _forget_what_tags_contradict(known, log, text)
    env = _environment(launches) if launches else in_effect(text, len(text))
    sized = [*doubts(text, env, NO_COPY, ON), *also_sized(launches, env)]
    return make_reading(
        known,
        env=env,
        bench=flags.bench,
        release=named,
        notes=[*remarks, *prose, *log.notes, *flags.notes, *_remarks(settings, log, known), *sized],
        unread=() if decided else flags.notes,
        model=served_model(launches, text),
        profile=profile,
        chunk_may_be_off=log.torn or settings.get("chunked_prefill_size") is None,
    )


def _environment(launches: Sequence[Launch]) -> dict[str, str]:
    """The variables of all commands, the last one's value where they differ.

    Copying is off only if it is off for each of them.
    """
    env = {name: value for launch in launches for name, value in launch.env.items()}
    if any(launch.env.get(NO_COPY, "").lower() not in ON for launch in launches):
        env.pop(NO_COPY if len(launches) > 1 else "", None)
    return env


def _option(name: str, value: Any) -> Value:
    if name not in FIELDS:
        raise ValueError(f"{shown(name)}: no field of EngineConfig; there are {', '.join(FIELDS)}")
    return Value(check_value(name, value), "option")


def _memory(gib: float | None) -> float | None:
    if gib is None:
        return None
    if isinstance(gib, bool) or not isinstance(gib, (int, float)) or not 0 < gib <= MAX_GPU_GIB:
        raise ValueError(f"gpu_mem_gib={shown(gib)}: give the GiB of one GPU, up to {MAX_GPU_GIB}")
    return float(gib)


def _settings(flags: Flags, log: Startup) -> tuple[Mapping[str, Value], bool]:
    """What the command sets under what the log's dump shows, and whether there may be more."""
    by_flag = {name: Value(value, "flag") for name, value in flags.values.items()}
    if log.dump is None:
        return by_flag, flags.partial
    dumped = {name: Value(value, "log") for name, value in log.dump.values.items()}
    if log.dump.complete:
        return dumped, False
    return {**by_flag, **dumped}, flags.partial or not by_flag


def _log_values(log: Startup, text: str) -> Known:
    """Effective values of the resolved line; chunking off is printed as -1 or None."""
    line = log.line.values if log.line else {}
    values: Known = {n: Value(value, "log") for n, value in line.items() if value is not None}
    if log.dump and log.dump.pool is not None:
        values.setdefault("max_total_num_tokens", Value(log.dump.pool, "log"))
    if log.torn:
        values["chunked_prefill_size"] = None
    if line.get("chunked_prefill_size", 0) is None:
        values["chunked_prefill_size"] = Value(CHUNK_OFF, "log")
    if log.found and _WHOLE_PROMPTS in text:
        values["admits_whole_prompts"] = Value(True, "log")
    return values


def _forget_what_tags_contradict(known: Known, log: Startup, text: str) -> None:
    """With the resolved line alone, rank tags and batch lines tell which defaults are wrong."""
    tags = log.line.tags if log.line else frozenset()
    doubtful = [name for tag in tags for name in _TAG_SHOWS.get(tag, ())]
    doubtful += ["num_tokens_per_bs"] if _SPECULATES in text else []
    doubtful.append("chunked_prefill_size")  # where the line lacks it, a flag may have set it
    for name in doubtful:
        held = known[name]
        if held is not None and held.source == "default":
            known[name] = None


def _remarks(settings: Settings, log: Startup, known: Known) -> list[str]:
    notes = list(_other_chunk(settings, log, attention_ranks(known)))
    if log.dump and not log.dump.complete:
        notes.append(str(log.dump))
    if log.line and not log.dump and not settings.values:
        notes.append("only the resolved-values line: all other fields are taken at their defaults")
    limit = settings.values.get("max_total_tokens")
    if limit and limit.value is not None and not log.line:
        notes.append("max_total_tokens is a limit: a smaller GPU may leave a smaller KV pool")
    if settings.on("max_mamba_cache_size") and not log.line:
        notes.append("a Mamba cache may cap the running requests further")
    return notes


def _other_chunk(settings: Settings, log: Startup, ranks: int | None) -> Iterator[str]:
    """A remark on a log whose chunk is not that of the command that stands beside it."""
    flag = settings.values.get("chunked_prefill_size")
    if not log.line or not flag or flag.source != "flag" or not isinstance(flag.value, int):
        return
    has = log.line.values.get("chunked_prefill_size", flag.value)
    both_off = flag.value <= 0 and (has or CHUNK_OFF) <= 0
    if ranks and not both_off and has not in (flag.value, flag.value // ranks):
        yield f"the log shows chunked_prefill_size={has}, the command {flag.value}: the log counts"
