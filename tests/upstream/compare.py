"""Our answers against a release's own, case by case, on the same seeded inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.upstream.draw import cases
from tests.upstream.wheels import NEEDED, Wheel

BATCH = 20_000  # cases drawn at once
RAISES = "raises ValueError"


@dataclass(frozen=True)
class Comparison:
    """One formula: seeded cases with our answers, and what asks a release for its own.

    `cases(wheel, salt, count)` returns the inputs and our answers, `count` of each;
    `released(wheel)` returns a function from an input to the release's answer.
    """

    name: str
    cases: Callable[[Wheel, int, int], tuple[Iterable[Any], Iterable[Any]]]
    released: Callable[[Wheel], Callable[[Any], Any]]
    note: Callable[[Wheel], str] = lambda _: ""
    also_in_full: tuple[str, ...] = ()
    share: int = 1  # 2: half of the cases for each of two forms


@dataclass(frozen=True)
class Outcome:
    """How many cases were compared and the first few that differ."""

    name: str
    cases: int
    differ: int
    examples: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        shown = "; ".join(self.examples)
        return f"{self.name}: {self.differ} of {self.cases:,} differ" + (
            f": {shown}" if shown else ""
        )


def cases_for(comparison: Comparison, wheel: Wheel) -> int:
    """All cases for the release we model, and where the formula changed since; else a tenth."""
    modelled = wheel.package != "sglang" or wheel.version == NEEDED[0]
    full = modelled or wheel.version in comparison.also_in_full
    return cases() // comparison.share if full else cases() // 10


def run(comparison: Comparison, wheel: Wheel, count: int) -> Outcome:
    """Compare `count` cases (in batches, so that a million fits in memory)."""
    ask = comparison.released(wheel)
    differ, examples = 0, []
    for salt, size in _batches(count):
        inputs, ours = comparison.cases(wheel, salt, size)
        for case, answer in zip(inputs, ours, strict=True):
            theirs = answered(ask, case)
            if theirs != answer:
                differ += 1
                examples += [f"{case}: ours {answer}, theirs {theirs}"] if differ <= 3 else []
    return Outcome(comparison.name, count, differ, tuple(examples), comparison.note(wheel))


def answered(ask: Callable[[Any], Any], case: Any) -> Any:
    """The answer, or RAISES where a ValueError is the answer."""
    try:
        return ask(case)
    except ValueError:
        return RAISES


def _batches(count: int) -> Iterator[tuple[int, int]]:
    for salt, start in enumerate(range(0, count, BATCH)):
        yield salt, min(BATCH, count - start)
