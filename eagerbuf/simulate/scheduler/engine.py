"""All DP ranks of one engine, step by step, with the time that each step takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from eagerbuf.simulate.scheduler.incoming import Request
from eagerbuf.simulate.scheduler.policy import Policy
from eagerbuf.simulate.scheduler.rank import Batch, Rank
from eagerbuf.simulate.scheduler.rows import Padding, Rows


class Engine:
    """Ranks that step together; micro-batches take turns."""

    COUNTS = ("finished", "retracted", "aborted", "unfinished", "steps", "idle")

    def __init__(
        self,
        policy: Policy,
        requests: Sequence[tuple[int, Request]],
        rows: Rows,
        first_rank: int,
    ) -> None:
        self.policy = policy
        self.ranks = [Rank(policy) for _ in range(policy.config.attn_dp_size)]
        self.arriving = deque(requests)
        self.total = len(requests)
        self.rows = rows
        self.first_rank = first_rank
        self.padding = Padding(policy.config)
        self.now_ns = self.steps = self.idle = self.turn = 0
        self.received = self.done = 0  # requests handed to a rank; finished or given up

    @property
    def seconds(self) -> float:
        """Simulated time so far."""
        return self.now_ns / 1e9

    def counts(self) -> dict[str, int]:
        """COUNTS of what happened."""
        ranks = {name: sum(getattr(rank, name) for rank in self.ranks) for name in self.COUNTS[:3]}
        unfinished = self.total - self.done
        return ranks | {"unfinished": unfinished, "steps": self.steps, "idle": self.idle}

    def run(self, max_steps: int | None, on_done: Callable[[int], object]) -> None:
        """Step until all requests are done, or `max_steps` steps are; reports what is done."""
        wait = 0
        while self.done < self.total and (max_steps is None or self.steps < max_steps):
            received, done = self.received, self.done  # both only grow
            self._receive()
            if wait <= 0:
                self._skip(self.turn, None if max_steps is None else max_steps - self.steps)
            self._step(self.turn)
            self.turn = (self.turn + 1) % self.policy.micro_batches
            on_done(self.done - done)
            # Looking ahead is worth its cost once a round, or where the next event is far again.
            changed = (self.done, self.received) != (done, received)
            wait = 0 if changed else (wait or self.policy.micro_batches) - 1

    def _receive(self) -> None:
        """Hand what has arrived to the ranks in turn; if nothing is left to do, wait for it."""
        if self.received == self.done and self.arriving and self.arriving[0][0] > self.now_ns:
            self.now_ns = self.arriving[0][0]
            for rank in self.ranks:
                rank.idle()
        while self.arriving and self.arriving[0][0] <= self.now_ns:
            rank = self.ranks[self.received % len(self.ranks)]
            rank.queue.append(self.arriving.popleft()[1])
            self.received += 1

    def _step(self, turn: int) -> None:
        batches = [rank.prefill(turn) for rank in self.ranks]
        if not (self.policy.prefill_excludes_decode and any(batches)):
            pairs = zip(batches, self.ranks, strict=True)
            batches = [batch or rank.decode(turn) for batch, rank in pairs]
        if any(batches):
            self.rows.add(self.steps, self.padding.rows(batches, self.first_rank))
            self.steps += 1
            self.idle += batches.count(None)
        self.now_ns += self._duration(batches)
        for rank in self.ranks:  # the batch that has come through all stages
            rank.see((turn + 1) % self.policy.micro_batches)
        self.done = sum(rank.finished + rank.aborted for rank in self.ranks)

    def _duration(self, batches: Sequence[Batch | None]) -> int:
        return self.policy.step_ns(max(batch.num_tokens if batch else 0 for batch in batches))

    def _skip(self, turn: int, steps_left: int | None) -> None:
        """Decode at once as many rounds of all micro-batches as change nothing but lengths."""
        if not all(rank.steady for rank in self.ranks):
            return
        bounds = [steps for rank in self.ranks if (steps := rank.steps_unchanged()) is not None]
        if not bounds or min(bounds) < 1:
            return
        turns = [*range(turn, self.policy.micro_batches), *range(turn)]
        rounds = [[rank.batch(turn) for rank in self.ranks] for turn in turns]
        duration = sum(map(self._duration, rounds))
        busy = [batches for batches in rounds if any(batches)]
        if self.arriving and duration:
            bounds.append((self.arriving[0][0] - 1 - self.now_ns) // duration)
        if steps_left is not None:
            bounds.append(steps_left // len(busy) - 1)
        if (times := min(bounds)) > 0:
            self._repeat(busy, times)
            self.now_ns += times * duration

    def _repeat(self, busy: Sequence[Sequence[Batch | None]], times: int) -> None:
        cycle = [self.padding.rows(batches, self.first_rank) for batches in busy]
        self.rows.repeat(self.steps, cycle, times)
        self.steps += times * len(busy)
        self.idle += times * sum(list(batches).count(None) for batches in busy)
        for rank in self.ranks:
            rank.advance(times)
