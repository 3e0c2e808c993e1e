"""read_config and read_servers: what a text says about the servers in it, resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eagerbuf.config import FIELDS, check_value
from eagerbuf.read.layout import attention_ranks
from eagerbuf.read.options import list_for
from eagerbuf.read.reading import NO_COPY, ON, Reading, make_reading
from eagerbuf.read.resolve import CHUNK_OFF, effective
from eagerbuf.read.served import served_model
from eagerbuf.read.servers import Log, Server, servers
from eagerbuf.read.settings import Known, Settings, Value
from eagerbuf.read.sized import also_sized
from eagerbuf.read.startup import tags_in
from eagerbuf.read.text import plain, shown
from eagerbuf.read.unwrap import unwrap

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
_FILES = ("--env-file", "envFrom:", "env_file:", "EnvironmentFile=", "environmentFiles")


def read_config(
    text: str, *, release: str | None = None, gpu_mem_gib: float | None = None, **overrides: Any
) -> Reading:
    """What a launch command, config file, Kubernetes list or start-up log sets, resolved.

    `release`: SGLang's ("0.5.14"); else an image's tag in the text, else the newest known that has
    the flags, says which flags there are. `gpu_mem_gib`: memory of one GPU in GiB, for the default
    chunk. `overrides`: fields of `EngineConfig`, effective values; they beat the text, and in the
    text a log beats a command (comments and prose beside one are no log). Nothing is evaluated,
    executed or opened; a literal that the text assigns to a name stands in that name's place.
    ValueError, one line, for text that holds none of these, or several servers (`read_servers`
    takes them), is too long or contradicts itself, and for words that this release refuses.
    """
    found = read_servers(text, release=release, gpu_mem_gib=gpu_mem_gib, **overrides)
    if len(found) > 1:
        names = shown(", ".join(reading.name for reading in found))
        raise ValueError(
            f"text: {len(found)} servers that differ in {_differing(found)} ({names}); give one of "
            "them, or take read_servers for all"
        )
    return found[0]


def read_servers(
    text: str, *, release: str | None = None, gpu_mem_gib: float | None = None, **overrides: Any
) -> list[Reading]:
    """Every server in a text, as `read_config` reads one, each with its `name`.

    A name is the server's role, service or container, else the line where its command begins.
    `gpu_mem_gib`: memory of one GPU in GiB; `overrides` (effective values of one rank) hold for
    every server. ValueError as `read_config` raises it, but not for several servers.
    """
    options: Known = {n: _option(n, v) for n, v in overrides.items() if v is not None}
    memory = _memory(gpu_mem_gib)
    text = plain(text)
    return [_reading(server, text, options, memory) for server in servers(unwrap(text), release)]


def _differing(found: list[Reading]) -> str:
    first, *others = found
    names = [n for n in FIELDS if any(o.values[n] != first.values[n] for o in others)]
    return shown(", ".join(names) or "what they do not show")


def _reading(server: Server, text: str, options: Known, memory: float | None) -> Reading:
    """One server: its settings, and what the engine makes of them."""
    log, flags = server.log, server.flags
    settings = Settings(*_settings(server), list_for(server.release), memory)
    given = {**_log_values(log), **options}
    known = effective(settings, given)
    notes = _forget_what_tags_contradict(known, given, server)
    env = dict(server.launch.env) if server.launch else {}
    decided = log.startup.dump is not None and log.startup.dump.complete
    remarks = [*server.notes, *log.notes, *log.startup.notes, *flags.notes, *notes]
    remarks += [*_remarks(settings, log, known), *_doubts(text, env)]
    told = bool(options or memory or log.startup.found or log.profile or server.flags.partial)
    told = told or server.launch is None or server.launch.sizes
    if server.launch is not None and server.launch.bench and flags.bench is None:
        told = False
    elif not told:
        remarks.append(
            "none of the flags sizes a buffer: if the command is whole, say so with one that does, "
            "such as --tp-size 1"
        )
    remarks += also_sized([server.launch] if server.launch else [], env)
    chunk = settings.values.get("chunked_prefill_size")
    return make_reading(
        known,
        env=env,
        bench=flags.bench,
        release=server.release,
        notes=remarks,
        unread=() if decided else flags.notes,
        model=served_model([server.launch] if server.launch else [], log.text),
        profile=log.profile,
        chunk_may_be_off=log.startup.torn
        or (chunk is not None and settings.get(_CHUNK) is None)
        or (chunk is None and settings.partial),
        name=server.name,
        told=told,
    )


_CHUNK = "chunked_prefill_size"


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


def _settings(server: Server) -> tuple[Mapping[str, Value], bool]:
    """What the command sets under what the log's dump shows, and whether there may be more."""
    by_flag = {name: Value(value, "flag") for name, value in server.flags.values.items()}
    dump = server.log.startup.dump
    if dump is None:
        return by_flag, server.flags.partial
    dumped = {name: Value(value, "log") for name, value in dump.values.items()}
    if dump.complete:
        return dumped, False
    return {**by_flag, **dumped}, server.flags.partial or not by_flag


def _log_values(log: Log) -> Known:
    """Effective values of the resolved line; chunking off is printed as -1 or None."""
    found = log.startup
    line = found.line.values if found.line else {}
    values: Known = {n: Value(value, "log") for n, value in line.items() if value is not None}
    for name, value in found.limits.items():
        values.setdefault(name, Value(value, "log"))
    if found.dump and found.dump.pool is not None:
        values.setdefault("max_total_num_tokens", Value(found.dump.pool, "log"))
    if found.torn:
        values[_CHUNK] = None
    if line.get(_CHUNK, 0) is None:
        values[_CHUNK] = Value(CHUNK_OFF, "log")
    if found.found and _WHOLE_PROMPTS in log.last:
        values["admits_whole_prompts"] = Value(True, "log")
    return values


def _forget_what_tags_contradict(known: Known, given: Known, server: Server) -> list[str]:
    """Rank tags tell which sizes are not 1, whatever a command or a default says; notes on it."""
    found, log = server.log.startup, server.log
    if found.dump is not None:
        return []
    alone = server.launch is None
    tags = tags_in(log.last) if found.found or not alone else frozenset()
    doubtful = {name for tag in tags for name in _TAG_SHOWS.get(tag, ())}
    notes = []
    if not alone:
        contradicted = sorted(tag for tag in tags if _contradicts(known, tag))
        doubtful = {name for tag in contradicted for name in _TAG_SHOWS[tag]}
        if "DP" in contradicted:
            doubtful |= {"chunked_prefill_size", "max_running_requests"}
        if contradicted:
            notes.append(
                f"the log's rank tags ({', '.join(contradicted)}) show sizes over 1 that the "
                "command does not set: the command is not the whole story, so they are not known"
            )
    elif found.found:
        doubtful |= {"num_tokens_per_bs"} if _SPECULATES in log.last else set()
        doubtful.add(_CHUNK)  # where the line lacks it, a flag may have set it
    for name in doubtful:
        held = known[name]
        contradicted_here = not alone and given.get(name) is None
        if held is not None and (held.source == "default" or contradicted_here):
            known[name] = None
    return notes


def _contradicts(known: Known, tag: str) -> bool:
    """Whether a rank tag stands in a log although the size that it tells of is 1."""
    size = {"TP": "tp_size", "PP": "pp_size", "DP": "dp_size", "ATTN_CP": "attn_cp_size"}.get(tag)
    held = known[size] if size else None
    return held is not None and held.value == 1


def _remarks(settings: Settings, log: Log, known: Known) -> list[str]:
    found = log.startup
    notes = list(_other_chunk(settings, log, attention_ranks(known)))
    if found.dump and not found.dump.complete:
        notes.append(str(found.dump))
    if found.line and not found.dump and not settings.values:
        notes.append("only the resolved-values line: all other fields are taken at their defaults")
    limit = settings.values.get("max_total_tokens")
    if limit and limit.value is not None and not found.line:
        notes.append("max_total_tokens is a limit: a smaller GPU may leave a smaller KV pool")
    if settings.on("max_mamba_cache_size") and not found.line:
        notes.append("a Mamba cache may cap the running requests further")
    return notes


def _other_chunk(settings: Settings, log: Log, ranks: int | None) -> Iterator[str]:
    """A remark on a log whose chunk is not that of the command that stands beside it."""
    flag = settings.values.get(_CHUNK)
    line = log.startup.line
    if not line or not flag or flag.source != "flag" or not isinstance(flag.value, int):
        return
    has = line.values.get(_CHUNK, flag.value)
    both_off = flag.value <= 0 and (has or CHUNK_OFF) <= 0
    if ranks and not both_off and has not in (flag.value, flag.value // ranks):
        yield f"the log shows chunked_prefill_size={has}, the command {flag.value}: the log counts"


def _doubts(text: str, env: Mapping[str, str]) -> Iterator[str]:
    """Notes where copying may be off without the text being certain of it."""
    if env.get(NO_COPY, "").lower() in ON or (env.get(NO_COPY)):
        return
    place = text.find(NO_COPY)
    if place >= 0 and not _says_off(text, place):
        yield f"{NO_COPY}: in the text, but not known to be in effect, so it is taken as off"
    for word in _FILES:
        if word in text:
            yield f"{word.rstrip('=:')}: what it sets is not known; {NO_COPY} is taken as off"


def _says_off(text: str, place: int) -> bool:
    value = text[place + len(NO_COPY) :][:12].lstrip("=: \"'").split("\n")[0].lower()
    return value.startswith(("0", "no", "false", "off"))
