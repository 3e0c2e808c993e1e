"""One worker as its launcher holds it: the process, its status, the nameless files it writes to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from eagerbuf.engine.supervise import signal_main_thread, unnamed_file
from eagerbuf.repro.launch.event_log import LogReader
from eagerbuf.repro.launch.process_state import ProcessState, main_thread
from eagerbuf.repro.launch.status import WorkerStatus

FILES = ("log", "stack", "stderr")
Files = dict[str, IO[bytes]]
OUTERMOST = "in _run_module_as_main"  # the last line of a stack that is whole


class Worker:
    """A process started with files that have no names, so that nothing of them is left."""

    def __init__(self, rank: int, start: Callable[[Files], subprocess.Popen[bytes]]) -> None:
        """Start it by `start`; OSError if that, or a file, fails."""
        self.status = WorkerStatus(rank)
        self.files = unnamed_files()
        try:
            self.process = start(self.files)
        except BaseException:
            close(self.files)
            raise
        self._log = LogReader(self.files["log"].fileno())
        self._state = ProcessState(self.process.pid)

    def look(self, now: float) -> None:
        """Bring the status up to date; `now`: seconds since the run's start."""
        exit_code = self.process.poll()
        lines = self._log.new_lines()  # after the poll: the last words of one that has ended
        self.status.lines += lines
        if exit_code is not None:
            self._note_end(exit_code, now)
            return
        self._state.look()
        self.status.stopped, self.status.starved = self._state.stopped, self._state.starved
        if not lines:  # whoever writes is not blocked
            self._look_at_main_thread()

    def _look_at_main_thread(self) -> None:
        seen = main_thread(self.process.pid)
        self.status.cpu_s, self.status.asleep = seen or (self.status.cpu_s, False)

    def _note_end(self, exit_code: int, now: float) -> None:
        if self.status.exit_code is None:
            self.status.exit_code, self.status.ended = exit_code, now
            self.status.stopped = self.status.starved = False
        self.status.stderr = self._text("stderr")

    def _text(self, name: str) -> str:
        descriptor = self.files[name].fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def ask_for_stack(self) -> None:
        """Have its main thread write its stack; one that stands stopped must go on to do so."""
        if self.process.poll() is None:
            signal_main_thread(self.process.pid, signal.SIGUSR1)
        if self.status.stopped:
            self.process.send_signal(signal.SIGCONT)

    def has_stack(self) -> bool:
        """Whether the stack that was asked for is whole; the status has what there is."""
        self.status.stack = self._text("stack")
        return OUTERMOST in self.status.stack

    def release(self) -> None:
        """Close the standard input that keeps a worker which is through; it may be gone already."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait for it to end, `seconds` at most."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(seconds, 0.0))

    def reap(self) -> None:
        """Wait for a worker that was killed, then close what was shared with it."""
        self.process.wait()
        self.release()
        close(self.files)


def unnamed_files() -> Files:
    """One file for each of FILES, with no name anywhere, so that nothing can be left of it.

    OSError that says the way out, where they are no files in memory and the disk takes none.
    """
    files: Files = {}
    try:
        for name in FILES:
            files[name] = unnamed_file(name)
    except OSError:
        close(files)
        raise
    return files


def close(files: Files) -> None:
    """Close them all."""
    for file in files.values():
        file.close()
