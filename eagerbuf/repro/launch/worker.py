"""One rank as its launcher holds it: the process, its pulse and the nameless files it writes to."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from eagerbuf.repro.launch.event_log import Reader
from eagerbuf.repro.launch.process_state import Pulse

FILES = ("journal", "stack", "stderr")


@dataclass
class Member:
    """One rank's process and the unnamed files that it writes to."""

    process: subprocess.Popen[bytes]
    journal: Reader
    files: dict[str, IO[bytes]]
    pulse: Pulse

    def text(self, name: str) -> str:
        """What the rank has written to one of its files so far."""
        descriptor = self.files[name].fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def release(self) -> None:
        """Close the standard input that keeps a rank which is through; it may be gone already."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait for the rank to end, `seconds` at most."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(seconds, 0.0))

    def bury(self) -> None:
        """Wait for a rank that was killed, then close what was shared with it."""
        self.process.wait()
        self.release()
        close(self.files)


def ask_for_stack(member: Member, *, stopped: bool) -> None:
    """Have a rank's main thread write its stack; one that stands stopped must go on to do so."""
    _signal_main_thread(member.process, signal.SIGUSR1)
    if stopped:
        member.process.send_signal(signal.SIGCONT)


def _signal_main_thread(process: subprocess.Popen[bytes], number: int) -> None:
    """A signal to a process may be taken by any of its threads, above all when it was stopped."""
    tgkill = getattr(ctypes.CDLL(None), "tgkill", None)
    if tgkill is None:
        process.send_signal(number)
    elif process.poll() is None:
        tgkill(process.pid, process.pid, number)


def unnamed_files() -> dict[str, IO[bytes]]:
    """One file for each of FILES, with no name anywhere, so that nothing can be left of it.

    In memory on Linux: a full or read-only temporary folder does not matter. Elsewhere an OSError
    that names the temporary folder if it cannot hold files.
    """
    files: dict[str, IO[bytes]] = {}
    try:
        for name in FILES:
            files[name] = _unnamed_file(name)
    except OSError as error:
        close(files)
        said = f"no file for the ranks to write to: {error.strerror}; set TMPDIR to a folder"
        raise OSError(error.errno, f"{said} that can be written") from error
    return files


def _unnamed_file(name: str) -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(f"eagerbuf-{name}"), "w+b")
    return tempfile.TemporaryFile()


def close(files: dict[str, IO[bytes]]) -> None:
    """Close them all."""
    for file in files.values():
        file.close()
