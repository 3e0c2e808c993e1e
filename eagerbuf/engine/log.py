"""What an engine wrote: its lines with time and tag, and our own events between them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_EVENT = "\x1e"  # what the processes tell run_engine, see inside/sitecustomize.py
_STAMP = re.compile(
    r"^\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: (?P<tag>[^\]]+))?\] (?P<line>.*)"
)
_FAILED = re.compile(r"Failed to profile prefill latency|Failed to fit the chunk-size predictor")
_RAISED = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)(?::.*)?$")
_SAMPLES = re.compile(r"Profiled \d+ samples: seq_lens=(\[.*?\]), latencies_ms=(\[.*?\])")
_FITTED = re.compile(r"Fitted coefficients: a=(\S+), b=(\S+), c=(\S+)")


@dataclass(frozen=True)
class Line:
    """One line of the log; `time` and `tag` are "" where SGLang gives none."""

    time: str
    tag: str
    line: str


@dataclass
class Log:
    """Everything written so far, the events apart from the lines."""

    lines: list[Line] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Take in further whole lines."""
        for line in text.split("\n"):
            if line.startswith(_EVENT):
                self.events.append(json.loads(line[1:]))
            elif line.strip():
                self.lines.append(_line(line.rsplit("\r", 1)[-1]))

    def told(self, key: str) -> list[Any]:
        """What was told under `key`, in order."""
        return [event[key] for event in self.events if key in event]

    @property
    def failure(self) -> str | None:
        """SGLang's own line of failure: of the profile, else the first exception; None if none."""
        profile = (line.line for line in self.lines if _FAILED.search(line.line))
        raised = (line.line for line in self.lines if _RAISED.match(line.line))
        return next(profile, next(raised, None))

    @property
    def samples(self) -> list[dict[str, Any]]:
        """The profile as its first rank logs it: probe, num_tokens, latency_ms."""
        found = next(filter(None, (_SAMPLES.search(line.line) for line in self.lines)), None)
        if found is None:
            return []
        pairs = zip(json.loads(found[1]), json.loads(found[2]), strict=True)
        return [
            {"probe": probe, "num_tokens": tokens, "latency_ms": ms}
            for probe, (tokens, ms) in enumerate(pairs)
        ]

    @property
    def model(self) -> list[dict[str, Any]]:
        """The latency model of each rank that fitted one: tag, a, b, c."""
        found = ((line.tag, _FITTED.search(line.line)) for line in self.lines)
        return [
            {"tag": tag, **{name: float(fit[at]) for at, name in enumerate("abc", 1)}}
            for tag, fit in found
            if fit
        ]


def _line(text: str) -> Line:
    found = _STAMP.match(text)
    if found is None:
        return Line("", "", text)
    return Line(found["time"], found["tag"] or "", found["line"])
