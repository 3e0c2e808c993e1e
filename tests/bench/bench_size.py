"""`size_many` on up to a million configurations, and the released sizing asked for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from eagerbuf import RULES, size_many
from tests.bench.clock import cpu
from tests.bench.conftest import Measure
from tests.upstream import draw, wheels
from tests.upstream.engine import Engine

MILLION = 1_000_000
ASKED = 2_000  # configurations put to the released code
RELEASES = {"pr28677": "0.5.14", "pr28894": "0.5.15.post1"}


class Released:
    """The sizing of a release, asked for one configuration after another."""

    def __init__(self, version: str) -> None:
        self.engine = Engine(wheels.sglang(version))
        self.rows = draw.configs(ASKED).to_dict("records")
        self.answers: list[tuple[int, int]] = []

    def ask(self) -> float:
        """Seconds a configuration; setting it is not counted, only the sizing itself."""
        seconds = 0.0
        self.answers = []
        for row in self.rows:
            self.engine.apply(row)
            start = cpu()
            self.answers.append(self.engine.sizing())
            seconds += cpu() - start
        return seconds / ASKED


@pytest.mark.parametrize("rule", RULES)
def test_a_million(measure: Measure, rule: str, benchmark: Any) -> None:
    frame = draw.configs(MILLION)
    measure(
        lambda: size_many(frame, rule),
        of="size_many",
        case=rule,
        work=MILLION,
        times=1,
        rounds=7,
    )
    if rule in RELEASES:
        released = Released(RELEASES[rule])
        each = min(released.ask() for _ in range(3))
        benchmark.extra_info["rivals"] = {"released": MILLION * each}
        sizes = size_many(draw.configs(ASKED), rule)
        ours = zip(sizes.max_bs.tolist(), sizes.max_num_tokens.tolist(), strict=True)
        assert released.answers == list(ours)


@pytest.mark.parametrize("configs", [1, 100, 1_000, 10_000, 100_000])
def test_growth(measure: Measure, configs: int) -> None:
    frame = draw.configs(configs)
    measure(
        lambda: size_many(frame, "pr28677"),
        of="size_many",
        case="growth",
        work=configs,
        times=1,
        rounds=9,
    )
