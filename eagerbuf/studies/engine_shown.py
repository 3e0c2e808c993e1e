"""A start-up of SGLang's own engine for a notebook: live where it is set up, else as recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from eagerbuf._html import html_table
from eagerbuf.engine import available, run_engine
from eagerbuf.engine.environment import known_releases
from eagerbuf.engine.recorded import recorded_runs

if TYPE_CHECKING:
    from pandas import DataFrame

SWITCH = "EAGERBUF_ENGINE"  # "recorded": nothing is run
MOST_STAGES = 4  # about a gigabyte of memory each
LIMIT_S = 400.0


@dataclass(frozen=True, repr=False)
class ShownRun:
    """How a start-up ended; `origin` says whether it was live or recorded, and when.

    `flags` are those of this run: a recorded one may have others than were asked for. `failure` is
    SGLang's own line, `blocked_in` a rank's tag -> its calls, innermost first.
    """

    origin: str
    release: str
    rule: str | None
    flags: Sequence[str]
    outcome: str
    failure: str | None
    blocked_in: Mapping[str, str]

    @property
    def chunk(self) -> int:
        """Tokens of the chunk."""
        return int(self.flags[self.flags.index("--chunked-prefill-size") + 1])

    @property
    def stages(self) -> int:
        """Pipeline stages, one rank each."""
        return int(self.flags[self.flags.index("--pp-size") + 1])

    @property
    def ranks(self) -> DataFrame:
        """One row a rank: its tag, and the calls it is blocked in."""
        import pandas as pd

        return pd.DataFrame(sorted(self.blocked_in.items()), columns=["rank", "blocked_in"])

    def _lines(self) -> list[str]:
        sized = f"buffers sized by {self.rule}" if self.rule else "its own buffers"
        lines = [f"{self.origin}: SGLang {self.release}, {sized}: {self.outcome}"]
        lines.append(" ".join(self.flags))
        return [*lines, f"SGLang says: {self.failure}"] if self.failure else lines

    def __repr__(self) -> str:
        told = [f"{tag}: {calls}" for tag, calls in sorted(self.blocked_in.items())]
        return "\n".join([*self._lines(), *told])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(line)}</p>" for line in self._lines())
        if not self.blocked_in:
            return said
        return said + html_table("blocked in", sorted(self.blocked_in.items()), ("rank", "calls"))


def start_up(rule: str | None, chunk: int, stages: int, release: str = "0.5.14") -> ShownRun:
    """PP dynamic chunking at this chunk and number of stages; `rule` None: the release's own size.

    Recorded, at the chunk and stages of the recorded run, where SGLang is not set up or there is
    nothing to profile. ValueError where that release and rule were not recorded.
    """
    if not available(release) or os.environ.get(SWITCH) == "recorded" or chunk < 1 or stages < 2:
        return _recorded(rule, release)
    flags = ["--pp-size", str(min(stages, MOST_STAGES)), "--enable-dynamic-chunking"]
    flags += ["--chunked-prefill-size", str(chunk), "--max-running-requests", "128"]
    report = run_engine(release, flags=flags, rule=rule, limit_s=LIMIT_S)
    blocked = {row.tag: row.blocked_in for row in report.ranks.itertuples() if row.blocked_in}
    return ShownRun("live", release, rule, flags, report.outcome, report.failure, blocked)


def _recorded(rule: str | None, release: str) -> ShownRun:
    """The recorded start-up under that rule: of the release, else of the next one recorded.

    That of the documented deployment comes first.
    """
    runs = [*recorded_runs("documented"), *recorded_runs("matrix")]
    runs = [run for run in runs if run.rule == rule and run.radix_cache]
    for run in sorted(runs, key=lambda run: (run.release != release, run.release)):
        origin = f"recorded on {run.date} (make engine sets SGLang up)"
        told = (run.outcome, run.failure, run.blocked_in)
        return ShownRun(origin, run.release, rule, run.flags, *told)
    raise ValueError(f"rule={rule!r}: no start-up is recorded under it")


def engine_matrix() -> DataFrame:
    """How the recorded start-ups of every release ended, one row a release.

    Columns: the outcome (hang | completed | crashed) under the release's own sizing and under
    `pr28386`, each with the radix cache on and off; "not recorded" where there is no run.
    """
    import pandas as pd

    runs = recorded_runs("matrix")
    ended = {(run.release, _column(run.rule, run.radix_cache)): run.outcome for run in runs}
    columns = [_column(rule, on) for rule in (None, "pr28386") for on in (True, False)]
    rows = {
        release: [ended.get((release, column), "not recorded") for column in columns]
        for release in known_releases()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("release")


def _column(rule: str | None, radix_cache: bool) -> str:
    return f"{rule or 'own sizing'}, radix cache {'on' if radix_cache else 'off'}"


def ended_runs(study: str) -> DataFrame:
    """The recorded runs of a study: release, rule, outcome, SGLang's own line, where ranks wait."""
    import pandas as pd

    rows = [
        {
            "release": run.release,
            "rule": run.rule or "own sizing",
            "outcome": run.outcome,
            "failure": run.failure or "",
            "waits": "; ".join(f"{t}: {c}" for t, c in sorted(run.blocked_in.items())),
        }
        for run in recorded_runs(study)
    ]
    return pd.DataFrame(rows, columns=["release", "rule", "outcome", "failure", "waits"])
