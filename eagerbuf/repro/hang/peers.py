"""Ranks that watch themselves: under torchrun no launcher of ours sees them, maybe not one machine.

Each rank reports through the rendezvous store; rank 0 judges, and every rank ends by the verdict.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import timedelta
from typing import Any

from eagerbuf.repro.hang.dist_env import Place
from eagerbuf.repro.hang.report import HangReport
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.event_log import Journal, Line
from eagerbuf.repro.launch.stacks import frame_stack
from eagerbuf.repro.launch.status import LOST_PEER, Sighting, StallClock, judge

BEAT_S = 0.25
PARTING_S = 5.0  # how long the ranks wait for each other once there is a verdict


class Peer:
    """One rank's reports to the others, from a thread beside the rank's own work."""

    def __init__(self, settings: Settings, place: Place, as_json: bool) -> None:
        self.settings = settings
        self.place = place
        self.as_json = as_json
        self.start = time.monotonic()
        self.lines: list[Line] = []
        self.journal = Journal(lambda line: self.lines.append(json.loads(line)), self.start)
        self.through = threading.Event()
        self._main = threading.get_ident()

    def seconds(self) -> float:
        """Seconds since this rank's start."""
        return time.monotonic() - self.start

    def watch(self) -> None:
        """Start to report and to judge. Whatever happens, the rank ends soon after limit_s."""
        deadline = threading.Timer(self.settings.limit_s + 2 * PARTING_S, self._give_up)
        deadline.daemon = True
        deadline.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _give_up(self) -> None:
        at = next((line["step"] for line in reversed(self.lines) if "step" in line), "not started")
        said = f"rank {self.place.rank}: limit_s={self.settings.limit_s:g} passed without a verdict"
        print(f"{said} of rank 0; at {at!r}", file=sys.stderr, flush=True)
        os._exit(1)

    def _watch(self) -> None:
        from eagerbuf.repro.hang.groups import open_store

        try:
            self._report_until_judged(open_store(self.place, self.settings.limit_s))
        except Exception as error:  # without the store nobody can judge, so nobody may stay
            print(f"the store of rank 0 is gone: {error}", file=sys.stderr, flush=True)
            os._exit(LOST_PEER)

    def _report_until_judged(self, store: Any) -> None:
        clock = StallClock()
        while not store.check(["verdict"]):
            store.set(f"rank {self.place.rank}", json.dumps(self._sighting()))
            if self.place.rank == 0:
                self._judge(store, clock)
            time.sleep(BEAT_S)
        self._part(store, store.get("verdict").decode())

    def _sighting(self, stack: str = "") -> dict[str, Any]:
        seen = Sighting(self.place.rank)
        seen.look(os.getpid())
        known = {"lines": self.lines[:], "now": self.seconds(), "stack": stack}
        return known | {"cpu_s": seen.cpu_s, "asleep": seen.asleep}

    def _judge(self, store: Any, clock: StallClock) -> None:
        limits = (self.settings.stall_s, self.settings.limit_s)
        outcome = judge(self._all(store, "rank"), clock, self.seconds(), *limits)
        if outcome is not None:
            store.set("verdict", outcome)

    def _all(self, store: Any, key: str) -> list[Sighting]:
        """What every rank has reported under `key`, an empty sighting where nothing came yet."""
        names = {rank: f"{key} {rank}" for rank in range(self.place.ranks)}
        return [
            Sighting(rank, **json.loads(store.get(name)) if store.check([name]) else {})
            for rank, name in names.items()
        ]

    def _part(self, store: Any, outcome: str) -> None:
        """Leave the stack for rank 0, which reports; nobody ends before that, or torchrun would."""
        stack = "" if outcome == "completed" else frame_stack(sys._current_frames()[self._main])
        store.set(f"last {self.place.rank}", json.dumps(self._sighting(stack)))
        if self.place.rank == 0:
            self._report(store, outcome)
            store.set("over", "")
        else:
            _await(store, ["over"])
        os._exit(0 if outcome == "completed" else 1)

    def _report(self, store: Any, outcome: str) -> None:
        _await(store, [f"last {rank}" for rank in range(self.place.ranks)])
        seen = tuple(self._all(store, "last"))
        print_report(HangReport(outcome, self.seconds(), self.settings, seen), self.as_json)


def print_report(report: HangReport, as_json: bool) -> None:
    """The report on standard output, as text or as one line of JSON."""
    print(json.dumps(report.to_dict()) if as_json else report, flush=True)


def _await(store: Any, keys: list[str]) -> None:
    try:
        store.wait(keys, timedelta(seconds=PARTING_S))
    except Exception as error:  # a rank that is gone cannot hold up the others' end
        print(f"no word from every rank: {type(error).__name__}", file=sys.stderr, flush=True)
