"""HangReport: how a run ended and where every rank was, as tables, text and HTML."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from eagerbuf._html import html_table
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.root_cause import Culprit, culprits
from eagerbuf.repro.launch.stacks import blocked_in, relative
from eagerbuf.repro.launch.status import Sighting, culprit

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

_DONE_WITH = {"swallow": "swallowed", "broadcast": "broadcast"}


@dataclass(frozen=True, repr=False)
class HangReport:
    """What was seen. `outcome`: hang, completed, crashed or overtime; `seconds`: the run's length.

    Frames: `ranks` (rank, last_step, seconds_since, blocked_in), `samples` (probe, num_tokens,
    latency_ms: the least of the sweeps), `model` (rank, enabled, a, b, c; enabled is <NA> for a
    rank that never got to decide), `events` (rank, seconds since the run's start, step).
    `culprits`: the ranks that the outcome is down to.
    """

    outcome: str
    seconds: float
    settings: Settings
    sightings: tuple[Sighting, ...]

    @cached_property
    def stacks(self) -> dict[int, str]:
        """Rank -> its stack, or what a crashed rank left on standard error; paths are relative."""
        crashed = self.outcome == "crashed"
        texts = {seen.rank: seen.stderr if crashed else seen.stack for seen in self.sightings}
        return {rank: relative(text).strip() for rank, text in texts.items() if text.strip()}

    @cached_property
    def culprits(self) -> tuple[Culprit, ...]:
        """The ranks that the outcome is down to, each (rank, step), as far as they stand out.

        crashed: the rank that ended first, at its last step. hang: ranks that stand stopped, else
        the rank whose start-up failed first, if it did not on all, at the step that failed.
        overtime: ranks that stand stopped, else those that waited for no other. completed: none.
        """
        return culprits(self.outcome, self.sightings)

    @cached_property
    def failure(self) -> str | None:
        """Why the start-up failed, as rank 0 said, or in a hang the culprit; None if it did not."""
        told = [0, *(found.rank for found in self.culprits if self.outcome == "hang")]
        texts = (text for rank in told for text in self.sightings[rank].notes("failure"))
        return next(map(relative, texts), None)

    @cached_property
    def where(self) -> dict[str, Any]:
        """Device, backend of the pipeline group, torch version and buffer bytes of rank 0.

        And `program`, where the ranks ran another one than this package's own.
        """
        names = ("device", "backend", "torch", "buffer_nbytes", "program")
        found = {name: self.sightings[0].notes(name) for name in names}
        return {name: values[0] for name, values in found.items() if values}

    @property
    def reason(self) -> str:
        """The outcome in one sentence."""
        if self.outcome == "completed":
            return "every rank went through its rounds"
        if self.outcome == "crashed":
            return _crash(self.sightings)
        if self.outcome == "overtime":
            ready = all(seen.ready for seen in self.sightings)
            so_far = "while ranks still moved" if ready else "before every rank was ready"
            return f"limit_s={self.settings.limit_s:g} passed {so_far}{_named(self.culprits)}"
        still = f"no rank moved for stall_s={self.settings.stall_s:g}"
        if any(seen.stopped for seen in self.sightings):
            return f"{still}, the others wait for a rank that stands stopped{_named(self.culprits)}"
        return f"{still}, each waits for another"

    @property
    def setting(self) -> str:
        """What ran and where, in one line."""
        asked, where = self.settings, self.where
        device, backend = where.get("device", asked.device), where.get("backend", "no group yet")
        program = f"{where['program']}: " if "program" in where else ""
        return (
            f"{program}{asked.ranks} ranks, rank 0 on {device}, pipeline group on {backend}, "
            f"torch {where.get('torch', 'not loaded')}; rule {asked.rule}, chunk {asked.chunk} "
            f"tokens, a failing profile is {_DONE_WITH[asked.on_failure]}"
        )

    def _rank_rows(self) -> Iterator[dict[str, Any]]:
        for seen in self.sightings:
            yield {
                "rank": seen.rank,
                "last_step": seen.last["step"],
                "seconds_since": round(max(seen.now - seen.last["t"], 0.0), 3),
                "blocked_in": blocked_in(seen.stack) if self.outcome == "hang" else None,
            }

    def _model_rows(self) -> Iterator[dict[str, Any]]:
        unknown = {"enabled": None, "a": None, "b": None, "c": None}
        for seen in self.sightings:
            yield {"rank": seen.rank, **next(iter(seen.notes("model")), unknown)}

    def _sample_rows(self) -> list[dict[str, Any]]:
        least = {probe: (tokens, ms) for probe, tokens, ms in self.sightings[0].notes("sample")}
        return [
            {"probe": probe, "num_tokens": tokens, "latency_ms": ms}
            for probe, (tokens, ms) in least.items()
        ]

    def _event_rows(self) -> Iterator[dict[str, Any]]:
        for seen in self.sightings:
            for line in seen.steps:
                yield {"rank": seen.rank, "seconds": line["t"], "step": line["step"]}

    @cached_property
    def ranks(self) -> DataFrame:
        """One row a rank: last_step, seconds_since it, and in a hang the calls it is blocked in."""
        return _frame(self._rank_rows())

    @cached_property
    def samples(self) -> DataFrame:
        """The latency profile that rank 0 measured, as far as it came."""
        return _frame(self._sample_rows(), probe="int64", num_tokens="int64", latency_ms="float64")

    @cached_property
    def model(self) -> DataFrame:
        """The latency model of each rank: latency_ms = a * tokens^2 + b * tokens + c."""
        numbers = dict.fromkeys("abc", "float64")
        return _frame(self._model_rows(), rank="int64", enabled="boolean", **numbers)

    @cached_property
    def events(self) -> DataFrame:
        """Every step of every rank."""
        return _frame(self._event_rows(), rank="int64", seconds="float64", step="str")

    def timeline(self) -> Figure:
        """The steps of all ranks over time, as a plotly figure."""
        from eagerbuf.plots import hang_timeline

        return hang_timeline(self.events, self.outcome, max(seen.now for seen in self.sightings))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for JSON."""
        return {
            "outcome": self.outcome,
            "reason": self.reason,
            "failure": self.failure,
            "seconds": round(self.seconds, 3),
            "culprits": [asdict(culprit) for culprit in self.culprits],
            "settings": asdict(self.settings),
            "where": self.where,
            "ranks": list(self._rank_rows()),
            "stacks": {str(rank): text for rank, text in self.stacks.items()},
            "samples": self._sample_rows(),
            "model": list(self._model_rows()),
            "events": list(self._event_rows()),
        }

    @property
    def _ended(self) -> str:
        """The outcome and the length of the run; a hang is known once nothing moved for a while."""
        watched = ", watching included" if self.outcome == "hang" else ""
        return f"{self.outcome} after {self.seconds:.1f} s{watched}: {self.reason}"

    def __str__(self) -> str:
        lines = [self._ended, self.setting]
        if self.failure:
            lines.append(f"profile: {self.failure}")
        for row in self._rank_rows():
            lines.append(
                f"rank {row['rank']}: {row['last_step']} ({row['seconds_since']:.1f} s ago)"
            )
            if row["blocked_in"]:
                lines.append(f"  in {row['blocked_in']}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header = ("rank", "last step", "seconds since", "blocked in")
        rows = [tuple("" if v is None else v for v in row.values()) for row in self._rank_rows()]
        notes = [self.setting, *([f"profile: {self.failure}"] if self.failure else [])]
        said = "".join(f"<p>{escape(note)}</p>" for note in notes)
        stacks = "".join(
            f"<details><summary>rank {rank}</summary><pre>{escape(text)}</pre></details>"
            for rank, text in self.stacks.items()
        )
        return html_table(self._ended, rows, header) + said + stacks


def _frame(rows: Any, **dtypes: str) -> DataFrame:
    """Rows as a DataFrame with these columns and dtypes, also when there is no row."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(dtypes) or None)
    return frame.astype(dtypes)


def _named(found: tuple[Culprit, ...]) -> str:
    return "".join(f"; rank {culprit.rank} at {culprit.step!r}" for culprit in found)


def _crash(sightings: tuple[Sighting, ...]) -> str:
    seen = culprit(sightings)
    assert seen is not None
    code = seen.exit_code or 0
    name = f" ({signal.Signals(-code).name})" if code < 0 else ""
    lines = relative(seen.stderr).strip().splitlines()
    said = f"; its last line on standard error: {lines[-1].strip()}" if lines else ""
    return (
        f"rank {seen.rank} ended by itself at {seen.last['step']!r}, exit code {code}{name}{said}"
    )
