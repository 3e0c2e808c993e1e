"""The requests of one micro-batch that decode together, as arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from eagerbuf._arrays import ceil_align
from eagerbuf.simulate.scheduler.incoming import Request

NEVER = sys.maxsize


class Running:
    """Running requests, in the order in which they joined.

    `_kv` holds each one's tokens in the KV pool (its last output token is not in there yet) and
    `_left` the output tokens still to come, both as of `_pending` decode steps ago.
    """

    def __init__(self, page_size: int, accepted_per_step: int) -> None:
        self.page_size = page_size
        self.accepted = accepted_per_step
        self._most_growth: int = ceil_align(accepted_per_step, page_size)
        self.steps_left = NEVER  # decode steps until the first request is finished
        self._kv = np.empty(0, np.int64)
        self._left = np.empty(0, np.int64)
        self._pending = 0
        self._held: int | None = 0  # None: to be counted again

    def __len__(self) -> int:
        return len(self._kv)

    @property
    def held(self) -> int:
        """Tokens of the pool in use, in whole pages."""
        if self._held is None:
            self._held = self._held_after(self._pending)
        return self._held

    @property
    def growth(self) -> int:
        """Tokens of the pool, in whole pages, that one more decode step needs."""
        return self._held_after(self._pending + 1) - self.held

    @property
    def growth_at_most(self) -> int:
        """A bound of `growth` that needs no counting."""
        return len(self) * self._most_growth

    def join(self, prefilled: Iterable[Request]) -> None:
        """Add requests whose prefill is done: it gave their first output token."""
        joining = [request for request in prefilled if request.output > 1]
        if joining:
            self._settle()
            prompts, outputs = np.array(joining, dtype=np.int64).T
            self._keep(
                np.concatenate((self._kv, prompts)), np.concatenate((self._left, outputs - 1))
            )

    def decode(self, steps: int = 1) -> int:
        """Advance by so many steps; returns how many requests are finished and gone."""
        self._pending += steps
        self.steps_left -= steps
        self._held = None
        if self.steps_left > 0:
            return 0
        self._settle()
        stay, before = self._left > 0, len(self)
        self._keep(self._kv[stay], self._left[stay])
        return before - len(self)

    def retract(self) -> Request:
        """Take out the request that joined last; its prompt is now all that it has so far."""
        self._settle()
        request = Request(int(self._kv[-1]) + 1, int(self._left[-1]))
        self._keep(self._kv[:-1].copy(), self._left[:-1].copy())
        return request

    def _held_after(self, steps: int) -> int:
        return int(ceil_align(self._kv + steps * self.accepted, self.page_size).sum())

    def _settle(self) -> None:
        self._kv += self._pending * self.accepted
        self._left -= self._pending * self.accepted
        self._pending = 0

    def _keep(self, kv: NDArray[np.int64], left: NDArray[np.int64]) -> None:
        self._kv, self._left, self._held = kv, left, None
        self.steps_left = -(-int(left.min()) // self.accepted) if len(left) else NEVER
