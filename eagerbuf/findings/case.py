"""One deployment held against one rule, and what overflows for certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eagerbuf import producers
from eagerbuf.facts import Bound, Deployment
from eagerbuf.releases import Release, releases
from eagerbuf.shapes import Shape
from eagerbuf.sizing import Rule


@dataclass(frozen=True)
class Finding:
    """One finding: a code, error | warning | info, the producer, what is so, and what mends it."""

    code: str
    severity: str
    producer: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Case:
    """One deployment held against one rule; `broadcast`: a failed profile reaches all ranks."""

    deployment: Deployment
    rule: Rule
    bound: Bound
    shapes: list[Shape]
    broadcast: bool

    def too_many_tokens(self) -> list[Shape]:
        """Shapes of the scheduler or the profiler whose tokens overflow the buffer for certain."""
        return [] if self.bound.at_least else list(self._over_tokens())

    def _over_tokens(self) -> Iterator[Shape]:
        for shape in self.shapes:
            counts = shape.copied and shape.in_scheduler and shape.num_tokens is not None
            if counts and (shape.num_tokens or 0) > self.bound.max_num_tokens:
                yield shape

    def too_many_requests(self) -> list[Shape]:
        """Shapes whose requests overflow the buffer."""
        capacity = self.bound.max_bs
        return [
            shape
            for shape in self.shapes
            if shape.copied and capacity is not None and (shape.bs or 0) > capacity
        ]

    def bench_overflow(self) -> tuple[int, int] | None:
        """The largest benchmark batch, if the buffer does not hold it for certain."""
        runs = self.deployment.bench
        if not runs or self.bound.at_least or not self.deployment.copies:
            return None
        worst = max(runs, key=lambda run: run[0] * run[1])
        return worst if worst[0] * worst[1] > self.bound.max_num_tokens else None

    def profile_certain_to_fail(self) -> bool:
        """No chunk to multiply, or a probe that the buffer does not hold."""
        if "chunked_prefill_size" in self.deployment.unknown:
            return False
        overflowing = {shape.producer for shape in self.too_many_tokens()}
        no_chunk = bool(producers.profile_fails(self.deployment.known))
        return no_chunk or "profiler_probe" in overflowing


def broadcasts(rule: Rule, release: Release) -> bool:
    """Whether a failed profile reaches all ranks; pr28386 lived long before that was mended."""
    return release.profile_failure_broadcast and rule.name != "pr28386"


def first_release(rule: str) -> str:
    """The first numbered release whose eager runner has `rule`."""
    return next(r.release for r in releases() if r.sizing_rule == rule and r.numbered)


def first_broadcast() -> str:
    """The first release that tells every rank of a failed profile."""
    return next(r.release for r in releases() if r.profile_failure_broadcast)
