"""Trace files of requests: Azure's CSV, Mooncake's JSONL, and our own columns."""

from __future__ import annotations

import csv
import json
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from pandas import DataFrame

AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE = ("timestamp", "input_length", "output_length")
OURS = ("prompt_tokens", "output_tokens")
OPTIONAL = ("arrival_s", "workload")
MAX_BYTES = 2**30
MAX_LINE = 2**20  # characters; a Mooncake line of a long prompt has some thousands
MAX_REQUESTS = 10_000_000
MAX_TOKENS = 2**31 - 1
MAX_SECONDS = 10.0**9
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")


class _Request(NamedTuple):
    prompt_tokens: int
    output_tokens: int
    arrival_s: float


def load_requests(path: str | Path) -> DataFrame:
    """Requests of a trace file in its order: prompt_tokens, output_tokens, arrival_s (seconds).

    Reads Azure's LLM inference traces (CSV: TIMESTAMP, ContextTokens, GeneratedTokens; arrivals
    count from the earliest), Mooncake's (JSONL: timestamp in milliseconds, input_length,
    output_length) and CSV with our own columns (arrival_s, 0 if absent, and workload are
    optional). ValueError with file, line and reason for a malformed row, a file that is no such
    trace, one over 1 GiB or 10 million requests; a prompt has at least 1 token.
    """
    import pandas as pd

    path = Path(path)
    _check_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _read(file, path.name)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: not a request trace (not UTF-8 text)") from None
    frame = pd.DataFrame(rows, columns=list(_Request._fields)).astype({"arrival_s": "float64"})
    earliest = min(0.0, frame["arrival_s"].min())
    frame["arrival_s"] = (frame["arrival_s"] - earliest).round(9)
    return frame


def _check_file(path: Path) -> None:
    """ValueError for what is no file of a sensible size; opening a pipe would wait for ever."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name}: not a request trace (not a regular file)")
    if status.st_size > MAX_BYTES:
        raise ValueError(f"{path.name}: over {MAX_BYTES} bytes; split the trace")


def _read(file: TextIO, name: str) -> list[_Request]:
    lines = _lines(file, name)
    blank, first = 0, next(lines, None)
    if first is None:
        raise ValueError(f"{name}: not a request trace (empty)")
    while not first.strip():
        blank, first = blank + 1, next(lines, None)
        if first is None:
            raise ValueError(f"{name}, line 1: not a request trace (nothing but blanks)")
    reader = _mooncake if first.lstrip().startswith("{") else _csv
    rows: list[_Request] = []
    for row in reader(_again(blank, first, lines), name):
        if len(rows) == MAX_REQUESTS:
            raise ValueError(f"{name}: over {MAX_REQUESTS} requests; split the trace")
        rows.append(row)
    if not rows:
        raise ValueError(f"{name}: no request in it")
    return rows


def _lines(file: TextIO, name: str) -> Iterator[str]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise ValueError(f"{name}, line {number}: over {MAX_LINE} characters")
        yield line


def _again(blank: int, first: str, rest: Iterator[str]) -> Iterator[str]:
    """All lines once more; blank ones count in the numbers of lines that errors name."""
    yield from repeat("\n", blank)
    yield first
    yield from rest


def _mooncake(lines: Iterator[str], name: str) -> Iterator[_Request]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        item = _json(line, where)
        if not isinstance(item, dict) or any(key not in item for key in MOONCAKE):
            raise ValueError(f"{where}: not a trace row, needs {', '.join(MOONCAKE)}")
        arrival = _seconds(item["timestamp"], "timestamp", where, per_second=1000)
        prompt = _tokens(item["input_length"], "input_length", 1, where)
        yield _Request(prompt, _tokens(item["output_length"], "output_length", 0, where), arrival)


def _json(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: not valid JSON") from None


def _csv(lines: Iterator[str], name: str) -> Iterator[_Request]:
    reader = csv.reader(lines, strict=True)
    try:
        header = [field.strip() for field in next(filter(None, reader))]
        parse = _parser(header, f"{name}, line {reader.line_num}")
        for fields in reader:
            where = f"{name}, line {reader.line_num}"
            if not fields:
                continue
            if len(fields) != len(header):
                raise ValueError(f"{where}: {len(fields)} fields, the header has {len(header)}")
            yield parse(fields, where)
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num}: not valid CSV ({error})") from None


def _parser(header: Sequence[str], where: str) -> Callable[[list[str], str], _Request]:
    """How to read a row under this header; ValueError if no known trace has it."""
    columns = set(header)
    if len(columns) == len(header):
        if columns == set(AZURE):
            return _Azure(header)
        if columns >= set(OURS) and columns <= {*OURS, *OPTIONAL}:
            return _Ours(header)
    shown = ",".join(header)[:80]
    raise ValueError(
        f"{where}: not a request trace (columns {shown!r}); known are {','.join(AZURE)} "
        f"(Azure), JSON lines with {','.join(MOONCAKE)} (Mooncake), {','.join(OURS)}[,arrival_s]"
    )


class _Ours:
    def __init__(self, header: Sequence[str]) -> None:
        self.prompt, self.output = (header.index(column) for column in OURS)
        self.arrival = header.index("arrival_s") if "arrival_s" in header else None

    def __call__(self, fields: list[str], where: str) -> _Request:
        arrival = 0.0
        if self.arrival is not None:
            arrival = _seconds(_number(fields[self.arrival]), "arrival_s", where)
        prompt = _tokens(_number(fields[self.prompt]), "prompt_tokens", 1, where)
        return _Request(prompt, _tokens(_number(fields[self.output]), OURS[1], 0, where), arrival)


class _Azure:
    def __init__(self, header: Sequence[str]) -> None:
        self.time, self.prompt, self.output = (header.index(column) for column in AZURE)
        self.start: tuple[int, float] | None = None

    def __call__(self, fields: list[str], where: str) -> _Request:
        seconds, fraction = time = _timestamp(fields[self.time], where)
        self.start = self.start or time  # counting from here keeps the digits after the point
        arrival = seconds - self.start[0] + (fraction - self.start[1])
        if abs(arrival) > MAX_SECONDS:
            far = f"must be within {int(MAX_SECONDS)} s of the first row's"
            raise ValueError(f"{where}: TIMESTAMP={_short(fields[self.time])} {far}")
        prompt = _tokens(_number(fields[self.prompt]), AZURE[1], 1, where)
        return _Request(prompt, _tokens(_number(fields[self.output]), AZURE[2], 0, where), arrival)


def _number(text: str) -> Any:
    """An int or a float if the text is one, else the text itself for the message."""
    text = text.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[+-]?\d{1,18}(\.\d{0,18})?([eE][+-]?\d{1,3})?", text, re.ASCII):
        return float(text)
    return text


def _tokens(value: Any, field: str, least: int, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_TOKENS:
        return value
    limits = f">= {least} and <= {MAX_TOKENS}"
    raise ValueError(f"{where}: {field}={_short(value)} must be a whole number {limits}")


def _seconds(value: Any, field: str, where: str, per_second: int = 1) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    most = int(MAX_SECONDS) * per_second
    if number and 0 <= value <= most:
        return float(value / per_second)
    unit = "s" if per_second == 1 else "ms"
    raise ValueError(f"{where}: {field}={_short(value)} must be a time >= 0 and <= {most} {unit}")


def _timestamp(text: str, where: str) -> tuple[int, float]:
    """Whole seconds since 1970 and the fraction; a time without a zone is UTC."""
    match = _TIMESTAMP.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        day, time, fraction, zone = match.groups()
        stamp = datetime.fromisoformat(f"{day}T{time}{'+00:00' if zone == 'Z' else zone or ''}")
    except ValueError:
        raise ValueError(f"{where}: TIMESTAMP={_short(text)} must be a date and time") from None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=timezone.utc)
    return int(stamp.timestamp()), float(fraction or 0)


def _short(value: Any) -> str:
    return repr(value)[:40]
