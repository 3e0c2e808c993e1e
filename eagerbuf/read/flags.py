"""A command's flags, read as the argparse of that SGLang release would read them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NoReturn

from eagerbuf.read.options import (
    CHOICES,
    LISTS,
    SUFFIXED,
    SUFFIXES_SINCE,
    SWITCHES,
    WORDS,
    Version,
    list_for,
    names_sizing,
    options,
    release_name,
    takes,
    version,
)
from eagerbuf.read.remarks import remarks
from eagerbuf.read.text import pattern, shown
from eagerbuf.read.variables import default_note, unread_note, without_maybe, without_unread
from eagerbuf.releases import releases

Bench = tuple[tuple[int, ...], tuple[int, ...]]

MAX_WORDS = 4096
MAX_FLAGS = 256  # by which a release is chosen
MAX_GROUPS = 64  # flags that may stand there or not
MAX_DIGITS = 18
MAX_BENCH = 2**40  # tokens or requests of a benchmark's batch

_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_FLAG = pattern(r"--?[A-Za-z]")
_PLACEHOLDER = pattern(r"[$`]|^<.*>$|\{.*\}|^%\w+%$")


class Unread:
    """A value that stands in the text as a variable or placeholder: there, but not known."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD = Unread()


@dataclass(frozen=True)
class Flags:
    """What a command sets: field of `ServerArgs` -> value, remarks, and a benchmark's shapes.

    `partial`: a config file that is not in the text, or a variable, may set more.
    """

    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    bench: Bench | None = None
    partial: bool = False


def parse(
    argv: Sequence[str], release: str | None, *, bench: bool = False, strict: bool = True
) -> Flags:
    """What `argv` (the words after the program's name) sets in `release` (None: the newest known).

    As argparse there: unique prefixes, `--flag=value`, the last of repeated flags. Flags that do
    not concern sizing are passed over, unknown ones and other words remarked on (`strict`: SGLang
    refuses them); what stands in brackets or under a template's condition may be set or not.
    ValueError for an ambiguous prefix (naming the candidates), a value of the wrong form, and a
    flag that concerns sizing but that this release does not have.
    """
    if len(argv) > MAX_WORDS:
        raise ValueError(f"launch command: {len(argv)} words; give at most {MAX_WORDS}")
    _refuse_hidden(argv)
    argv, maybe = without_maybe(argv)
    found = _parse(argv, list_for(release), bench, strict)
    found = maybe_set(found, maybe, release, bench=bench)
    return replace(found, partial=found.partial or bool(maybe and UNREAD in found.values.values()))


def _refuse_hidden(argv: Sequence[str]) -> None:
    """ValueError where a word holds flags: a quote is missing or too many."""
    for word in argv:
        if " -" in word.replace("\n", " ") and any(map(names_sizing, word.split()[1:])):
            raise ValueError(f"{shown(word)}: one word that holds flags; is a quote missing?")


def maybe_set(
    found: Flags, words: Sequence[str], release: str | None, *, bench: bool = False
) -> Flags:
    """The flags, where `words` may stand there too: what they set is then not known."""
    groups: list[list[str]] = []
    for word in words:
        if groups and not _FLAG.match(word) and _FLAG.match(groups[-1][0]):
            groups[-1].append(word)
        else:
            groups.append([word])
    for group in groups[:MAX_GROUPS]:
        found = with_maybe(found, _parse(group, list_for(release), bench, False))
    return replace(found, partial=found.partial or len(groups) > MAX_GROUPS)


def _parse(argv: Sequence[str], at: Version, bench: bool, strict: bool) -> Flags:
    argv, unread = without_unread(argv, at, bench=bench)
    found, rest = _parser(at, bench).parse_known_args(argv)
    values = vars(found)
    batches, lengths = values.pop("batch_size", (1,)), values.pop("input_len", (1024,))
    for field, choices in CHOICES.items():
        if values.get(field, UNREAD) not in (*choices, UNREAD):
            raise ValueError(f"{_flag(field)} {shown(values[field])}: give {' or '.join(choices)}")
    notes = [*map(unread_note, unread), *remarks(argv, rest, at, bench, strict)]
    notes += [
        f"{_flag(field)}: a variable stands there, so its value is not known"
        + _default(field, argv, at, bench)
        for field, value in values.items()
        if value is UNREAD
    ]
    run = _shapes(batches, lengths) if bench and not unread else None
    return Flags(values, tuple(dict.fromkeys(notes)), run, partial=bool(unread))


def _default(field: str, argv: Sequence[str], at: Version, bench: bool) -> str:
    """What the default that is written in a flag's last variable would give."""
    names = [option.name for option in options(at, bench) if option.field == field]
    given = [w.split("=", 1) if "=" in w else (w, after) for w, after in pairwise([*argv, ""])]
    mine = [value for flag, value in given if any(n.startswith(flag) for n in names if flag)]
    return default_note(mine[-1]) if mine else ""


def with_maybe(found: Flags, maybe: Flags) -> Flags:
    """What a command sets if it is not known whether what `maybe` sets is among it."""
    open_ = [n for n, value in maybe.values.items() if found.values.get(n, maybe) != value]
    notes = [f"{_flag(name)}: may be set or not, so its value is not known" for name in open_]
    return replace(
        found,
        values={**found.values, **dict.fromkeys(open_, UNREAD)},
        notes=tuple(dict.fromkeys([*found.notes, *notes, *maybe.notes])),
        partial=found.partial or maybe.partial,
    )


def with_open(found: Flags, names: Sequence[str]) -> Flags:
    """What code sets where these fields are variables there; what it unpacks may set anything."""
    notes = [
        f"{shown(name)}: not expanded, so what it sets is not known"
        if name.startswith("**")
        else f"{name}: a variable stands there, so its value is not known"
        for name in names
    ]
    return replace(
        found,
        values={**found.values, **{n: UNREAD for n in names if not n.startswith("**")}},
        notes=(*found.notes, *notes),
        partial=found.partial or any(name.startswith("**") for name in names),
    )


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def whole(text: str) -> int | Unread:
    """A flag's whole number; a variable or placeholder is `UNREAD`."""
    if _PLACEHOLDER.search(text):
        return UNREAD
    if len(text) > MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"over {MAX_DIGITS} digits; give fewer")
    return int(text)


def suffixed(text: str) -> int | Unread:
    """A whole number with an optional suffix: 25.6k, 1M (decimal), 32Ki (binary, whole only)."""
    match = re.fullmatch(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if match is None:
        return whole(text)
    number, fraction, suffix = match[1], match[2] or "", match[3]
    if suffix not in _BINARY_UNITS:
        return int(number + fraction) * _UNITS[suffix] // int(10 ** len(fraction))
    if fraction:
        raise argparse.ArgumentTypeError(f"a binary suffix takes whole numbers only: {shown(text)}")
    return int(number) * _BINARY_UNITS[suffix]


whole.__name__ = "int"  # argparse names the type in its messages
suffixed.__name__ = "int (with k, M, G, T, or whole with Ki, Mi, Gi, Ti)"


def _word(text: str) -> str | Unread:
    return UNREAD if _PLACEHOLDER.search(text) else text


class _Parser(argparse.ArgumentParser):
    """argparse that raises ValueError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(shown(message))


class _PassOver(argparse.Action):
    """A flag that does not concern sizing."""

    def __call__(self, *_: Any, **__: Any) -> None:
        pass


@cache
def _parser(at: Version, bench: bool) -> argparse.ArgumentParser:
    parser = _Parser(prog="sglang", add_help=False, argument_default=argparse.SUPPRESS)
    others: dict[str, list[str]] = {}
    for option in options(at, bench):
        if option.sizes or option.field in LISTS:
            parser.add_argument(option.name, dest=option.field, **_kind(option.field, at))
        else:
            others.setdefault("?" if option.args in "01?" else "*", []).append(option.name)
    for nargs, strings in others.items():  # it does not matter here if their value is missing
        parser.add_argument(*strings, dest=argparse.SUPPRESS, action=_PassOver, nargs=nargs)
    return parser


def _kind(field: str, at: Version) -> dict[str, Any]:
    if field in SWITCHES:
        return {"action": "store_true"}
    if field in WORDS:
        return {"type": _word}
    if field in LISTS:
        return {"type": whole, "nargs": "+"}
    return {"type": suffixed if field in SUFFIXED and at >= version(SUFFIXES_SINCE) else whole}


def _shapes(batches: Sequence[Any], lengths: Sequence[Any]) -> Bench | None:
    """Batch sizes and input lengths of a benchmark; None where a variable stands there."""
    if UNREAD in batches or UNREAD in lengths:
        return None
    for name, numbers in (("--batch-size", batches), ("--input-len", lengths)):
        if min(numbers) < 1 or max(numbers) > MAX_BENCH:
            raise ValueError(f"{name} {shown(numbers)}: give whole numbers from 1 to {MAX_BENCH}")
    return tuple(batches), tuple(lengths)


def newest_that_takes(argv: Sequence[str], *, bench: bool) -> tuple[str, str] | None:
    """The newest release that takes all flags that any takes, and the one that newer ones lack.

    None where the newest release takes them all, or where no release does.
    """
    words = [word.partition("=")[0] for word in argv if _FLAG.match(word)]
    flags = [flag for flag in dict.fromkeys(words) if not _PLACEHOLDER.search(flag)][:MAX_FLAGS]
    first = ""
    every = [list_for(release.release) for release in releases() if release.numbered]
    flags = [flag for flag in flags if any(takes(flag, at, bench) for at in every)]
    for at in reversed(every):
        lacking = [flag for flag in flags if not takes(flag, at, bench)]
        if not lacking:
            return None if at == every[-1] else (release_name(at), first)
        first = lacking[0] if at == every[-1] else first
    return None
