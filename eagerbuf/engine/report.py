"""EngineReport: how a run of SGLang ended and where every rank was, as tables, text and HTML."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from eagerbuf._html import html_table
from eagerbuf.engine.log import Log
from eagerbuf.engine.stacks import blocked_in

if TYPE_CHECKING:
    from pandas import DataFrame

OUTCOMES = ("hang", "completed", "crashed", "overtime")
_OUTERMOST = ("run_scheduler_process", "run_data_parallel_controller_process")


@dataclass(frozen=True, repr=False)
class EngineReport:
    """What was seen. `outcome`: hang, completed, crashed or overtime; `seconds`: the run's length.

    `flags`: the user's own; `added`: what a CPU needs besides, a sentence each; `stacks`: tag of a
    rank -> its stack, paths relative to a package; `stand_ins`: what stood in for a GPU -> why.
    """

    release: str
    flags: tuple[str, ...]
    rule: str | None
    outcome: str
    seconds: float
    stacks: dict[str, str]
    written: Log
    tags: tuple[str, ...]

    @property
    def failure(self) -> str | None:
        """SGLang's own line of failure, None if there is none."""
        return self.written.failure

    @property
    def stand_ins(self) -> dict[str, str]:
        """What stood in for something that only a GPU has, each with its reason."""
        return next(iter(self.written.told("stand_ins")), {})

    @property
    def added(self) -> list[str]:
        """The flags that were added to the user's own, or replaced, one sentence each."""
        return next(iter(self.written.told("added")), [])

    @property
    def sizes(self) -> list[dict[str, Any]]:
        """Of each rank: tag, the sizes of its static buffers, and those the release gave."""
        return [event for event in self.written.events if "sizes" in event]

    @property
    def steps(self) -> list[str]:
        """How far the run came."""
        return self.written.told("at")

    @cached_property
    def ranks(self) -> DataFrame:
        """One row a rank: its tag, and the calls it is blocked in where it was asked."""
        import pandas as pd

        return pd.DataFrame(self._rank_rows(), columns=["rank", "tag", "blocked_in"])

    def _rank_rows(self) -> list[dict[str, Any]]:
        return [
            {"rank": rank, "tag": tag, "blocked_in": blocked_in(self.stacks[tag], _OUTERMOST)}
            if tag in self.stacks
            else {"rank": rank, "tag": tag, "blocked_in": None}
            for rank, tag in enumerate(self.tags)
        ]

    @cached_property
    def log(self) -> DataFrame:
        """Every line: time and tag ("" where SGLang gives none), line."""
        import pandas as pd

        return pd.DataFrame(map(asdict, self.written.lines), columns=["time", "tag", "line"])

    @cached_property
    def samples(self) -> DataFrame:
        """The latency profile of the first rank: probe, num_tokens, latency_ms."""
        import pandas as pd

        columns = ["probe", "num_tokens", "latency_ms"]
        return pd.DataFrame(self.written.samples, columns=columns)

    @cached_property
    def model(self) -> DataFrame:
        """The latency model of each rank that fitted one: tag, a, b, c."""
        import pandas as pd

        return pd.DataFrame(self.written.model, columns=["tag", "a", "b", "c"])

    @cached_property
    def batches(self) -> DataFrame:
        """Every batch that was loaded into the static buffers, where the run recorded them."""
        import pandas as pd

        return pd.DataFrame(self.written.told("batch"))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for JSON."""
        return {
            "release": self.release,
            "flags": list(self.flags),
            "rule": self.rule,
            "outcome": self.outcome,
            "failure": self.failure,
            "seconds": round(self.seconds, 3),
            "steps": self.steps,
            "ranks": self._rank_rows(),
            "stacks": self.stacks,
            "sizes": self.sizes,
            "samples": self.written.samples,
            "model": self.written.model,
            "batches": self.written.told("batch"),
            "added": self.added,
            "stand_ins": self.stand_ins,
            "log": [asdict(line) for line in self.written.lines],
        }

    @property
    def _ended(self) -> str:
        rule = f", buffers sized by {self.rule}" if self.rule else ""
        return f"SGLang {self.release}{rule}: {self.outcome} after {self.seconds:.1f} s"

    def __str__(self) -> str:
        lines = [self._ended, "flags: " + " ".join(self.flags)]
        lines += [f"SGLang says: {self.failure}"] if self.failure else []
        for row in self._rank_rows():
            lines.append(f"{row['tag']}: {row['blocked_in'] or 'not asked'}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(row["tag"], row["blocked_in"] or "") for row in self._rank_rows()]
        said = f"<p>{escape(self.failure)}</p>" if self.failure else ""
        stacks = "".join(
            f"<details><summary>{escape(tag)}</summary><pre>{escape(text)}</pre></details>"
            for tag, text in self.stacks.items()
        )
        flags = f"<p><code>{escape(' '.join(self.flags))}</code></p>"
        return html_table(self._ended, rows, ("rank", "blocked in")) + flags + said + stacks
