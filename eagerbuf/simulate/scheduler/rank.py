"""The scheduler of one DP rank: its queue, its half-done request, its micro-batches, its pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from eagerbuf._arrays import ceil_align
from eagerbuf.simulate.scheduler.incoming import Request
from eagerbuf.simulate.scheduler.policy import Policy
from eagerbuf.simulate.scheduler.running import Running


class Batch(NamedTuple):
    """One forward of one rank before padding; `kind` is prefill, mixed or decode."""

    kind: str
    num_tokens: int
    bs: int

    @property
    def is_extend(self) -> bool:
        """Whether it computes prompts: prefill, alone or mixed with decode."""
        return self.kind != "decode"


@dataclass
class _Carried:
    """The request that is being prefilled in chunks, and the tokens of it that are done."""

    request: Request
    done: int

    @property
    def rest(self) -> int:
        return self.request.prompt - self.done


class Rank:
    """State of one rank; `turn` below is the number of a micro-batch."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.queue: deque[Request] = deque()
        self.carried: _Carried | None = None
        self.running = [
            Running(policy.config.page_size, policy.accepted_per_step)
            for _ in range(policy.micro_batches)
        ]
        # Micro-batches that cannot admit the head of the queue: true until something is freed or
        # another head comes up, since until then a rank only fills.
        self.blocked = [False] * policy.micro_batches
        self._spare = 0  # tokens of the pool, at most those free: spares counting at every step
        self.finished = self.retracted = self.aborted = 0

    @property
    def requests(self) -> int:
        """Requests with a row in the request pool."""
        return sum(map(len, self.running)) + (self.carried is not None)

    @property
    def free(self) -> int | None:
        """Tokens of the KV pool, in whole pages, that nothing holds; None: endless."""
        if self.policy.pool is None:
            return None
        done = self.carried.done if self.carried else 0
        held: int = ceil_align(done, self.policy.config.page_size)
        return self.policy.pool - held - sum([running.held for running in self.running])

    @property
    def steady(self) -> bool:
        """Whether nothing can be admitted before a request arrives or finishes."""
        return self.carried is None and (not self.queue or all(self.blocked))

    def prefill(self, turn: int) -> Batch | None:
        """Run a prefill batch if anything can be admitted, else change nothing."""
        if self.carried is None and (not self.queue or self.blocked[turn]):
            return None
        running = self.running[turn]
        riding = len(running) if self.policy.mixes else 0
        taken = self._admit(running, riding)
        if not taken:
            self.blocked[turn] = True
            return None
        self._unblock()
        self._spare -= sum(ceil_align(tokens, running.page_size) for tokens in taken)
        done = list(self._take(taken))
        if riding:
            self._spare -= running.growth_at_most
            self.finished += running.decode()
        running.join(done)
        self.finished += sum(request.output == 1 for request in done)
        kind = "mixed" if riding else "prefill"
        return Batch(kind, sum(taken) + riding, len(taken) + riding)

    def decode(self, turn: int) -> Batch | None:
        """Run a decode batch if anything is running, after making room for it."""
        running = self.running[turn]
        self._make_room(running)
        batch = self.batch(turn)
        if batch is not None and (finished := running.decode()):
            self.finished += finished
            self._unblock()
        return batch

    def batch(self, turn: int) -> Batch | None:
        """The decode batch that would run now."""
        requests = len(self.running[turn])
        tokens = requests * self.policy.config.num_tokens_per_bs
        return Batch("decode", tokens, requests) if requests else None

    def steps_unchanged(self) -> int | None:
        """Decode steps of all micro-batches that finish no request and fit the pool for sure.

        None where nothing runs.
        """
        requests = sum(map(len, self.running))
        if not requests:
            return None
        steps = min(running.steps_left for running in self.running) - 1
        if self.policy.pool is None:
            return steps
        free = self._surely_free(self._growth_at_most(steps))
        pages = self.policy.config.page_size - 1
        return min(steps, (free // requests - pages) // self.policy.accepted_per_step)

    def advance(self, steps: int) -> None:
        """Decode all micro-batches so many steps, at most `steps_unchanged`."""
        self._spare -= self._growth_at_most(steps)
        for running in self.running:
            running.decode(steps)

    def _growth_at_most(self, steps: int) -> int:
        """Tokens of the pool that so many steps of all micro-batches can take, in whole pages."""
        pages = self.policy.config.page_size - 1  # a request may start a page early
        return sum(map(len, self.running)) * (steps * self.policy.accepted_per_step + pages)

    def _surely_free(self, wanted: int) -> int:
        """Tokens of the pool that are free: a bound, counted anew only if it is under `wanted`."""
        if self._spare < wanted:
            self._spare = self.free or 0
        return self._spare

    def _admit(self, running: Running, riding: int) -> list[int]:
        carried, slots = self.carried, self._slots(running)
        if carried is None and slots < 1:
            return []
        return self.policy.admit(
            (request.prompt for request in islice(self.queue, max(0, slots))),
            self._room(running if riding else None),
            carried=carried.rest if carried else 0,
            riding=riding,
            chunk=self.policy.next_chunk(carried.done) if carried else None,
        )

    def _room(self, riding: Running | None) -> int | None:
        """Tokens of the pool that a prefill may take, those that `riding` requests need left out.

        The half-done request may fill its last page, else it could wait for a page for ever.
        """
        free = self.free
        if free is None:
            return None
        if self.carried is not None:
            free += -self.carried.done % self.policy.config.page_size
        return free if riding is None else free - riding.growth

    def _slots(self, running: Running) -> int:
        """Requests that may join: of the micro-batch's share and of the rank's request pool.

        The half-done request goes on in any case, over the share of a micro-batch if need be.
        """
        share = self.policy.pp_max_micro_batch_size - len(running) - (self.carried is not None)
        return min(share, self.policy.config.max_running_requests - self.requests)

    def _take(self, taken: list[int]) -> Iterator[Request]:
        """Move admitted tokens out of the queue; yields the requests whose prefill is complete."""
        sizes = iter(taken)
        if self.carried is not None:
            self.carried.done += next(sizes)
            if not self.carried.rest:
                yield self.carried.request
                self.carried = None
        for size in sizes:
            request = self.queue.popleft()
            if size < request.prompt:
                self.carried = _Carried(request, size)
            else:
                yield request

    def _make_room(self, running: Running) -> None:
        """See that the pool has room for one more decode step of `running`."""
        if self.policy.pool is None:
            return
        if self._surely_free(running.growth_at_most) < running.growth_at_most:
            while len(running) and running.growth > (self.free or 0):
                self._retract(running)
        self._spare -= running.growth_at_most

    def _retract(self, running: Running) -> None:
        """Put the request that joined last at the end of the queue, or give it up."""
        request = running.retract()
        if self.policy.fits(request.prompt):
            self.retracted += 1
            self.queue.append(request)
        else:
            self.aborted += 1
        self._unblock()

    def _unblock(self) -> None:
        self.blocked = [False] * len(self.blocked)
