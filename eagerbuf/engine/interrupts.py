"""Ctrl-C while there are ranks: taken note of at once, let through where nothing is half done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Stands before the handler of SIGINT in the main thread, the only one that is interrupted.

    An exception out of a signal handler may come in the middle of the ranks' start or end, or in a
    callback where Python drops it; out of `let_through` it comes where it is called.
    """

    def __init__(self) -> None:
        self._handler = signal.getsignal(signal.SIGINT)
        self._pressed = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Within the block Ctrl-C waits for `let_through`, or for the end of the block."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not callable(self._handler):
            yield
            return
        try:
            signal.signal(signal.SIGINT, self._note)
            yield
        finally:
            signal.signal(signal.SIGINT, self._handler)
        self.let_through()

    def let_through(self) -> None:
        """Call the handler, which raises KeyboardInterrupt as a rule, if Ctrl-C was pressed."""
        if self._pressed and callable(self._handler):
            self._pressed = False
            self._handler(signal.SIGINT, sys._getframe())

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed = True
