"""read_log: the batches that a running server logged, one row each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from eagerbuf.read.logged import log_part
from eagerbuf.read.options import table, version
from eagerbuf.read.startup import startup
from eagerbuf.read.text import RECORD, broken_places, pattern, plain, rank_tags, record_from

if TYPE_CHECKING:
    from pandas import DataFrame, DatetimeIndex

MAX_BATCH_LINE = 2**11  # characters of one line
LAST_START_UP = "last_start_up"  # in a frame's attrs: the label of that start-up's first row
EXACT_SINCE = "0.5.20"  # from here #new-token counts tokens, before it whole pages
OLDEST_YEAR, NEWEST_YEAR = "1678", "2261"
WHOLE_DUMP = 100  # fields; a dump with fewer may lack those that tell its release

_HEAD = pattern(r"(?:Prefill|Decode) batch(?: \[\d{1,15}\])?[.,] ?")
_USUAL = pattern(
    r"(?:Prefill|Decode) batch(?: \[\d{1,15}\])?[.,] "
    r"(?:#new-seq: (\d{1,15}), #new-token: (\d{1,15}), #cached-token: (\d{1,15}),"
    r"|#running-req: (\d{1,15}), )"
)
_COUNT = pattern(r"#(new-seq|new-token|cached-token|running-req): (\d{1,15})\b")


class Batch(NamedTuple):
    """One batch line: where it is, and its numbers (None where the line has none)."""

    place: int
    prefill: bool
    new_tokens: int | None
    requests: int
    cached_tokens: int | None


def read_log(text: str, *, release: str | None = None) -> DataFrame:
    """The `Prefill batch` and `Decode batch` lines of a log, in order, one row a line.

    `time` (datetime64; NaT where the line shows no date), `tags` (rank tags, "DP0 TP0"), `kind`
    ("prefill" or "decode"), `new_tokens` (`#new-token`; <NA> for decode, whose line does not show
    them), `requests` (`#new-seq` of a prefill, `#running-req` of a decode batch), `cached_tokens`
    (<NA> for decode) and `page_rounded`: whether `new_tokens` is rounded up to whole pages, as it
    is up to 0.5.19. That follows from `release`, else from what the log itself shows (its start-up
    dump, dates, the line's form); <NA> where nothing tells. A line that is cut before its numbers
    is left out. `attrs["last_start_up"]`: label of the first row after the last start-up in the
    log began (0 where there is one start-up). ValueError for text that is none.
    """
    text = plain(text)
    batches = list(_batches(text))
    stamps = [_stamp(text, batch.place) for batch in batches]
    known = _rounded_by_release(release) if release else _rounded_by_dump(text)
    rounded = [
        _rounded(text, batch, time) if known is None else known
        for batch, (time, _) in zip(batches, stamps, strict=True)
    ]
    frame = _frame(batches, stamps, rounded)
    begins = startup(log_part(text)[0]).begins
    frame.attrs[LAST_START_UP] = sum(batch.place < begins for batch in batches) if begins else 0
    return frame


def _frame(
    batches: list[Batch], stamps: list[tuple[str | None, str]], rounded: list[bool | None]
) -> DataFrame:
    import pandas as pd

    kinds = ["prefill" if batch.prefill else "decode" for batch in batches]
    return pd.DataFrame(
        {
            "time": _times([time for time, _ in stamps]),
            "tags": pd.Series([tags for _, tags in stamps], dtype=object),
            "kind": pd.Series(kinds, dtype=object),
            "new_tokens": pd.array([b.new_tokens for b in batches], dtype="Int64"),
            "requests": pd.array([b.requests for b in batches], dtype="Int64"),
            "cached_tokens": pd.array([b.cached_tokens for b in batches], dtype="Int64"),
            "page_rounded": pd.array(rounded, dtype="boolean"),
        }
    )


def _times(stamps: list[str | None]) -> DatetimeIndex:
    import pandas as pd

    return pd.to_datetime(stamps, errors="coerce", format="ISO8601").as_unit("ns")


def _batches(text: str) -> Iterator[Batch]:
    found = broken_places(text, "Prefill batch", "Decode batch")
    ends = [*found[1:], len(text)]
    for place, following in zip(found, ends, strict=False):
        usual = _USUAL.match(text, place)
        if usual is None:
            batch = _mended(text, place, following)
            if batch:
                yield batch
        elif usual[4] is None:
            yield Batch(place, True, int(usual[2]), int(usual[1]), int(usual[3]))
        else:
            yield Batch(place, False, None, int(usual[4]), None)


def _mended(text: str, place: int, following: int) -> Batch | None:
    """A batch whose line was broken by a terminal or a collector, or has its fields elsewhere."""
    body, _ = record_from(text, place, min(MAX_BATCH_LINE, following - place))
    head = _HEAD.match(body)
    if head is None:
        return None
    found = _COUNT.findall(body, head.end())
    counts = {name: int(number) for name, number in found}
    if body.startswith("Decode"):
        running = counts.get("running-req")
        return None if running is None else Batch(place, False, None, running, None)
    if "new-seq" not in counts or "new-token" not in counts:
        return None
    cached = counts.get("cached-token")
    return Batch(place, True, counts["new-token"], counts["new-seq"], cached)


def _stamp(text: str, place: int) -> tuple[str | None, str]:
    """Time and rank tags in the brackets before a message."""
    bracket = text.rfind("[", max(0, place - 120), place)
    return _read_stamp(text[bracket:place].replace("\n", "")) if bracket >= 0 else (None, "")


@lru_cache(maxsize=1024)
def _read_stamp(stamp: str) -> tuple[str | None, str]:
    record = RECORD.fullmatch(stamp)
    if record is None:
        return None, ""
    time = record["time"] if record["time"] and "-" in record["time"] else None
    if time and not OLDEST_YEAR <= time[:4] <= NEWEST_YEAR:
        time = None  # no date that a column of nanoseconds can hold
    return time and time.replace(",", "."), record["tags"] if rank_tags(record["tags"]) else ""


def _rounded(text: str, batch: Batch, time: str | None) -> bool | None:
    """Whether this line counts whole pages, where the line or its date can tell."""
    if time is not None and time[:10] < _exact_since_date():
        return True
    line = text[batch.place : batch.place + MAX_BATCH_LINE].split("\n", 1)[0]
    if "#replay-token" in line:
        return False
    return True if batch.prefill and "#queue-req" in line and "#pending-token" not in line else None


def _rounded_by_release(release: str) -> bool:
    from eagerbuf.releases import find_release

    name = find_release(release).release
    return name.startswith("main") or version(name) < version(EXACT_SINCE)


@lru_cache(maxsize=1)
def _exact_since_date() -> str:
    from eagerbuf.releases import find_release

    return find_release(EXACT_SINCE).newest_file


def _rounded_by_dump(text: str) -> bool | None:
    """What the names of fields in a start-up dump tell of the release; None where they do not."""
    start = text.find("server_args=")
    if start < 0:
        return None
    body, _ = record_from(text, start, 2**18)
    names = set(re.findall(r"[({,]\s*[\"']?([a-z_0-9]+)[\"']?\s*[=:]", body))
    if len(names) < WHOLE_DUMP:
        return None
    since = {option.field: version(option.first) for option in table()}
    newest = max((since[name] for name in names if name in since), default=None)
    return None if newest is None else newest < version(EXACT_SINCE)
