"""What a search saw, counted by producer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagerbuf.config import DEFAULTS, FIELDS, EngineConfig
from tests.bound_search.bound import PRODUCERS, Bounds
from tests.bound_search.state import State, Step

if TYPE_CHECKING:
    from pandas import DataFrame

FULL, OVER = 4, 5  # bins of the share: quarters, then exactly the ceiling, then more
BINS = (*(f"{25 * i}-{25 * i + 25} %" for i in range(FULL)), "ceiling", "over")


@dataclass
class Count:
    """The batches of one producer."""

    batches: int = 0
    over_buffer: int = 0
    over_formula: int = 0
    at_ceiling: int = 0
    largest: tuple[float, int] = (0.0, 0)  # share of the ceiling, and that ceiling in tokens
    worst: str = ""
    bins: Counter[int] = field(default_factory=Counter)


class Tally:
    """Batches held against their ceilings."""

    def __init__(self) -> None:
        self.counts = {producer: Count() for producer in PRODUCERS}

    @property
    def batches(self) -> int:
        """Batches held so far, of all producers."""
        return sum(count.batches for count in self.counts.values())

    @property
    def over(self) -> int:
        """Batches larger than the buffer, or than the formula of their producer."""
        return sum(max(c.over_buffer, c.over_formula) for c in self.counts.values())

    def add(self, bounds: Bounds, step: Step) -> None:
        """Pad a step and hold it against the buffer and against its producer's own ceiling."""
        count, limit = self.counts[step.producer], bounds.of(step.producer)
        tokens, requests = bounds.padded(step)
        count.batches += 1
        count.over_buffer += bounds.exceeded(tokens, requests)
        if step.others:  # which may be of a producer with a higher ceiling
            tokens, requests = bounds.padded(step._replace(others=()))
        count.over_formula += tokens > limit.padded
        short = limit.raw - step.batch.num_tokens
        count.at_ceiling += tokens == limit.padded or short <= limit.slack
        count.bins[_bin(tokens, limit.padded)] += 1
        found = (tokens / limit.padded, limit.padded)
        if found > count.largest:
            count.largest = found
            count.worst = describe(bounds.config, step, tokens, limit.padded)

    def table(self) -> DataFrame:
        """One row a producer: batches, over (its buffer, its formula), the largest share of the
        ceiling in percent, batches at the ceiling up to alignment, and the worst example."""
        import pandas as pd

        rows = [
            {
                "producer": producer,
                "batches": count.batches,
                "over_buffer": count.over_buffer,
                "over_formula": count.over_formula,
                "largest_share_%": round(100 * count.largest[0], 2),
                "at_ceiling": count.at_ceiling,
                "worst": count.worst,
            }
            for producer, count in self.counts.items()
        ]
        return pd.DataFrame(rows)

    def shares(self) -> DataFrame:
        """How many batches fell into each quarter of the ceiling: producer, bin, batches."""
        import pandas as pd

        rows = [
            (producer, name, count.bins[at])
            for producer, count in self.counts.items()
            for at, name in enumerate(BINS)
        ]
        return pd.DataFrame(rows, columns=["producer", "bin", "batches"])


def _bin(tokens: int, ceiling: int) -> int:
    if tokens >= ceiling:
        return FULL if tokens == ceiling else OVER
    return FULL * tokens // ceiling


def describe(config: EngineConfig, step: Step, tokens: int, ceiling: int) -> str:
    """A step in one line: the settings that are not defaults, the state, the padded batch."""
    values = {name: getattr(config, name) for name in FIELDS}
    settings = [f"{k}={v}" for k, v in values.items() if k not in DEFAULTS or v != DEFAULTS[k]]
    state = step.state
    met = [] if state is None else [f"{k}={v}" for k, v in _given(state)]
    made = f"{step.batch.num_tokens} padded to {tokens} of {ceiling}"
    return f"{', '.join(settings)}: {', '.join(met) or 'no queue'}: {made}"


def _given(state: State) -> list[tuple[str, object]]:
    empty = State()._asdict()
    return [(k, v) for k, v in state._asdict().items() if v != empty[k]]
