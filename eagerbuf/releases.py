"""Which upstream release has which sizing rule and which fault (data/releases.csv)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from eagerbuf._csv import Reads, flag, maybe, table

SCHEMA: dict[str, Reads] = {
    "release": str,
    "newest_file": str,
    "eager_runner": flag,
    "sizing_rule": maybe(str),
    "profile_failure_broadcast": flag,
    "radix_cache_fails_profile": flag,
    "probe_clipped_to_context": flag,
    "extend_autotune": flag,
    "source": str,
}


@dataclass(frozen=True)
class Release:
    """One SGLang release: `sizing_rule` is None without an eager runner, flags as in the CSV.

    `profile_failure_broadcast`: a failed latency profile is told to every rank, if all TP ranks of
    stage 0 fail alike (#37675); one that fails alone still leaves its peers in a collective. Up to
    0.5.22 such a probe keeps its KV slots; in 0.5.20, as run, the idle check then ends the
    scheduler.
    `radix_cache_fails_profile`: the profile always fails with the radix cache on (#37167, #37509).
    `source` is the wheel it was read from; empty for a release older than the table.
    """

    release: str
    newest_file: str
    eager_runner: bool
    sizing_rule: str | None
    profile_failure_broadcast: bool
    radix_cache_fails_profile: bool
    probe_clipped_to_context: bool
    extend_autotune: bool
    source: str = ""

    @property
    def numbered(self) -> bool:
        """Whether this is a release one can install, not a stretch of main."""
        return self.release[0].isdigit()


@cache
def releases() -> tuple[Release, ...]:
    """All known releases, oldest first."""
    return tuple(Release(**row) for row in table("releases.csv", SCHEMA))


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
        return Release(wanted, "", *(False, None, False, False, False, False))
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
