"""What a start-up log shows: dumps of `ServerArgs` and the line of resolved values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from eagerbuf.read.dumps import Dump, dumps
from eagerbuf.read.text import RECORD, broken_places, pattern, places, rank_tags, record_from

MAX_LINE = 2**10  # characters of the resolved-values line
MAX_DIGITS = 15
MAX_LINES = 256  # resolved-values lines that are looked at

_TURNED_OFF = "Automatically turn off --chunked-prefill-size"  # after the dump, before the line
_LIMITS = {"max_num_reqs=": "max_running_requests", "#tokens: ": "max_total_num_tokens"}
_COUNT = pattern(r"\d{1,15}(?!\d|\.\d)")
MAX_RECORDS = 4096  # whose rank tags are looked at
_RESOLVED_FIELDS = (
    "max_total_num_tokens",
    "chunked_prefill_size",
    "max_prefill_tokens",
    "max_running_requests",
    "context_len",
)
_LAST_FIELDS = ("context_len", "available_gpu_mem", "available_cpu_mem")
_PAIR = pattern(r"[ ]*(?P<name>\w+)=(?P<value>-?\d+(?:\.\d+)?(?:[ ]?GB)?|None)(?P<comma>,?)")
_FIRST_WHOLE = pattern(r"(?:^|[\s(])(?=max_total_num_tokens=)|[\]\s,](?=\w+=)")


@dataclass(frozen=True)
class Line:
    """A resolved-values line: per-rank values (None as printed) and the kinds of its rank tags."""

    values: Mapping[str, int | None]
    tags: frozenset[str]
    place: int


@dataclass(frozen=True)
class Startup:
    """The last start-up in a text, which begins at `begins`, and remarks on it.

    `torn`: no resolved-values line shows the dump's chunk, so that they are not of one server;
    `limits`: pool and requests of lines that a start-up prints before its resolved values.
    """

    dump: Dump | None = None
    line: Line | None = None
    notes: tuple[str, ...] = ()
    begins: int = 0
    torn: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether the text shows a start-up at all."""
        return self.dump is not None or self.line is not None or bool(self.limits)


def startup(text: str) -> Startup:
    """What the last start-up in a text shows; a dump that differs from the one before begins one.

    Ranks and nodes print the same dump each. Of logs that lie in each other, the line of the last
    dump's server counts: of its pod or container, and with its chunk.
    """
    found, lines = dumps(text), list(_lines(text))
    if not found:
        return Startup(None, *_last(lines), limits=_limits(text, 0))
    dump, notes = found[-1], []
    changes = [later.place for dump, later in pairwise(found) if dump.values != later.values]
    begins = changes[-1] if changes else 0
    if changes:
        notes.append(f"{len(changes) + 1} start-ups in the log: the last one counts")
        lines = [line for line in lines if line.place > begins]
    turned_off = text.find(_TURNED_OFF, begins) >= 0
    agreeing = [line for line in lines if _same_chunk(dump, line, turned_off)]
    torn = bool(lines) and not agreeing
    if torn:
        notes.append(_torn(dump, lines[-1]))
    line, more = _last(agreeing)
    return Startup(dump, line, (*notes, *more), begins, torn, _limits(text, begins))


def _limits(text: str, begins: int) -> dict[str, int]:
    """KV pool and running requests as lines before the resolved values show them, if they agree."""
    found: dict[str, set[int]] = {}
    for needle, name in _LIMITS.items():
        for place in places(text, needle)[-MAX_LINES:]:
            match = _COUNT.match(text, place + len(needle)) if place >= begins else None
            if match and (name != "max_total_num_tokens" or _of_pool(text, place)):
                found.setdefault(name, set()).add(int(match[0]))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _of_pool(text: str, place: int) -> bool:
    line = text[max(text.rfind("\n", 0, place) + 1, place - MAX_LINE) : place]
    return "KV Cache is allocated" in line


def tags_in(text: str) -> frozenset[str]:
    """Kinds of rank tags in the first records of a log."""
    records = islice(RECORD.finditer(text), MAX_RECORDS)
    words = {record["tags"] for record in records if rank_tags(record["tags"])}
    return frozenset(re.sub(r"\d+$", "", word) for tags in words for word in tags.split())


def _last(lines: Sequence[Line]) -> tuple[Line | None, tuple[str, ...]]:
    """The last line, and a remark if others show other values."""
    if not lines:
        return None, ()
    differ = any(line.values != lines[-1].values for line in lines)
    remarks = ("resolved-values lines differ: the last one counts",) if differ else ()
    return lines[-1], remarks


def _same_chunk(dump: Dump, line: Line, turned_off: bool) -> bool:
    """Whether a line shows the dump's chunk; some models turn chunking off between the two."""
    set_, ranks = dump.values.get("chunked_prefill_size"), dump.values.get("dp_size")
    if not isinstance(set_, int) or "chunked_prefill_size" not in line.values:
        return True
    has = line.values["chunked_prefill_size"] or 0
    divided = set_ // ranks if isinstance(ranks, int) and ranks > 0 else set_
    if has <= 0:
        return set_ <= 0 or turned_off
    return has in (set_, divided)


def _torn(dump: Dump, line: Line) -> str:
    set_, has = (shown["chunked_prefill_size"] for shown in (dump.values, line.values))
    return (
        f"the log's ServerArgs show chunked_prefill_size={set_}, its resolved values {has}: "
        "these are not of one server, so the latter do not count; give the log of one"
    )


def _lines(text: str) -> Iterator[Line]:
    """The last `MAX_LINES` resolved-values lines; one without its beginning is found by its end."""
    before = Line({}, frozenset(), -MAX_LINE)
    needles = ("max_total_num_tokens=", "context_len=")
    found = (places(text, needles[0]) and places(text, *needles)) or broken_places(text, *needles)
    for place in found[-MAX_LINES:]:
        if place and (text[place - 1].isalnum() or text[place - 1] in "_-"):
            continue
        start = place
        if text[place] == "c":
            start = max(text.rfind("\n", 0, place) + 1, place - MAX_LINE)
        values = _pairs(text, start)
        seen = place - before.place < MAX_LINE and values.items() <= before.values.items()
        if values and not seen:
            before = Line(values, _tags_before(text, place), place)
            yield before


def _pairs(text: str, start: int) -> dict[str, int | None]:
    """name=value pairs from the line's first whole one on; a last one that is cut is left out."""
    body = _message(text, start)
    first = _FIRST_WHOLE.search(body)
    values: dict[str, int | None] = {}
    position = first.end() if first else 0
    while pair := _PAIR.match(body, position):
        position = pair.end()
        cut = body[position:].lstrip().startswith(("...", "\u2026"))
        if not pair["comma"] and (cut or pair["name"] not in _LAST_FIELDS):
            break
        if pair["name"] in _RESOLVED_FIELDS and len(pair["value"]) <= MAX_DIGITS:
            values[pair["name"]] = None if pair["value"] == "None" else _number(pair["value"])
    return values


def _number(value: str) -> int:
    return int(value.split(".")[0].split(" ")[0].removesuffix("GB"))


def _message(text: str, start: int) -> str:
    """The message from `start` on; only its first line where that is whole, whatever follows."""
    body, _ = record_from(text, start, MAX_LINE)
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    whole = re.search(r"(?:context_len=\d+|[ ]GB)[ \t]*$", line)
    goes_on = re.match(r"\d*,[ ]?available_", body[len(line) :])
    return line if whole and not goes_on else body


def _tags_before(text: str, place: int) -> frozenset[str]:
    """Kinds of rank tags before a message: {"TP", "PP"} for "[2026-07-10 10:00:00 PP0 TP0] "."""
    before = text[max(text.rfind("\n", 0, place) + 1, place - 300) : place]
    records = list(RECORD.finditer(before))
    words = records[-1]["tags"].split() if records else []
    return frozenset(re.sub(r"\d+$", "", word) for word in words)
