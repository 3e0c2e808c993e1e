"""A program and everything that it starts: one session, one log, and nothing of it left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import psutil

LONGEST_TICK_S = 0.5  # of the stall clock: a pause of the watcher itself is no stall
IDLE_SHARE = 0.05  # CPU seconds a second, all processes together, that waiting threads may use
STACK_S = 2.0  # how long one process may take to write its stack
_OUTERMOST = "in <module>\n"  # the last line of a stack that is whole
_GONE = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_AT_WORK = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


class StallClock:
    """How long nothing has moved; any sign of life sets it to 0.

    A process that uses CPU time moves. While one waits for a CPU or a disk the clock stands still:
    that is a slow machine.
    """

    def __init__(self) -> None:
        self.quiet_s = 0.0
        self._cpu_s = 0.0
        self._last = 0.0

    def tick(self, now: float, *, wrote: bool, cpu_s: float, kept: bool) -> float:
        """Seconds of stall at `now`.

        `wrote`: whether something was said since the last tick; `cpu_s`: CPU seconds used so far;
        `kept`: whether some thread has work to do but no CPU or disk to do it with.
        """
        elapsed, self._last = min(now - self._last, LONGEST_TICK_S), now
        idle = cpu_s - self._cpu_s <= IDLE_SHARE * (self.quiet_s + elapsed)
        if wrote or not idle:
            self.quiet_s, self._cpu_s = 0.0, cpu_s
        elif not kept:
            self.quiet_s += elapsed
        return self.quiet_s


class Session:
    """A program in a session of its own, with all processes that it starts, and what they write.

    Both of its outputs go to one file without a name, so that a full disk does not matter and
    nothing is left of it. `end` must be called, whatever happens.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._file = unnamed_file("log")
        self._read = 0
        self._used: dict[int, float] = {}  # process -> CPU seconds, also of those that are gone
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=self._file,
                stderr=self._file,
                start_new_session=True,  # a terminal's Ctrl-C is for the caller alone
            )
        except BaseException:
            self._file.close()
            raise

    @property
    def pid(self) -> int:
        """The program's own process, which the session is named after."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """What the program itself ended with, None while it runs."""
        return self._process.poll()

    def new_text(self) -> str:
        """What was written since the last call, as far as lines are whole."""
        data = self._since(self._read)
        whole = data.rfind(b"\n") + 1
        self._read += whole
        return data[:whole].decode(errors="replace")

    def _since(self, offset: int) -> bytes:
        descriptor = self._file.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size - offset, offset)

    def processes(self) -> list[psutil.Process]:
        """All living processes of the session, orphans included."""
        return [process for process in map(_process, psutil.pids()) if self._holds(process)]

    def _holds(self, process: psutil.Process | None) -> bool:
        if process is None:
            return False
        with suppress(OSError, psutil.Error):
            return os.getsid(process.pid) == self.pid and process.status() not in _GONE
        return False

    def look(self) -> tuple[list[psutil.Process], float, bool]:
        """The processes, their CPU seconds so far, and whether one is at work or kept from it."""
        found, kept = self.processes(), False
        for process in found:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._used[process.pid] = times.user + times.system
                kept |= process.status() in _AT_WORK
        return found, sum(self._used.values()), kept

    def stack(self, process: psutil.Process) -> str:
        """The main thread's stack, which the process writes to the log when it gets SIGUSR1."""
        start = os.fstat(self._file.fileno()).st_size
        with suppress(psutil.Error, OSError):
            signal_main_thread(process.pid, signal.SIGUSR1)
        until = time.monotonic() + STACK_S
        while time.monotonic() < until:
            text = self._since(start).decode(errors="replace")
            if _OUTERMOST in text:
                return text
            time.sleep(0.01)
        return self._since(start).decode(errors="replace")

    def end(self) -> None:
        """End every process of the session, and wait until none is left."""
        while alive := self.processes():
            for process in alive:
                with suppress(psutil.Error):
                    process.kill()
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()
        self._file.close()


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def signal_main_thread(pid: int, number: int) -> None:
    """A signal to a process may be taken by any of its threads, above all when it was stopped."""
    tgkill = getattr(ctypes.CDLL(None), "tgkill", None)
    if tgkill is None:
        os.kill(pid, number)
    else:
        tgkill(pid, pid, number)


def unnamed_file(name: str) -> IO[bytes]:
    """A file with no name anywhere; in memory on Linux, where no full disk matters.

    Elsewhere an OSError that names the way out if the temporary folder cannot hold it.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(f"eagerbuf-{name}"), "w+b")
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        said = f"no file to write to: {error.strerror}; set TMPDIR to a folder that can be written"
        raise OSError(error.errno, said) from error
