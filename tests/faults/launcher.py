"""A process that calls `run_hang` and tells the test of its ranks: cold, or forked by a server.

`python -m tests.faults.launcher serve` loads torch and forks one launcher a job, whose ranks are
forked from it in turn; `… run` is one cold launcher with cold ranks. Jobs come over a socket on
standard input; a message is one JSON object, with a file beside it where there is one.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from eagerbuf.repro.hang import run as hang_run
from eagerbuf.repro.hang import run_hang
from eagerbuf.repro.launch import worker_group
from eagerbuf.repro.launch.supervised import die_with_parent
from tests.faults.warm import Forked

LONGEST = 65536
PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Serve, or run one job."""
    jobs = socket.socket(fileno=0)
    if sys.argv[1] == "run":
        job, line = _next(jobs)
        run(job, line, subprocess.Popen)
    else:
        serve(jobs)
    os._exit(0)  # torch's own end takes seconds


def serve(jobs: socket.socket) -> None:
    """Fork a launcher for each job until the test closes its end."""
    import_module("eagerbuf.repro.hang.run_rank")  # torch
    import_module("eagerbuf.repro.hang.report")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children
    while (received := _next(jobs)) is not None:
        _reap()
        parent = os.getpid()
        if os.fork() == 0:
            die_with_parent(parent)
            os.dup2(os.open(os.devnull, os.O_RDONLY), jobs.fileno())  # 0 stays taken
            run(*received, Forked)
            os._exit(0)
        received[1].close()


def _next(jobs: socket.socket) -> tuple[dict[str, Any], socket.socket] | None:
    data, files, _, _ = socket.recv_fds(jobs, LONGEST, 1)
    return (json.loads(data), socket.socket(fileno=files[0])) if data else None


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run(job: dict[str, Any], line: socket.socket, start: Any) -> None:
    """Call `run_hang` as the job says; then tell its report, or the error that it raised."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(job["env"])
    tempfile.tempdir = None
    worker_group.subprocess.Popen = partial(_announced, line, start)  # type: ignore[misc, assignment]
    if job["raising"]:
        plain = hang_run.rank_command
        hang_run.rank_command = lambda settings: _raising(plain(settings), job["raising"])
    say_process(line, {"launcher": True}, os.getpid())
    try:
        with _small_files(job["most_bytes"]):
            report = run_hang(**job["arguments"])
        told = json.dumps(report.to_dict() | {"text": str(report), "waited_s": waited_s()})
        say(line, {"ended": "report"}, told)
    except BaseException as error:
        with suppress(KeyboardInterrupt):  # of a key held down
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        say(line, {"ended": f"{type(error).__name__}: {error}"})


@contextmanager
def _small_files(most_bytes: int | None) -> Iterator[None]:
    """A full disk: no file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if most_bytes is None else most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _announced(line: socket.socket, start: Any, command: list[str], **how: Any) -> Any:
    """Start a rank and pass on its process id, its event log and the run's zero."""
    process = start(command, **how)
    given = json.loads(how["env"]["EAGERBUF_WORKER"])
    told = {"rank": given["rank"], "zero": given["start"]}
    say_process(line, told, process.pid, given["log"])
    return process


def waited_s() -> float:
    """How long this thread has been kept waiting for a CPU, where Linux tells."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def _raising(command: list[str], fault: dict[str, Any]) -> list[str]:
    python, flag, _, *arguments = command
    return [python, flag, "tests.faults.raising", json.dumps(fault), *arguments]


def say_process(line: socket.socket, message: dict[str, Any], pid: int, *files: int) -> None:
    """Send a message with a handle of a process that cannot come to mean another one."""
    handle = os.pidfd_open(pid)
    socket.send_fds(line, [json.dumps(message | {"pid": pid}).encode()], [handle, *files])
    os.close(handle)


def say(line: socket.socket, message: dict[str, Any], text: str | None = None) -> None:
    """Send a message, with `text` in a nameless file beside it."""
    if text is None:
        line.send(json.dumps(message).encode())
        return
    with os.fdopen(os.memfd_create("report"), "w") as file:
        file.write(text)
        file.flush()
        socket.send_fds(line, [json.dumps(message).encode()], [file.fileno()])


if __name__ == "__main__":
    main()
