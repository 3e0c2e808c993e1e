"""A rank never outlives the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

ORPHANED = 4  # exit status
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when `parent` does (Linux), or now if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def exit_with_stdin(status: list[int]) -> None:
    """End this process when its standard input closes, which a dead parent's does too.

    `status` holds one number, the exit status to use at that moment.
    """

    def wait_for_end() -> None:
        while os.read(0, 1):
            pass
        os._exit(status[0])

    threading.Thread(target=wait_for_end, daemon=True).start()
