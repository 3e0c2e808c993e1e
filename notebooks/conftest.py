"""What nbval says of a changed output: the cell a reader sees, the first value that differs."""

from __future__ import annotations

from typing import Any

from nbval.plugin import IPyNbCell


def first_difference(stored: Any, now: Any, path: str = "") -> str:
    """The path of the first value that differs, with both values, shortened."""
    if isinstance(stored, dict) and isinstance(now, dict):
        for key in [*stored, *(key for key in now if key not in stored)]:
            if stored.get(key) != now.get(key):
                return first_difference(stored.get(key), now.get(key), f"{path}.{key}")
    if isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        for at, pair in enumerate(zip(stored, now, strict=True)):
            if pair[0] != pair[1]:
                return first_difference(*pair, f"{path}[{at}]")
    return f"{path or 'the output'}: stored {str(stored)[:80]!r}, now {str(now)[:80]!r}"


def _compared(cell: Any, key: str, stored: Any, now: Any) -> None:
    name = cell.parent.name
    first_line = next(iter(cell.cell.source.strip().splitlines()), "")
    where = f"{name}, cell [{cell.cell.get('execution_count')}] ({first_line[:60]!r})"
    cell.comparison_traceback.append(f"{where}, {key}{first_difference(stored, now)}")


IPyNbCell.format_output_compare = _compared
