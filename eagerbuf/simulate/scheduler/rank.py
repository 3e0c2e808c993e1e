"""The scheduler of one DP rank: its queue, its half-done request, its micro-batches, its pool."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from eagerbuf._arrays import ceil_align
from eagerbuf.admission import Budget
from eagerbuf.simulate.scheduler.incoming import Request
from eagerbuf.simulate.scheduler.policy import Policy
from eagerbuf.simulate.scheduler.reserve import NewTokenRatio
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
        config = policy.config
        last_first = config.num_tokens_per_bs > 1
        self.running = [
            Running(config.page_size, policy.accepted_per_step, last_first)
            for _ in range(policy.micro_batches)
        ]
        self.ratio = NewTokenRatio(config.attn_dp_size > 1)
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
        return self.carried is None and all(
            not (running.gone or running.extended)
            and (not self.queue or (running.full and len(running)))
            for running in self.running
        )

    def idle(self) -> None:
        """Nothing is left to do: a server without work forgets what it planned for."""
        self.ratio.reset()
        for running in self.running:
            running.clear()

    def prefill(self, turn: int) -> Batch | None:
        """Run a prefill batch if anything can be admitted, else change nothing."""
        running = self.running[turn]
        if self.carried is None and (running.full or not self.queue):
            return None
        listed = running.listed
        places = self._places(listed)
        if places < 1 and self.carried is None:
            running.full = True
            return None
        mixing = self.policy.mixes and listed > 0
        taken = self._admit(running, places, mixing)
        if not taken:
            return None
        self._spare -= sum(ceil_align(tokens, running.page_size) for tokens in taken)
        done = list(self._take(taken))
        riding = self._ride(running) if mixing else 0
        running.join(done, mixing or self.carried is not None)
        return Batch("mixed" if riding else "prefill", sum(taken) + riding, len(taken) + riding)

    def decode(self, turn: int) -> Batch | None:
        """Run a decode batch if anything is running, after making room for it."""
        running = self.running[turn]
        running.clear()
        if not self._make_room(running):
            self.ratio.decay(1 if len(running) else 0)
        batch = self.batch(turn)
        if batch is not None:
            running.decode()
        return batch

    def see(self, turn: int) -> None:
        """The result of the micro-batch's last batch: finished requests free what they held."""
        self.finished += self.running[turn].leave()

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
        self.ratio.decay(steps * sum(1 for running in self.running if len(running)))
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

    def _places(self, listed: int) -> int:
        """Requests that a batch may have: of the micro-batch's share and of the request pool.

        The half-done request counts although it has its place in the pool already: as upstream.
        """
        free = self.policy.config.max_running_requests - self.requests
        return min(self.policy.pp_max_micro_batch_size - listed, free)

    def _admit(self, running: Running, places: int, mixing: bool) -> list[int]:
        """Tokens taken into a prefill batch; says so where the micro-batch is full after it."""
        carried, listed = self.carried, running.listed if mixing else 0
        chunk = self.policy.next_chunk(carried.done) if carried else None
        size = self.policy.scheduler_chunk if chunk is None else chunk
        room = self._room(running if mixing else None)
        if 0 < size <= listed or room < 1:
            return []
        reserved = running.to_come * self.ratio.now if len(running) else 0.0
        budget = Budget(self.policy.config, room + listed - reserved, size, listed)
        budget.requests = places
        if carried:
            budget.carry(carried.rest, carried.request.reserve[1], room)
        waiting = () if running.full else self.queue  # a full batch goes on with the half-done one
        prompts = (request.prompt for request in waiting)
        if self.policy.ignore_eos and self.policy.config.disable_radix_cache:
            budget.fill_ignore_eos(prompts)
        else:
            budget.fill(prompts, (request.reserve for request in waiting))
        running.full |= budget.full
        return budget.taken

    def _room(self, riding: Running | None) -> float:
        """Tokens of the pool that a prefill may take, those that `riding` requests need left out.

        The half-done request may fill its last page, else it could wait for a page for ever.
        """
        free = self.free
        if free is None:
            return math.inf
        if self.carried is not None:
            free += -self.carried.done % self.policy.config.page_size
        return free if riding is None else free - riding.growth

    def _ride(self, running: Running) -> int:
        """Let what is running decode in a prefill batch; returns how many requests that is."""
        running.clear()
        self._spare -= running.growth_at_most
        running.decode()
        return len(running)

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

    def _make_room(self, running: Running) -> bool:
        """See that the pool has room for a decode step of `running`; whether any had to go."""
        if self.policy.pool is None:
            return False
        retracted = False
        if self._surely_free(running.growth_at_most) < running.growth_at_most:
            while len(running) and running.growth > (self.free or 0):
                retracted = True
                self._retract(running)
        self._spare -= running.growth_at_most
        if retracted:
            self.ratio.retracted(len(running), running.made, running.most)
        return retracted

    def _retract(self, running: Running) -> None:
        """Put a request at the end of the queue, or give it up where it was alone."""
        alone = len(running) == 1
        request = running.retract()
        if alone:
            self.aborted += 1
        else:
            self.retracted += 1
            self.queue.append(request)
