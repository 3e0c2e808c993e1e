"""Small HTML tables for notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any


def number(value: Any) -> str:
    """A value as people read it: thousands separated, yes and no for flags, None as not known."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def html_table(title: str, rows: Iterable[tuple[Any, ...]], header: tuple[str, ...] = ()) -> str:
    """An HTML table with a caption, one row a tuple, the first entry being the row's name."""
    head = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in header)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(str(first))}</th>"
        + "".join(f"<td style='text-align:left'>{escape(number(v))}</td>" for v in rest)
        + "</tr>"
        for first, *rest in rows
    )
    thead = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f"<table><caption>{escape(title)}</caption>{thead}<tbody>{body}</tbody></table>"
