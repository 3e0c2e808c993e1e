"""A rank's journal: one JSON line for each step, so that a watcher sees progress at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

DONE, READY, START = "done", "ready", "start"
Line = dict[str, Any]  # t (seconds), and step, waits (bool) or note (dict)


class Journal:
    """Where one rank writes what it does. `start` is the run's zero on the monotonic clock."""

    def __init__(self, write: Callable[[str], None], start: float) -> None:
        self._write = write
        self._start = start
        self.waits = False

    def seconds(self) -> float:
        """Seconds since the run's zero."""
        return time.monotonic() - self._start

    def step(self, step: str, *, waits: bool = False, **note: Any) -> None:
        """The rank now does `step`; `waits` if it may have to wait there for another rank."""
        self.waits = waits
        line: Line = {"t": self.seconds(), "step": step, "waits": waits}
        self._write(json.dumps(line | ({"note": note} if note else {})))

    def note(self, **note: Any) -> None:
        """Something worth keeping that is no step of its own; it counts as progress."""
        self._write(json.dumps({"t": self.seconds(), "note": note}))


def to_descriptor(descriptor: int) -> Callable[[str], None]:
    """Append lines to an open file, one write a line."""

    def write(line: str) -> None:
        os.write(descriptor, line.encode() + b"\n")

    return write


class Reader:
    """Reads a growing journal from its start, whole lines only."""

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
