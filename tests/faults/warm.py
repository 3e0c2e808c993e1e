"""A rank that is forked from a process which has loaded torch, instead of being started cold.

The rank's program, arguments, environment, files and session are those that `subprocess.Popen`
was to give it; only the seconds of loading torch are saved. Torch had used no thread, so the fork
is safe.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any


class Forked:
    """What `launch` uses of a Popen, for `[python, "-m", module, *arguments]`."""

    def __init__(self, command: Sequence[str], **how: Any) -> None:
        assert command[:2] == [sys.executable, "-m"]
        assert how["start_new_session"]
        end, own = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(command[2:], how["env"], how["pass_fds"], end, how["stderr"])
        os.close(end)
        self.stdin: IO[bytes] = os.fdopen(own, "wb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code as Popen gives it, or None while the process lives."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code once there is one; subprocess.TimeoutExpired after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while until is not None and self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a forked rank", timeout or 0.0)
            time.sleep(0.01)
        return self._reap(0)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has been waited for."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _become(
    arguments: Sequence[str],
    env: Mapping[str, str],
    keep: Sequence[int],
    stdin: int,
    stderr: IO[bytes],
) -> None:
    """Turn the forked process into `python -m arguments…`; never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _only_files(keep, stdin, stderr.fileno())
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["-m", *arguments[1:]]
        runpy._run_module_as_main(arguments[0])  # type: ignore[attr-defined]
    except SystemExit as ending:
        os._exit(ending.code if isinstance(ending.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _only_files(keep: Sequence[int], stdin: int, stderr: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number, source in enumerate((stdin, nothing, stderr)):
        os.dup2(source, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in keep:
            with suppress(OSError):  # the listing's own
                os.close(number)
