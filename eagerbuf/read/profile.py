"""What a start-up log shows of the latency profile: that it failed, or that the log ends in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eagerbuf.read.text import breakable, pattern, record_from, shown

MAX_MESSAGE = 2**12  # characters of the failure's record
MAX_BROKEN = 2**18  # characters of a text in which words that a terminal broke are looked for
MAX_REST = 2**10  # characters of a progress bar that a terminal broke
MAX_STALL = 2**18  # characters after it in which signs of a stall are looked for

_FAILS = {
    False: "Failed to profile prefill latency: ",
    True: "Failed to fit the chunk-size predictor: ",
}
_THEREFORE = "Dynamic chunking will be disabled"
_READY = "Predictor ready ("
_PROBES = "Profiling prefill latency for dynamic chunking"
_BROKEN_FAILS = {in_fit: pattern(breakable(words)) for in_fit, words in _FAILS.items()}
_BAR = pattern(r"(?:[\s\d%|/<:?,.=\[\]#\u2580-\u259f]|it|s)*")
_COUNT = pattern(r"(\d+/\d+) \[")
# What a start-up that goes on prints after the profile, and what one that stands still prints.
_WENT_ON = (
    _READY,
    "Prefill batch",
    "Decode batch",
    "ready to roll",
    "server is ready",
    "Application startup complete",
    "Uvicorn running",
    " 200 OK",
)
_STALL = pattern(
    r"watchdog timeout|py-?spy|heartbeat|health[ _-]?check|timed out|\btimeout\b(?!=)|sigquit"
    r"|distbackenderror|processgroupnccl|traceback \(most recent|\bthread (?:0x)?[0-9a-f]+ \(",
    re.IGNORECASE,
)
_SIZES = pattern(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")


@dataclass(frozen=True)
class Profile:
    """A profile that a log shows: what it failed with, if it did, else where start-up ends in it.

    `served`: batches follow, so that start-up did not hang; `at`: "37/128" probes, or "";
    `in_fit`: every rank failed alike, at the fit of what PP rank 0 had measured (from 0.5.20).
    """

    failure: str | None = None
    served: bool = False
    at: str = ""
    in_fit: bool = False

    @property
    def overflow(self) -> tuple[int, int] | None:
        """Tokens of the probe and of the buffer that did not hold it, if that is what failed."""
        sizes = _SIZES.search(self.failure or "")
        held, sent = (int(sizes[1][:15]), int(sizes[2][:15])) if sizes else (0, 0)
        return (sent, held) if sent > held > 0 else None


def profile_in(text: str) -> Profile | None:
    """The last profile in a log, if it failed or is not over."""
    start, in_fit = max((_last_failure(text, in_fit), in_fit) for in_fit in _FAILS)
    if start > text.rfind(_READY):
        message = record_from(text, start, MAX_MESSAGE)[0].partition(_THEREFORE)
        whole = message[0] if message[1] else text[start:].partition("\n")[0][:MAX_MESSAGE]
        served = max(text.rfind("Prefill batch"), text.rfind("Decode batch")) > start
        return Profile(shown(whole.rstrip(". ")), served, in_fit=in_fit)
    place = text.rfind(_PROBES)
    if place < 0:
        return None
    if _ends_in_bar(text, place + len(_PROBES)):
        counts = _COUNT.findall(text, place)
        return Profile(at=counts[-1] if counts else "")
    at = _COUNT.search(text, place, place + MAX_REST)
    stalls = at and not _is_over(at[1]) and _stalls(text, at.end())
    return Profile(at=at[1]) if at and stalls else None


def _is_over(count: str) -> bool:
    done, _, of = count.partition("/")
    return done == of


def _stalls(text: str, place: int) -> bool:
    """Whether what follows an unfinished bar shows a stall, and nothing of start-up going on."""
    if any(text.find(words, place) >= 0 for words in _WENT_ON):
        return False
    return bool(_STALL.search(text, place, place + MAX_STALL))


def _last_failure(text: str, in_fit: bool) -> int:
    """Where the words of the last failure begin, -1 without one."""
    place = text.rfind(_FAILS[in_fit])
    if place >= 0:
        return place + len(_FAILS[in_fit])
    broken = list(_BROKEN_FAILS[in_fit].finditer(text)) if len(text) <= MAX_BROKEN else []
    return broken[-1].end() if broken else -1


def _ends_in_bar(text: str, place: int) -> bool:
    """Whether nothing but a progress bar follows."""
    return len(text) - place <= MAX_REST and bool(_BAR.fullmatch(text, place))
