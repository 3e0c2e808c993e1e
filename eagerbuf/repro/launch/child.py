"""What a rank's process owes the launcher that started it, whatever program the rank runs."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from eagerbuf.repro.launch.event_log import START, Journal, to_descriptor
from eagerbuf.repro.launch.guard import die_with_parent, exit_with_stdin
from eagerbuf.repro.launch.status import LOST_PEER


def launched_rank(run: Callable[[Journal, int | None], None]) -> None:
    """Be a rank of `run_ranks`: guarded first, as everything after takes time.

    `run(journal, listen)` is the rank's work; `listen`: rank 0's open socket for the rendezvous.
    """
    launched = json.loads(os.environ["EAGERBUF_LAUNCHED"])
    die_with_parent(launched["parent"])
    status = [1]
    exit_with_stdin(status)
    stack = os.fdopen(launched["stack"], "wb", buffering=0)
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    journal = Journal(to_descriptor(launched["journal"]), launched["start"])

    def work() -> None:
        journal.step(START)
        run(journal, launched.get("listen"))
        status[0] = 0

    live(work, journal)


def live(work: Callable[[], None], journal: Journal) -> None:
    """Do a rank's work, then sleep; a failure ends the process at once and says whose it is.

    Torch's own end takes seconds and an early one disturbs the others: wait to be released.
    """
    try:
        work()
    except BaseException as error:  # an exit or an interrupt is an end too, and torch's is slow
        with suppress(OSError):  # the disk may be what failed
            journal.note(raised=f"{type(error).__name__}: {error}")
        with suppress(OSError):
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(LOST_PEER if journal.waits else 1)
    while True:
        time.sleep(60)
