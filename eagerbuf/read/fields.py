"""Fields of `ServerArgs` as Python or JSON prints them: names and values between commas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from eagerbuf.read.flags import UNREAD
from eagerbuf.read.options import SIZING, SUFFIXED, SWITCHES, WHOLE, field_names
from eagerbuf.read.text import pattern

MAX_DIGITS = 15
FEWEST_FIELDS = 3  # in a row, to be taken for a part of a dump

_PIECE = pattern(
    r"""'(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | [\[({] | [\])}] | ,
    | [^'"\\\[\](){},]+ | \\. | .""",
    re.DOTALL | re.VERBOSE,
)
_FIELD = pattern(r"\s*[\"']?(?P<name>[A-Za-z_]\w*)[\"']?\s*[=:]\s*(?P<value>.*?)\s*", re.DOTALL)
_STRING = pattern(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_CLOSING = {"(": ")", "{": "}"}
_QUOTE = pattern(r"[\"']")
_OPENS_VALUE = pattern(r"[=:,\[({]\s*$")
_CLOSES_VALUE = pattern(r"[\"'](?=\s*[,\])}])")
_ELLIPSIS = pattern(r"\s*(?:\.{2,}|\u2026)\s*")
_POOL = pattern(r"[\"']max_total_num_tokens[\"']\s*:\s*(\d{1,15})\s*[,}]")
_QUOTED = pattern(r"([\"'])([\w. -]*)\1")
_CONSTANTS = {
    "None": None,
    "null": None,
    "True": True,
    "true": True,
    "False": False,
    "false": False,
}


def read_fields(body: str, opening: str = "") -> tuple[dict[str, Any], bool]:
    """Fields from after the opening bracket on, and whether they are all there.

    They are not where another bracket closes them than `opening` wants, or an item is no field.

    Only fields that concern sizing; the last one, if no comma or bracket closes it, is left out.
    A value of a kind that the field cannot have is `UNREAD`.
    """
    values: dict[str, Any] = {}
    whole, position = True, 0
    for item, closed in items(body):
        match = _FIELD.fullmatch(item)
        position += len(item)
        whole = whole and (match is not None or not item.strip() or not opening)
        whole = whole and not _ELLIPSIS.fullmatch(item)
        torn = match and match["value"][:1] in ("'", '"') and not _STRING.fullmatch(match["value"])
        whole = whole and not torn
        if match and match["name"] in SIZING:
            values[match["name"]] = _value(match["name"], match["value"])
        if closed:
            return values, whole and body[position : position + 1] in _CLOSING.get(opening, ")]}")
        position += 1
    return values, False


def read_pool(body: str) -> int | None:
    """The KV pool in tokens beside the fields, as a server's answer to /server_info shows it."""
    found = _POOL.search(body)
    return int(found[1]) if found else None


def items(body: str) -> Iterator[tuple[str, bool]]:
    """The items between commas, brackets and quotes respected; True with the closing bracket."""
    parts: list[str] = []
    depth = 0
    for match in _PIECE.finditer(body):
        piece = match[0]
        if depth == 0 and piece in ",)]}":
            yield "".join(parts), piece != ","
            if piece != ",":
                return
            parts = []
            continue
        depth += (piece in "[({") - (piece in "])}")
        parts.append(piece)


def cut_fields(body: str) -> dict[str, Any]:
    """Fields of a dump whose beginning is missing; none where there are under `FEWEST_FIELDS`.

    The first one counts only if its name is certain to be whole: no longer name ends with it.
    """
    quote = _QUOTE.search(body)
    if quote and not _OPENS_VALUE.search(body[: quote.start()]):
        closing = _CLOSES_VALUE.search(body)  # of a string that began before the cut
        body = body[closing.end() :] if closing else ""
    if sum(_FIELD.fullmatch(item) is not None for item, _ in items(body)) < FEWEST_FIELDS:
        return {}
    values, _ = read_fields(body)
    first = _FIELD.fullmatch(next(items(body), ("", False))[0])
    if first and any(name.endswith(first["name"]) for name in field_names() - {first["name"]}):
        values.pop(first["name"], None)
    return values


def _value(name: str, text: str) -> Any:
    """A literal as Python or JSON writes it, if it is of the field's kind."""
    value = _literal(text)
    if value is None or value is UNREAD:
        return value
    if name in WHOLE | SUFFIXED:
        fitting = isinstance(value, int) and not isinstance(value, bool)
    else:
        fitting = isinstance(value, bool if name in SWITCHES else str)
    return value if fitting else UNREAD


def _literal(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if re.fullmatch(rf"-?\d{{1,{MAX_DIGITS}}}", text):
        return int(text)
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted else UNREAD
