"""Dumps of `ServerArgs` in a log, whole or cut, and calls in Python code that are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagerbuf.read.fields import cut_fields, items, read_fields, read_pool
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
MAX_LINE = 2**10  # characters that are looked back over
MAX_CALL = 2**13  # characters of one call
MAX_CALLS = 16  # of the engine in Python code
MAX_FOUND = 256  # names of the class that are looked at for them
MAX_BEFORE = 80  # characters before a class's name that tell code

_OPENS = ("ServerArgs(", "server_args")
_CALLED = ("Engine", "Runtime", "ServerArgs")
_DUMP = pattern(
    breakable("ServerArgs(") + "|" + breakable("server_args") + r"\n?(?:=|[\"']: ?)\n?\{"
)
# Before the name in code: the bracket or the comma of a call, a module, an assignment, "return".
_IN_CALL = pattern(r"[(,]\s*(?:\w{1,40}[ ]?=[ ]?)?(?:\w{1,40}\.)*$")
_IN_CODE = pattern(r"(?:\w\.|=[ ]*|\breturn[ ]+)$")
_IN_LOG = "server_args="  # without blanks
_DICT_IN_CODE = pattern(r"(?:[ ]=[ ]*|\*\*)$")
_UNPACKS = "(**"
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


@dataclass(frozen=True)
class Dump:
    """Fields of `ServerArgs` that a log shows; `complete`: nothing of them is missing.

    `pool`: the KV pool in tokens, which a server's answer to /server_info has beside them.
    """

    values: Mapping[str, Any]
    complete: bool
    place: int
    pool: int | None = None

    def __str__(self) -> str:
        names = ", ".join(self.values)
        return f"the log's ServerArgs are cut: {len(self.values)} fields read ({shown(names)})"


def dumps(text: str) -> list[Dump]:
    """Every dump in a log, in order; where none is whole, those whose beginning is missing."""
    return (
        list(_dumps(text, places(text, *_OPENS, "model_path")))
        or list(_dumps(text, broken_places(text, *_OPENS)))
        or list(_cut_dumps(text))
    )


def _calls(text: str) -> Iterator[tuple[int, int]]:
    """Where the arguments of a call in code begin, and where they end (0 if nothing ends them)."""
    found = [p for p in places(text, "Engine(", "Runtime(") if not _inside_word(text, p)]
    found += [p for p in places(text, "ServerArgs(")[:MAX_FOUND] if _in_code(text, p)]
    for place in sorted(found)[:MAX_CALLS]:
        yield _span(text, text.index("(", place) + 1)


def _dicts(text: str) -> Iterator[tuple[int, int]]:
    """The same of dicts in code that something is called with."""
    found = places(text, "model_path")[:MAX_CALLS] if _UNPACKS in text else []
    for start in filter(None, (_dict_opening(text, place) for place in found)):
        if _assigned(text, start):
            yield _span(text, start)


def _span(text: str, start: int) -> tuple[int, int]:
    parts = list(items(text[start : start + MAX_CALL]))
    closed = bool(parts) and parts[-1][1]
    return start, start + sum(len(item) + 1 for item, _ in parts) if closed else 0


def _inside_word(text: str, place: int) -> bool:
    return place > 0 and (text[place - 1].isalnum() or text[place - 1] == "_")


def _in_code(text: str, place: int) -> bool:
    """Whether the class at `place` is called in Python code; a terminal may break a log's line."""
    if text[place] != "S":
        return False
    before = text[max(0, place - MAX_BEFORE) : place]
    if _IN_CALL.search(before):
        return True
    return bool(_IN_CODE.search(before)) and not before.replace("\n", "").endswith(_IN_LOG)


def _dumps(text: str, found: Sequence[int]) -> Iterator[Dump]:
    done, unpacks = 0, _UNPACKS in text
    for place in found:
        start = _opening(text, place, unpacks) if place >= done else 0
        if start:
            body, done = record_from(text, start, MAX_DUMP)
            values, complete = read_fields(body, text[start - 1])
            if values:
                yield Dump(values, complete, place, read_pool(body))


def _opening(text: str, place: int, unpacks: bool) -> int:
    """Where the fields of a dump begin whose name, or first key, is at `place`; 0 if it is none.

    `unpacks`: the text has code that calls something with what a dict holds.
    """
    match = _DUMP.match(text, place)
    if match:
        return 0 if _in_code(text, place) else match.end()
    start = _dict_opening(text, place)
    return 0 if start and unpacks and _assigned(text, start) else start


def _dict_opening(text: str, place: int) -> int:
    """Where the keys of JSON, or of a dict in code, begin whose first is at `place`; 0 if none."""
    floor = max(0, place - 40)
    before = _JSON_OPENS.search(text[floor:place])
    return floor + before.end() if before and _JSON_KEY.match(text, place) else 0


def _assigned(text: str, start: int) -> bool:
    return bool(_DICT_IN_CODE.search(text[max(0, start - 20) : start - 1]))


def _cut_dumps(text: str) -> Iterator[Dump]:
    """Dumps whose beginning is missing: runs of fields that no bracket opens."""
    done = 0
    text = text[:MAX_CUT]
    calls = [(start, end) for start, end in (*_calls(text), *_dicts(text)) if end]
    for place in places(text, *_RUN_FIELDS):
        if place < done or not _RUN.match(text, place):
            continue
        if _in_a_call(text, place) or any(start <= place < end for start, end in calls):
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
    return called.endswith(_CALLED) and text.rfind(")", floor, place) < opening


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
