"""Run a released SGLang on this machine, watch it, end it: nothing of a run outlives its call."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from eagerbuf.engine.environment import (
    FIXED,
    INSIDE,
    EngineMissing,
    differs,
    package_roots,
    python_path,
    run_folder,
    why_not,
)
from eagerbuf.engine.interrupts import Interrupts
from eagerbuf.engine.log import Log
from eagerbuf.engine.report import EngineReport
from eagerbuf.engine.stacks import relative
from eagerbuf.engine.supervise import Session, StallClock
from eagerbuf.sizing import find_rule

POLL_S = 0.2
FLAGS = (
    *("--pp-size", "2", "--enable-dynamic-chunking"),
    *("--chunked-prefill-size", "512", "--max-running-requests", "16"),
)
FLAGS_REFUSED = 2  # exit status of inside/start.py
_RANK = "sglang::scheduler"  # how a rank calls its process


class Lists(list[Any]):
    """Several tables of requests for one run of an engine."""


def run_engine(
    release: str = "0.5.14",
    *,
    flags: Sequence[str] = FLAGS,
    rule: str | None = None,
    requests: Any = None,
    stall_s: float = 3.0,
    limit_s: float = 120.0,
    model: Mapping[str, Any] | None = None,
    switches: Mapping[str, Any] | None = None,
) -> EngineReport:
    """Start SGLang's own engine of `release` with its own `flags`, and say how it ended.

    `rule` (see RULES) sizes the eager runner's buffers in place of the release's own formula.
    `requests`: a number of short ones, or a table or pairs of prompt_tokens and output_tokens; all
    wait before the first batch; Lists of such are served one after the other. After `stall_s`
    seconds in which nothing moves it is a hang; the run is over after `limit_s` seconds. `model`
    overrides values of the made-up model's config.json, `switches` are those of inside/switches.py.
    EngineMissing (a ValueError) says how to set a release up, ValueError what a flag lacks.
    """
    _check(rule, stall_s=stall_s, limit_s=limit_s)
    lists = [*map(_pairs, requests if isinstance(requests, Lists) else [requests])]
    if (missing := why_not(release)) is not None:
        raise EngineMissing(missing)
    asked = {
        "flags": list(flags),
        "model": dict(model or {}),
        "requests": [pairs for pairs in lists if pairs],
        "pause_s": 1.0,
        "entry_for": differs(release).entry_for,
        "switches": {"sizes": rule, **(switches or {})},
    }
    with ExitStack() as stack:
        interrupts = Interrupts()
        stack.enter_context(interrupts.noted())
        folder = stack.enter_context(run_folder())
        run = Run(release, asked | {"folder": folder}, interrupts)
        stack.callback(run.session.end)
        outcome = run.watch(stall_s, limit_s)
        stacks = run.stacks() if outcome in ("hang", "overtime") else {}
        tags = tuple(sorted(run.tags))
        return EngineReport(release, tuple(flags), rule, outcome, run.now, stacks, run.log, tags)


def _check(rule: str | None, **seconds: float) -> None:
    for name, value in seconds.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value}: seconds must be a positive number")
    if rule is not None:
        find_rule(rule)


def _pairs(requests: Any) -> list[list[int]]:
    """(prompt tokens, output tokens) of each request."""
    if requests is None:
        return []
    if isinstance(requests, int):
        return [[20 + 7 * (at % 5), 8] for at in range(requests)]
    if hasattr(requests, "columns"):
        requests = requests[["prompt_tokens", "output_tokens"]].itertuples(index=False)
    return [[int(prompt), int(output)] for prompt, output in requests]


class Run:
    """One run: its processes and what they have written so far."""

    def __init__(
        self,
        release: str,
        asked: dict[str, Any],
        interrupts: Interrupts,
        program: Sequence[str] = (str(INSIDE / "start.py"),),
    ) -> None:
        self.release = release
        self.interrupts = interrupts
        self.roots = [*package_roots(release), asked["folder"]]
        self.log = Log()
        self.now = 0.0
        self.shown = 0  # steps
        self.tags: dict[str, int] = {}  # tag -> process, of every rank that was ever seen
        self.alive: list[psutil.Process] = []
        self.session = Session([sys.executable, *program], _environment(release, asked))

    def watch(self, stall_s: float, limit_s: float) -> str:
        """Look until there is an outcome, one of OUTCOMES."""
        clock, zero = StallClock(), time.monotonic()
        while True:
            self.now = time.monotonic() - zero
            outcome = self._look(clock, stall_s)
            if outcome is not None or self.now >= limit_s:
                return outcome or "overtime"
            time.sleep(POLL_S)
            self.interrupts.let_through()

    def _look(self, clock: StallClock, stall_s: float) -> str | None:
        code = self.session.exit_code()
        self.alive, cpu_s, kept = self.session.look()
        text = self.session.new_text()  # after the look: the last words of what has ended
        self.log.add(relative(text, self.roots))
        self._show()
        self._note_ranks()
        quiet_s = clock.tick(self.now, wrote=bool(text), cpu_s=cpu_s, kept=kept)
        return self._ended(code) or (self._stalled() if quiet_s >= stall_s else None)

    def _stalled(self) -> str:
        """A rank that crashed may wait for a core dump before it ends: that is no hang."""
        crashed = any("hit an exception: " in line.line for line in self.log.lines)
        return "crashed" if crashed else "hang"

    def _show(self) -> None:
        for step in self.log.told("at")[self.shown :]:
            print(f"SGLang {self.release}: {self.now:.0f} s, {step}", file=sys.stderr)
            self.shown += 1

    def _ended(self, code: int | None) -> str | None:
        if self.log.told("done"):
            return "completed"
        if code == FLAGS_REFUSED and not self.log.told("added"):
            raise ValueError(f"flags: {self.log.lines[-1].line}")
        return None if code is None else "crashed"

    def _note_ranks(self) -> None:
        for process in self.alive:
            if (title := _title(process)).startswith(_RANK):
                tag = title.removeprefix(_RANK).replace("_", " ").strip()
                self.tags.setdefault(tag or "TP0", process.pid)

    def stacks(self) -> dict[str, str]:
        """Tag -> stack of every rank that lives."""
        found = {process.pid: process for process in self.alive}
        ranks = [(tag, found[pid]) for tag, pid in sorted(self.tags.items()) if pid in found]
        texts = {tag: self.session.stack(process) for tag, process in ranks}
        return {tag: relative(text, self.roots).strip() for tag, text in texts.items()}


def _title(process: psutil.Process) -> str:
    try:
        return str((process.cmdline() or [""])[0])
    except psutil.Error:
        return ""


def _environment(release: str, asked: dict[str, Any]) -> dict[str, str]:
    folder = asked["folder"]
    own = {
        "EAGERBUF_ENGINE_RUN": json.dumps(asked),
        "PYTHONPATH": python_path(release),
        "TMPDIR": folder,
        "HF_HOME": str(Path(folder, "hub")),
    }
    return os.environ | FIXED | own
