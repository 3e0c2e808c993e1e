"""Who reads the number, since which release, for what, and how far that was checked here."""

from __future__ import annotations

from dataclasses import dataclass

from eagerbuf._csv import Reads, table


@dataclass(frozen=True)
class Consumer:
    """One reader of `max_prefill_buffer_tokens`, called n in its formula (data/consumers.csv).

    `kind`: allocates, checks or tunes; `source`: the file under srt/ that reads it in the newest
    release; `active`: the settings under which it counts; `tight`: whether the tight number could
    take n's place, and what would change; `executed`: what of the released code this project runs
    beside its own formula; `flags`: words of a command, one of which turns it on, where
    `eagerbuf check` says so in a note.
    """

    name: str
    since: str
    kind: str
    source: str
    active: str
    formula: str
    tight: str
    executed: str
    flags: tuple[str, ...] = ()


def _alternatives(field: str) -> tuple[str, ...]:
    return tuple(field.split(" or ")) if field else ()


SCHEMA: dict[str, Reads] = {
    **dict.fromkeys(("name", "since", "kind", "source", "active", "formula"), str),
    **dict.fromkeys(("tight", "executed"), str),
    "flags": _alternatives,
}
CONSUMERS = tuple(Consumer(**row) for row in table("consumers.csv", SCHEMA))
