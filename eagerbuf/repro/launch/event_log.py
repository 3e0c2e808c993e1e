"""A worker's event log: one JSON line for each step, so that its launcher sees progress at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

DONE, READY, START = "done", "ready", "start"
Line = dict[str, Any]  # t (seconds), and step, waits (bool) or note (dict)


class EventLog:
    """Where one worker writes what it does; `start` is the run's zero on the monotonic clock."""

    def __init__(self, write: Callable[[str], None], start: float) -> None:
        self._write = write
        self._start = start
        self.waits = False

    def step(self, step: str, *, waits: bool = False, **note: Any) -> None:
        """The worker now does `step`; `waits` if it may have to wait there for another worker."""
        self.waits = waits
        self._line({"step": step, "waits": waits} | ({"note": note} if note else {}))

    def note(self, **note: Any) -> None:
        """Something worth keeping that is no step of its own; it counts as progress."""
        self._line({"note": note})

    def _line(self, said: Line) -> None:
        self._write(json.dumps({"t": time.monotonic() - self._start} | said))


def to_descriptor(descriptor: int) -> Callable[[str], None]:
    """Append lines to an open file, one write a line."""

    def write(line: str) -> None:
        os.write(descriptor, line.encode() + b"\n")

    return write


class LogReader:
    """Reads a growing event log from its start, whole lines only."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._offset = 0

    def new_lines(self) -> list[Line]:
        """The lines that were finished since the last call."""
        size = os.fstat(self._descriptor).st_size - self._offset
        text = os.pread(self._descriptor, size, self._offset) if size else b""
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
