"""One completed deployment held against one rule, and what overflows for certain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from eagerbuf.config import EngineConfig
from eagerbuf.diagnose.unknowns import Bound, capacity
from eagerbuf.releases import Release, releases
from eagerbuf.shapes import Shape, worst_shapes
from eagerbuf.sizing import RULES, Rule

if TYPE_CHECKING:
    from eagerbuf.read.profile import Profile


@dataclass(frozen=True)
class Finding:
    """One finding: code, error | warning | info, batch source, what is so, and what mends it."""

    code: str
    severity: str
    producer: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Case:
    """A configuration (the KV pool may be unknown), a release's shapes, and a rule."""

    config: EngineConfig
    release: Release
    rule: Rule
    copies: bool = True
    bench: tuple[tuple[int, int], ...] = ()
    model: str | None = None
    dispatch_tokens: int | None = None
    profile: Profile | None = None

    @cached_property
    def bound(self) -> Bound:
        """Capacity under the rule; a lower bound where it needs an unknown pool."""
        return capacity(self.config, self.rule)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """What the scheduler and its profiler copy into the buffers."""
        if not self.copies:
            return ()
        every = worst_shapes(self.config, self.release.release)
        return tuple(shape for shape in every if shape.copied and shape.in_scheduler)

    @property
    def broadcast(self) -> bool:
        """Whether a failed profile reaches all ranks; pr28386 lived long before that was mended."""
        return self.release.profile_failure_broadcast and self.rule.name != "pr28386"

    def too_many_tokens(self) -> list[Shape]:
        """Shapes whose tokens overflow the buffer for certain."""
        if self.bound.at_least:
            return []
        return [s for s in self.shapes if (s.num_tokens or 0) > self.bound.max_num_tokens]

    def too_many_requests(self) -> list[Shape]:
        """Shapes whose requests overflow the buffer."""
        return [s for s in self.shapes if (s.bs or 0) > (self.bound.max_bs or 0)]

    @property
    def bench_run(self) -> tuple[int, int] | None:
        """The largest benchmark batch that the KV pool holds: a larger one never gets to a copy."""
        pool = self.config.max_total_num_tokens
        runs = [(b, n) for b, n in self.bench if pool is None or b * n <= pool]
        return max(runs, key=lambda run: run[0] * run[1]) if runs and self.copies else None

    def bench_overflows(self) -> bool:
        """Whether that batch overflows the buffer for certain."""
        return not self.bound.at_least and self._bench_over()

    def _bench_over(self) -> bool:
        run = self.bench_run
        return run is not None and run[0] * run[1] > self.bound.max_num_tokens

    def profile_certain_to_fail(self) -> bool:
        """No chunk to multiply, a probe that the buffer does not hold, or one never released."""
        return self.config.profile_fails or self.probe_overflows() or self.cache_fails_profile

    def probe_overflows(self) -> bool:
        """Whether the longest probe overflows its buffer for certain."""
        return "profiler_probe" in {shape.producer for shape in self.too_many_tokens()}

    @property
    def cache_fails_profile(self) -> bool:
        """Whether the release cannot return a probe's memory to its radix cache."""
        on = self.config.pp_dynamic_chunking and not self.config.disable_radix_cache
        return self.release.radix_cache_fails_profile and on

    @property
    def shown_to_hang(self) -> bool:
        """Whether a log shows a failed profile that only PP rank 0 knows of."""
        seen = self.profile
        if seen is None or seen.failure is None or seen.served or seen.in_fit:
            return False
        return not self.broadcast and self.config.pp_dynamic_chunking

    def overflows(self) -> bool:
        """Whether a reachable batch is larger than a buffer, for certain."""
        return bool(self.too_many_tokens() or self.too_many_requests() or self.bench_overflows())

    def fits(self) -> bool:
        """Whether every reachable batch fits for certain: a lower bound that is enough."""
        if self._is_the_pool():
            return True
        known = all(shape.num_tokens is not None for shape in self.shapes)
        most = max((shape.num_tokens or 0 for shape in self.shapes), default=0)
        return known and most <= self.bound.max_num_tokens and not self._bench_over()

    def _is_the_pool(self) -> bool:
        """Whether the buffer is the unknown pool: each token copied has its place there.

        Only padding goes past it: of scattered inputs, and where the rule does not align.
        """
        scattered = self.config.attn_tp_input_scattered and self.rule.name != "tight"
        padded = self.config.require_mlp_sync and self.rule.name == "pr28386"
        return self.bound.at_least and not (scattered or padded)

    def with_config(self, **changes: object) -> Case:
        """The same case under other settings."""
        return replace(self, config=replace(self.config, **changes))  # type: ignore[arg-type]


def newer_that_fits(case: Case) -> Release | None:
    """The first release with a later rule under which the case is certain to fit, or None."""
    order = list(RULES)
    for rule in order[order.index(case.rule.name) + 1 :]:
        found = next((r for r in releases() if r.sizing_rule == rule and r.numbered), None)
        if found and replace(case, rule=RULES[rule], release=found).fits():
            return found
    return None


def first_release(rule: str) -> str:
    """The first numbered release whose eager runner has `rule`."""
    return next(r.release for r in releases() if r.sizing_rule == rule and r.numbered)


def first_broadcast() -> str:
    """The first release that tells every rank of a failed profile."""
    return next(r.release for r in releases() if r.profile_failure_broadcast)
