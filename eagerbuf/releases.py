"""Which upstream release has which sizing rule and which fault (data/releases.csv)."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from eagerbuf._data import read_data
from eagerbuf.sizing import RULES

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (
    "release",
    "newest_file",
    "eager_runner",
    "sizing_rule",
    "profile_failure_broadcast",
    "probe_clipped_to_context",
    "extend_autotune",
)


@dataclass(frozen=True)
class Release:
    """One SGLang release: `sizing_rule` is None without an eager runner, flags as in the CSV."""

    release: str
    newest_file: str
    eager_runner: bool
    sizing_rule: str | None
    profile_failure_broadcast: bool
    probe_clipped_to_context: bool
    extend_autotune: bool

    @property
    def numbered(self) -> bool:
        """Whether this is a release one can install, not a stretch of main."""
        return self.release[0].isdigit()


def load_releases(path: Path) -> tuple[Release, ...]:
    """The rows of a releases CSV, oldest first; ValueError with file, line and reason."""
    return _parse(path.read_text(encoding="utf-8"), path.name)


def _parse(text: str, name: str) -> tuple[Release, ...]:
    reader = csv.DictReader(text.splitlines())
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ValueError(f"{name}, line 1: columns must be {','.join(COLUMNS)}")
    rows = [_row(row, f"{name}, line {reader.line_num}") for row in reader]
    if not any(row.numbered for row in rows):
        raise ValueError(f"{name}: no release in it")
    return tuple(rows)


@cache
def releases() -> tuple[Release, ...]:
    """All known releases, oldest first."""
    return _parse(read_data("releases.csv"), "releases.csv")


def newest_release() -> Release:
    """The newest release known here."""
    return [row for row in releases() if row.numbered][-1]


def find_release(name: str | None) -> Release:
    """The release called `name` ("0.5.14", "v0.5.14"); None means the newest known.

    A release older than the first one with an eager runner has none. ValueError for anything else,
    naming the range that is known.
    """
    if name is None:
        return newest_release()
    wanted = name.strip().removeprefix("v")
    for row in releases():
        if row.release == wanted:
            return row
    first = next(row for row in releases() if row.eager_runner and row.numbered)
    key = _key(wanted)
    if key is not None and key < (_key(first.release) or key):
        return Release(wanted, "", False, None, False, False, False)
    raise ValueError(
        f"release={name!r}: not known here; known are {first.release} to "
        f"{newest_release().release} ({', '.join(r.release for r in releases() if r.numbered)})"
    )


def at_or_after(release: Release, name: str) -> bool:
    """Whether `release` is the known release `name` or comes after it."""
    order = [row.release for row in releases()]
    return release.release in order and order.index(release.release) >= order.index(name)


def _key(version: str) -> tuple[int, ...] | None:
    """Sortable form of "x.y.z", "x.y.zrcN" or "x.y.z.postN"; None if it is no such version."""
    pattern = r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:(rc|\.post)(\d{1,6}))?"
    match = re.fullmatch(pattern, version)
    if match is None:
        return None
    stage = {"rc": -1, None: 0, ".post": 1}[match[4]]
    return (int(match[1]), int(match[2]), int(match[3]), stage, int(match[5] or 0))


def _row(row: dict[str, str], where: str) -> Release:
    if None in row or None in row.values():
        raise ValueError(f"{where}: must have {len(COLUMNS)} fields")
    rule = row["sizing_rule"] or None
    if rule is not None and rule not in RULES:
        raise ValueError(f"{where}: sizing_rule={rule!r} is none of {', '.join(RULES)}")
    runner = _flag(row, "eager_runner", where)
    if runner != (rule is not None):
        raise ValueError(f"{where}: a release has a sizing_rule exactly if it has an eager_runner")
    if not row["release"] or not re.fullmatch(r"\d{4}-\d\d-\d\d", row["newest_file"]):
        raise ValueError(f"{where}: needs a release and newest_file as YYYY-MM-DD")
    flags = [_flag(row, name, where) for name in COLUMNS[4:]]
    return Release(row["release"], row["newest_file"], runner, rule, *flags)


def _flag(row: dict[str, str], name: str, where: str) -> bool:
    if row[name] not in ("yes", "no"):
        raise ValueError(f"{where}: {name}={row[name]!r} must be yes or no")
    return row[name] == "yes"
