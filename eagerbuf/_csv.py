"""The tables that ship with the package: a file of `data/` to rows of typed values.

A schema maps each column to what reads its fields: `str`, `int`, `float`, `flag`, and `maybe()` of
these where a field may be empty. What the shipped tables must hold beyond that is tested, not
checked at each start (tests/core/shipped.py).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

Reads = Callable[[str], Any]  # a field's text to its value; ValueError where it cannot be one
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
# inside an installed wheel, or beside the package in a checkout
_PLACES = (os.path.join(_PACKAGE, "data"), os.path.join(os.path.dirname(_PACKAGE), "data"))


def table(name: str, schema: Mapping[str, Reads]) -> list[dict[str, Any]]:
    """The rows of the shipped table `name`; a column of the schema that it lacks is all empty.

    FileNotFoundError naming a file that the installation lacks; ValueError "file, line n: reason"
    for a column that the schema does not know, a field too few or too many, and a field that its
    column cannot have.
    """
    with open(find_data(name), encoding="utf-8-sig", newline="") as file:
        return list(read(file, name, schema))


def read(lines: Any, name: str, schema: Mapping[str, Reads]) -> Iterator[dict[str, Any]]:
    """The rows of a CSV file called `name`, as `table` gives them."""
    reader = csv.reader(lines)
    header = next(reader, [])
    if unknown := sorted({*header} - {*schema}):
        raise ValueError(f"{name}, line 1: column {unknown[0]!r} is unknown")
    readers = {column: cache(reads) for column, reads in schema.items()}  # most fields stand often
    for fields in reader:
        where = f"{name}, line {reader.line_num}"
        if len(fields) != len(header):
            raise ValueError(f"{where}: must have {len(header)} fields, has {len(fields)}")
        given = dict(zip(header, fields, strict=True))
        yield {column: _value(where, column, given, reads) for column, reads in readers.items()}


def _value(where: str, column: str, given: Mapping[str, str], reads: Reads) -> Any:
    try:
        return reads(given.get(column, ""))
    except ValueError as error:
        raise ValueError(f"{where}: {column}: {error}") from None


def find_data(name: str) -> str:
    """Where the shipped file `name` lies; FileNotFoundError if this installation lacks it."""
    for place in _PLACES:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"data file {name} is missing from this installation of eagerbuf")


def flag(field: str) -> bool:
    """`yes` or `no`."""
    if field not in ("yes", "no"):
        raise ValueError(f"{field!r} must be yes or no")
    return field == "yes"


def maybe(reads: Reads) -> Reads:
    """What `reads` reads, or None for an empty field."""
    return lambda field: reads(field) if field else None
