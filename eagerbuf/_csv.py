"""Tables as CSV text to checked rows; what is wrong with one names file, line and reason.

A schema maps each column, in the file's order, to what reads its fields: `whole()`, `decimal()`,
`flag`, `text`, `day`, `one_of()`, `matching()`, and `maybe()` of these where a field may be empty.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

Reads = Callable[[str], Any]  # a field's text to its value; ValueError with what it must be
MOST = 999_999_999_999_999
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,14})", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,2})?", re.ASCII)
_DAY = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]|\r(?!\n)")


class Row(NamedTuple):
    """A checked row: `where` it is ("file, line n"), for messages, and its `values` by column."""

    where: str
    values: dict[str, Any]


def rows(
    data: bytes,
    name: str,
    schema: Mapping[str, Reads],
    *,
    unique: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> list[Row]:
    """The rows of the CSV file `name` that holds `data`, each field read by its column's reader.

    `unique`: columns that together differ in every row; `optional`: columns that may be absent.
    A byte order mark and Windows line ends change nothing. ValueError "file, line n: reason" for
    a column too many or missing, a field that its column cannot have, a row given twice, a line
    that is cut off, text that is not UTF-8 or holds control characters, and a table without rows.
    """
    lines = _lines(data, name)
    header, *fields = list(_split(lines, name)) or [(1, [])]
    names = _columns(header[1], name, schema, optional)
    readers = [(column, cache(schema[column])) for column in names]  # most fields stand often
    found = [_row(values, f"{name}, line {line}", readers) for line, values in fields]
    if not found:
        raise ValueError(f"{name}, line 1: no rows after it")
    _check_unique(found, unique)
    return found


def _lines(data: bytes, name: str) -> list[str]:
    """The lines with their ends; ValueError where a line cannot be text of a table."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}, line {line}: not UTF-8 text") from None
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise ValueError(f"{name}, line {line}: holds the control character {control[0]!r}")
    if text and not text.endswith("\n"):
        line = text.count("\n") + 1
        raise ValueError(f"{name}, line {line}: cut off, the file must end with a line end")
    return text.splitlines(keepends=True)


def _split(lines: list[str], name: str) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line; a quoted field ends in the line it begins in."""
    reader = csv.reader(lines, strict=True)
    line = 1
    try:
        for fields in reader:
            if reader.line_num > line:
                raise csv.Error("a quote that is not closed")
            yield line, fields
            line += 1
    except csv.Error as error:
        raise ValueError(f"{name}, line {line}: not CSV ({error})") from None


def _columns(
    header: list[str], name: str, schema: Mapping[str, Reads], optional: Sequence[str]
) -> list[str]:
    """The header, if it is the schema's columns in their order."""
    if header == [column for column in schema if column in header or column not in optional]:
        return header
    missing = [column for column in schema if column not in header and column not in optional]
    unknown = [column for column in header if column not in schema]
    why = f"{missing[0]} is missing" if missing else "their order or number is another"
    why = f"{unknown[0][:40]!r} is unknown" if unknown and not missing else why
    raise ValueError(f"{name}, line 1: columns must be {','.join(schema)}; {why}")


def _row(fields: list[str], where: str, readers: Sequence[tuple[str, Reads]]) -> Row:
    if len(fields) != len(readers):
        raise ValueError(f"{where}: must have {len(readers)} fields, has {len(fields)}")
    values = {}
    for (column, read), field in zip(readers, fields, strict=True):
        try:
            values[column] = read(field)
        except ValueError as error:
            raise ValueError(f"{where}: {column}={field[:60]!r} {error}") from None
    return Row(where, values)


def _check_unique(found: list[Row], unique: Sequence[str]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for row in found if unique else ():
        key = tuple(map(row.values.__getitem__, unique))
        if key in seen:
            what = ", ".join(f"{column}={row.values[column]!r}" for column in unique)
            raise ValueError(f"{row.where}: {what} stands in {seen[key].partition(', ')[2]} too")
        seen[key] = row.where


def text(field: str) -> str:
    """Any text, not empty, without blanks around it."""
    if not field or field != field.strip():
        raise ValueError("must be text without blanks around it")
    return field


def flag(field: str) -> bool:
    """`yes` or `no`."""
    if field not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return field == "yes"


def day(field: str) -> str:
    """A date YYYY-MM-DD, as text."""
    if not _DAY.fullmatch(field):
        raise ValueError("must be a date YYYY-MM-DD")
    return field


def whole(least: int = 0, most: int = MOST) -> Reads:
    """A whole number of `least` to `most`, plain digits."""

    def read(field: str) -> int:
        if not (_WHOLE.fullmatch(field) and least <= int(field) <= most):
            raise ValueError(f"must be a whole number of {least} to {most}")
        return int(field)

    return read


def decimal(least: float = 0.0, most: float = math.inf) -> Reads:
    """A number of `least` to `most`, written with a point or an exponent if need be."""

    def read(field: str) -> float:
        if not (_DECIMAL.fullmatch(field) and least <= float(field) <= most):
            raise ValueError(f"must be a number of {least:g} to {most:g}")
        return float(field)

    return read


def one_of(*known: str) -> Reads:
    """One of the given texts."""

    def read(field: str) -> str:
        if field not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return field

    return read


def matching(pattern: str, what: str) -> Reads:
    """Text that the whole pattern matches; `what` says in a message what it must be."""
    match = re.compile(pattern, re.ASCII).fullmatch

    def read(field: str) -> str:
        if not match(field):
            raise ValueError(f"must be {what}")
        return field

    return read


def maybe(read: Reads) -> Reads:
    """What `read` reads, or None for an empty field."""
    return lambda field: read(field) if field else None
