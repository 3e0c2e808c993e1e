"""Starts real ranks for one job, collects what each found, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import print_exc
from typing import Any, NoReturn

_ROOT = Path(__file__).parents[3]  # what a rank needs on its path to import eagerbuf
_PARTING_S = 5.0  # how long a leader may take to end its ranks
Job = dict[str, Any]


def run_ranks(module: str, job: Mapping[str, Any], ranks: int, limit_s: float) -> list[Any]:
    """What each of `ranks` processes found for `job`, by rank; `module` calls `fork_ranks`.

    One new interpreter imports torch and forks the ranks before torch has used a thread: a
    quarter of the start-up time of four interpreters. RuntimeError if a rank fails or the run
    takes longer than `limit_s` seconds.
    """
    with TemporaryDirectory(prefix="eagerbuf-ranks-") as scratch:
        folder = Path(scratch).resolve()
        place = {"ranks": ranks, "parent": os.getpid(), "meeting": str(folder / "meeting")}
        (folder / "job").write_text(json.dumps({**job, **place}))
        _run([sys.executable, "-m", module, str(folder)], folder / "errors", limit_s)
        return [json.loads(_result(folder, rank).read_text()) for rank in range(ranks)]


def fork_ranks(folder: str, work: Callable[[Job, int], Any]) -> None:
    """Fork the job's ranks, each writing what `work(job, rank)` returns, and wait for all.

    If one fails, or on SIGTERM, all are ended and waited for.
    """
    from eagerbuf.repro.launch.guard import die_with_parent

    job: Job = json.loads((Path(folder) / "job").read_text())
    die_with_parent(job["parent"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    leader, alive = os.getpid(), set[int]()
    try:
        for rank in range(job["ranks"]):
            alive.add(os.fork() or _work(Path(folder), job, rank, leader, work))
        while alive:
            pid, status = os.wait()
            alive.discard(pid)
            if status:
                sys.exit(1)
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        for pid in alive:
            os.waitpid(pid, 0)


def _work(
    folder: Path, job: Job, rank: int, leader: int, work: Callable[[Job, int], Any]
) -> NoReturn:
    """The whole life of a rank; it leaves through _exit, as torch's own teardown takes seconds."""
    from eagerbuf.repro.launch.guard import die_with_parent

    status = 1
    try:
        die_with_parent(leader)
        _result(folder, rank).write_text(json.dumps(work(job, rank)))
        status = 0
    except BaseException:
        print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _result(folder: Path, rank: int) -> Path:
    return folder / f"{rank}.result"


def _run(command: list[str], errors: Path, limit_s: float) -> None:
    with errors.open("wb") as file:
        leader = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=_environment(),
            start_new_session=True,
        )
    try:
        status = leader.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the ranks were not done after limit_s={limit_s:g} seconds") from None
    finally:
        _end(leader)
    if status:
        lines = errors.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"a rank failed: {lines[-1]}")


def _end(leader: subprocess.Popen[bytes]) -> None:
    """Have the leader end its ranks; without it the kernel does (`die_with_parent`)."""
    leader.terminate()
    try:
        leader.wait(_PARTING_S)
    except subprocess.TimeoutExpired:
        leader.kill()
        leader.wait()


def _environment() -> dict[str, str]:
    """One thread a rank, and the loopback device: the ranks all run on this machine."""
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        own["GLOO_SOCKET_IFNAME"] = "lo"
    return {**os.environ, **own}
