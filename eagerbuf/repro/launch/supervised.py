"""The worker's side of supervision: it ends with its launcher, logs its steps, shows its stack."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from eagerbuf.repro.launch.event_log import START, EventLog, to_descriptor

ORPHANED, LOST_PEER = 4, 3  # exit statuses; the second: another worker's end took this one along
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Assignment:
    """A worker's rank among `workers`, its log, and the port on this machine where all meet.

    `listen`: the open socket of that port, given to rank 0.
    """

    rank: int
    workers: int
    port: int
    listen: int | None
    log: EventLog

    def store(self, limit_s: float) -> Any:
        """The store that torch's process groups of these workers start from."""
        from torch.distributed import TCPStore

        return TCPStore(
            "127.0.0.1",
            self.port,
            self.workers,
            is_master=self.rank == 0,
            timeout=timedelta(seconds=limit_s),
            master_listen_fd=self.listen,
            use_libuv=False,  # which took no listening socket up to torch 2.6
        )


def supervised(run: Callable[[Assignment], None]) -> NoReturn:
    """Be a worker of a WorkerGroup: guarded first, as everything after takes time.

    A failure ends the process at once. One that is through sleeps until it is released: torch's
    own end takes seconds, and an early one disturbs the others.
    """
    given = json.loads(os.environ["EAGERBUF_WORKER"])
    die_with_parent(given["parent"])
    exit_status = [1]
    _exit_with_stdin(exit_status)
    stack = os.fdopen(given["stack"], "wb", buffering=0)
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    log = EventLog(to_descriptor(given["log"]), given["start"])
    try:
        log.step(START)
        run(Assignment(given["rank"], given["workers"], given["port"], given["listen"], log))
    except BaseException as error:  # an exit or an interrupt is an end too, and torch's is slow
        _end_at_once(log, error)
    exit_status[0] = 0
    while True:
        time.sleep(60)


def _end_at_once(log: EventLog, error: BaseException) -> NoReturn:
    with suppress(OSError):  # the disk may be what failed
        log.note(raised=f"{type(error).__name__}: {error}")
    with suppress(OSError):
        traceback.print_exception(error)
        sys.stderr.flush()
    os._exit(LOST_PEER if log.waits else 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when `parent` does (Linux), or now if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def _exit_with_stdin(status: list[int]) -> None:
    """End this process, with the one number in `status`, when its standard input closes."""

    def wait_for_end() -> None:
        while os.read(0, 1):
            pass
        os._exit(status[0])

    threading.Thread(target=wait_for_end, daemon=True).start()
