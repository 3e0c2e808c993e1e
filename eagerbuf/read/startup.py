"""What a start-up log shows: dumps of `ServerArgs` and the line of resolved values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagerbuf.read.fields import cut_fields, read_fields
from eagerbuf.read.text import (
    RECORD,
    breakable,
    broken_places,
    pattern,
    places,
    record_from,
    shown,
)

MAX_DUMP = 2**18  # characters of one dump; SGLang's own have about 2**14
MAX_CUT = 2**20  # characters of a text in which dumps without a beginning are looked for
MAX_LINE = 2**10  # characters of the resolved-values line
MAX_DIGITS = 15
MAX_LINES = 256  # resolved-values lines that are looked at
MAX_CALLS = 16  # of the engine in Python code

_OPENS = ("ServerArgs(", "server_args")
_DUMP = pattern(
    breakable("ServerArgs(") + "|" + breakable("server_args") + r"\n?(?:=|[\"']: ?)\n?\{"
)
_JSON_OPENS = pattern(r"\{(?=\s*[\"']$)")
_JSON_KEY = pattern(r"model_path[\"']\s*:")
_RUN_FIELDS = (
    "chunked_prefill_size",
    "max_prefill_tokens",
    "max_running_requests",
    "tp_size",
    "page_size",
    "enable_dp_attention",
    "context_length",
)
_RUN = pattern(r"[a-z_]+[\"']?(?:=|: )[^\n,]{0,40},")
_FIELD_LINE = pattern(r"[^\n]*\w[\"']?(?:=|: )[^\n,]*,[^\n]*")
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
class Dump:
    """Fields of `ServerArgs` that a log shows; `complete`: nothing of them is missing."""

    values: Mapping[str, Any]
    complete: bool
    place: int

    def __str__(self) -> str:
        names = ", ".join(self.values)
        return f"the log's ServerArgs are cut: {len(self.values)} fields read ({shown(names)})"


@dataclass(frozen=True)
class Line:
    """A resolved-values line: per-rank values (None as printed) and the kinds of its rank tags."""

    values: Mapping[str, int | None]
    tags: frozenset[str]
    place: int


@dataclass(frozen=True)
class Startup:
    """The last start-up in a text, and remarks on it."""

    dump: Dump | None = None
    line: Line | None = None
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether the text shows a start-up at all."""
        return self.dump is not None or self.line is not None


def startup(text: str) -> Startup:
    """What the last start-up in a text shows; a dump marks where one begins."""
    dumps = (
        list(_dumps(text, places(text, *_OPENS, "model_path")))
        or list(_dumps(text, broken_places(text, *_OPENS)))
        or list(_cut_dumps(text))
    )
    lines = list(_lines(text))
    notes: list[str] = []
    if any(dump.values != dumps[-1].values for dump in dumps):
        notes.append(f"{len(dumps)} start-ups in the log: the last one counts")
        lines = [line for line in lines if line.place > dumps[-1].place]
    if any(line.values != lines[-1].values for line in lines):
        notes.append("resolved-values lines differ: the last one counts")
    return Startup(dumps[-1] if dumps else None, lines[-1] if lines else None, tuple(notes))


def engine_calls(text: str) -> Iterator[dict[str, Any]]:
    """Fields given in Python code that starts the engine: sgl.Engine(model_path=..., tp_size=8)."""
    for place in places(text, "Engine(", "Runtime(")[:MAX_CALLS]:
        if place == 0 or not (text[place - 1].isalnum() or text[place - 1] == "_"):
            start = text.index("(", place) + 1
            values, _ = read_fields(text[start : start + MAX_LINE * 8])
            if values:
                yield values


def _dumps(text: str, found: Sequence[int]) -> Iterator[Dump]:
    done = 0
    for place in found:
        start = _opening(text, place) if place >= done else 0
        if start:
            body, done = record_from(text, start, MAX_DUMP)
            values, complete = read_fields(body)
            if values:
                yield Dump(values, complete, place)


def _opening(text: str, place: int) -> int:
    """Where the fields of a dump begin whose name, or first key, is at `place`; 0 if it is none."""
    match = _DUMP.match(text, place)
    if match:
        return match.end()
    floor = max(0, place - 40)
    before = _JSON_OPENS.search(text[floor:place])
    return floor + before.end() if before and _JSON_KEY.match(text, place) else 0


def _cut_dumps(text: str) -> Iterator[Dump]:
    """Dumps whose beginning is missing: runs of fields that no bracket opens."""
    done = 0
    text = text[:MAX_CUT]
    for place in places(text, *_RUN_FIELDS):
        if place < done or not _RUN.match(text, place):
            continue
        if _in_a_call(text, place):
            continue
        start = _run_start(text, place, done)
        body, done = record_from(text, start, MAX_DUMP)
        done = max(done, place + 1)
        if not _of_a_resolved_line(text, start, body):
            record = RECORD.search(body[:400])
            values = cut_fields(body[record.end() :] if record else body)
            if values:
                yield Dump(values, False, start)


def _of_a_resolved_line(text: str, start: int, body: str) -> bool:
    """Whether fields of the same names are those of a resolved-values line, or of its rest."""
    names = ("max_total_num_tokens=", "context_len=")
    return any(n in body[:MAX_LINE] or n in text[max(0, start - 300) : start] for n in names)


def _in_a_call(text: str, place: int) -> bool:
    """Whether the fields are arguments of the engine in Python code."""
    floor = max(0, place - MAX_LINE)
    opening = text.rfind("(", floor, place)
    called = text[max(0, opening - 10) : max(0, opening)]
    return called.endswith(("Engine", "Runtime")) and text.rfind(")", floor, place) < opening


def _run_start(text: str, place: int, floor: int) -> int:
    """Where the fields before `place` begin, over the lines a terminal broke them into."""
    start = max(text.rfind("\n", floor, place) + 1, floor)
    while start > floor and place - start < MAX_DUMP:
        previous = max(text.rfind("\n", floor, start - 1) + 1, floor)
        line = text[max(previous, start - MAX_LINE) : start - 1]
        if RECORD.search(text[start : start + 400]) or not _FIELD_LINE.fullmatch(line):
            break
        start = previous
    return start


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
