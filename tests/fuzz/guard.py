"""While a reader reads, nothing is opened, started, connected to, imported or evaluated."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HARMLESS = {
    "builtins.id",
    "object.__getattr__",
    "object.__setattr__",
    "sys._getframe",
    "sys.unraisablehook",
}
PARSED = "<pasted>"  # the name under which a reader parses code
CPU_S = 5.0  # of one small input; the slowest takes some hundredths


class Touched(BaseException):
    """A reader did what no reader does; no `except Exception` of its own can hide it."""


class Slow(BaseException):
    """One input took more than `CPU_S` seconds of the processor."""


class _Watch:
    armed = False
    off = False
    allowed: frozenset[str] = frozenset()
    installed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _Watch.armed or event in HARMLESS:
        return
    if event == "open" and str(arguments[0]) in _Watch.allowed:
        return
    if event == "compile" and arguments[1] == PARSED:
        return  # a syntax tree and no code: to run any, "exec" would follow
    _Watch.armed = False
    raise Touched(f"{event}{arguments!r}"[:300])


@contextmanager
def nothing_touched(*files: str) -> Iterator[None]:
    """Touched if the block raises any audit event but opening one of `files`."""
    if not _Watch.installed:
        sys.addaudithook(_hook)  # for the life of the process: such hooks cannot be removed
        _Watch.installed = True
    _Watch.allowed = frozenset(files)
    _Watch.armed = not _Watch.off
    try:
        yield
    finally:
        _Watch.armed = False


@contextmanager
def unwatched() -> Iterator[None]:
    """Within it `nothing_touched` watches nothing: what is loaded when first used is loaded."""
    _Watch.off = True
    try:
        yield
    finally:
        _Watch.off = False


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise Slow(f"over {CPU_S:g} s of processor time")


@contextmanager
def soon() -> Iterator[None]:
    """Slow if the block takes more than `CPU_S` seconds of processor time, however busy it is."""
    before = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
