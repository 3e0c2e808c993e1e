"""`python -m tests.faults.raising FAULT …`: a rank of run_hang that raises at one of its steps."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from eagerbuf.repro.hang.__main__ import main
from eagerbuf.repro.launch.event_log import EventLog


class Injected(RuntimeError):
    """The failure that the test put there."""


def arm(at: str, nth: int) -> None:
    """Have the log raise once it has written step number `nth` whose name begins with `at`."""
    write, left = EventLog.step, nth

    def step(self: EventLog, name: str, *, waits: bool = False, **note: Any) -> None:
        nonlocal left
        write(self, name, waits=waits, **note)
        if name.startswith(at):
            left -= 1
            if left == -1:
                raise Injected(f"injected at {name!r}")

    EventLog.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    fault = json.loads(sys.argv[1])
    if fault["rank"] == json.loads(os.environ["EAGERBUF_WORKER"])["rank"]:
        arm(fault["at"], fault["nth"])
    main(sys.argv[2])
