"""What the launcher knows of each worker."""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass, field
from typing import Any

from eagerbuf.repro.launch.event_log import DONE, READY, Line

BUSY_S = 0.05  # CPU time of the main thread above which a worker is not blocked; ticks are 0.01 s
_NOTHING: Line = {"t": 0.0, "step": "not started", "waits": False}


@dataclass
class WorkerStatus:
    """One worker as last seen; `now`, `ended` and the lines' `t` are seconds of the run.

    `cpu_s`, `asleep`: of its main thread. `stopped` by SIGSTOP, or `starved` of CPU time, since the
    look before: see `process_state`. `ended` is when `exit_code` was first seen.
    """

    rank: int
    lines: list[Line] = field(default_factory=list)
    now: float = 0.0
    cpu_s: float = 0.0
    asleep: bool = False
    exit_code: int | None = None
    stderr: str = ""
    stack: str = ""
    stopped: bool = False
    starved: bool = False
    ended: float | None = None

    @property
    def steps(self) -> list[Line]:
        """The log's lines that name a step."""
        return [line for line in self.lines if "step" in line]

    @property
    def last(self) -> Line:
        """The last step, or a line that says that there is none."""
        return next((line for line in reversed(self.lines) if "step" in line), _NOTHING)

    @property
    def done(self) -> bool:
        """Whether the worker has said that it is through."""
        return bool(self.last["step"] == DONE)

    @property
    def ready(self) -> bool:
        """Whether the worker is past imports and rendezvous."""
        return any(line.get("step") == READY for line in self.lines)

    def notes(self, key: str) -> list[Any]:
        """Everything the worker noted under `key`, in order."""
        return [line["note"][key] for line in self.lines if key in line.get("note", {})]

    def blocked(self, cpu_before: float) -> bool:
        """Whether it waits for another worker and uses no CPU time (a wait on CUDA spins)."""
        if self.done or not self.last["waits"]:
            return self.done
        on_cuda = any(str(device).startswith("cuda") for device in self.notes("device"))
        return on_cuda or (self.asleep and self.cpu_s - cpu_before < BUSY_S)

    @property
    def raised(self) -> bool:
        """Whether it has said what ended it."""
        return bool(self.notes("raised"))

    @property
    def ended_s(self) -> float:
        """When it ended: as it said itself, else its last sign of life if it was killed.

        A killed worker is seen to have ended only after the others have lost it. An abort can be
        the C++ library's answer to a lost peer, so that it counts from when it was seen.
        """
        if self.raised:
            return float(next(ln["t"] for ln in self.lines if "raised" in ln.get("note", {})))
        if (self.exit_code or 0) < 0 and self.exit_code != -signal.SIGABRT:
            return float(self.lines[-1]["t"]) if self.lines else 0.0
        return math.inf if self.ended is None else self.ended
