"""The requests of one micro-batch that decode together, as arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from eagerbuf._arrays import ceil_align
from eagerbuf.admission import CLIP_NEW_TOKENS
from eagerbuf.simulate.scheduler.incoming import Request

NEVER = sys.maxsize


class Running:
    """Running requests, in the order in which they joined: SGLang's `running_batch`.

    `_kv` holds each one's tokens in the KV pool (its last output token is not in there yet) and
    `_left` the output tokens still to come, both as of `_pending` decode steps ago; `_most` all
    output tokens that it may make. `gone` requests are finished and still counted among the
    running: SGLang takes them out at the start of the next decode. While the batch is `full`
    nothing is admitted.
    """

    def __init__(self, page_size: int, accepted_per_step: int, last_first: bool = False) -> None:
        self.page_size = page_size
        self.accepted = accepted_per_step
        self.last_first = last_first  # whether a retraction takes who joined last (speculation)
        self.full = self._reopens = False
        self.extended = False  # whether the batch under way is a prefill
        self.gone = 0
        self._most_growth: int = ceil_align(accepted_per_step, page_size)
        self.steps_left = NEVER  # decode steps until the first request is finished
        self._kv = np.empty(0, np.int64)
        self._left = np.empty(0, np.int64)
        self._most = np.empty(0, np.int64)
        self._pending = 0
        self._held: int | None = 0  # None: to be counted again

    def __len__(self) -> int:
        return len(self._kv)

    @property
    def listed(self) -> int:
        """Requests that admission counts as running."""
        return len(self._kv) + self.gone

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

    @property
    def to_come(self) -> int:
        """Output tokens still to come of all requests, each clipped as admission clips it."""
        return int(np.minimum(self._left - self._pending * self.accepted, CLIP_NEW_TOKENS).sum())

    @property
    def made(self) -> int:
        """Output tokens so far of all requests."""
        return int(self._most.sum() - self._left.sum()) + self._pending * self.accepted * len(self)

    @property
    def most(self) -> int:
        """Output tokens that all requests may make."""
        return int(self._most.sum())

    def join(self, prefilled: Iterable[Request], reopens: bool = False) -> None:
        """Add requests whose prefill is under way: it gives their first output token.

        `reopens`: whether admission looks again after it, full or not; it does where the batch has
        a half-done request or mixes decode in, and where nothing was running.
        """
        self.extended, self._reopens = True, reopens or not self.listed
        if joining := list(prefilled):
            self._settle()
            prompts, outputs, made = np.array(joining, dtype=np.int64).T
            self._keep(
                np.concatenate((self._kv, prompts)),
                np.concatenate((self._left, np.maximum(outputs, 1) - 1)),
                np.concatenate((self._most, outputs + made)),
            )

    def decode(self, steps: int = 1) -> None:
        """Run so many decode steps."""
        self._pending += steps
        self.steps_left -= steps
        self._held = None

    def leave(self) -> int:
        """See the result of the batch under way; returns how many requests are finished by it."""
        extended, self.extended = self.extended, False
        finished = self._drop_finished() if self.steps_left <= 0 else 0
        if not extended:
            self.gone += finished
        elif finished or self._reopens:
            self.full = False
        return finished

    def clear(self) -> None:
        """Take finished requests out, as every decode does first."""
        if self.gone or not len(self):
            self.full = False
        self.gone = 0

    def retract(self) -> Request:
        """Take out the request that is first to go; its prompt is now all that it has so far.

        Without speculation the one with the fewest outputs, of those the one with the longest
        prompt, of those the last that joined.
        """
        self._settle()
        made = self._most - self._left
        prompts = self._kv + 1 - made
        order = np.lexsort((np.arange(len(self)), prompts, -made))
        index = len(self) - 1 if self.last_first else int(order[-1])
        request = Request(int(self._kv[index]) + 1, int(self._left[index]), int(made[index]))
        self._keep(*(np.delete(column, index) for column in (self._kv, self._left, self._most)))
        self.full = False
        return request

    def _drop_finished(self) -> int:
        self._settle()
        stay, before = self._left > 0, len(self)
        self._keep(self._kv[stay], self._left[stay], self._most[stay])
        return before - len(self)

    def _held_after(self, steps: int) -> int:
        return int(ceil_align(self._kv + steps * self.accepted, self.page_size).sum())

    def _settle(self) -> None:
        self._kv += self._pending * self.accepted
        self._left -= self._pending * self.accepted
        self._pending = 0

    def _keep(
        self, kv: NDArray[np.int64], left: NDArray[np.int64], most: NDArray[np.int64]
    ) -> None:
        self._kv, self._left, self._most, self._held = kv, left, most, None
        self.steps_left = -(-int(left.min()) // self.accepted) if len(left) else NEVER
