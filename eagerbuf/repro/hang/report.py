"""HangReport: how a run ended and where every rank was, as tables, text and HTML."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from eagerbuf._html import html_table
from eagerbuf.engine.stacks import blocked_in, relative
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.outcome import Culprit, ended_first, root_cause
from eagerbuf.repro.launch.status import WorkerStatus

if TYPE_CHECKING:
    from pandas import DataFrame

_KNOWN_TO = {"rank0_only": "known to rank 0 only", "broadcast": "broadcast to all ranks"}
_OUTERMOST = ("run_rank",)  # where a rank's own start begins
_NO_MODEL = {"enabled": None, "a": None, "b": None, "c": None}


@dataclass(frozen=True, repr=False)
class HangReport:
    """What was seen. `outcome`: hang, completed, crashed or overtime; `seconds`: the run's length.

    Frames: `ranks` (rank, last_step, seconds_since, blocked_in), `samples` (probe, num_tokens,
    latency_ms: the least of the sweeps), `model` (rank, enabled, a, b, c; enabled is <NA> for a
    rank that never got to decide), `events` (rank, seconds since the run's start, step).
    `culprits`: the ranks that the outcome is down to, each (rank, step), as far as they stand out.
    """

    outcome: str
    seconds: float
    settings: Settings
    statuses: tuple[WorkerStatus, ...]

    @cached_property
    def stacks(self) -> dict[int, str]:
        """Rank -> its stack, or what a crashed rank left on standard error; paths are relative."""
        crashed = self.outcome == "crashed"
        texts = {seen.rank: seen.stderr if crashed else seen.stack for seen in self.statuses}
        return {rank: relative(text).strip() for rank, text in texts.items() if text.strip()}

    @cached_property
    def culprits(self) -> tuple[Culprit, ...]:
        """The ranks that the outcome is down to, see `root_cause`."""
        return root_cause(self.outcome, self.statuses)

    @cached_property
    def failure(self) -> str | None:
        """Why the start-up failed, as rank 0 said, or in a hang the culprit; None if it did not."""
        told = [0, *(found.rank for found in self.culprits if self.outcome == "hang")]
        texts = (text for rank in told for text in self.statuses[rank].notes("failure"))
        return next(map(relative, texts), None)

    @cached_property
    def where(self) -> dict[str, Any]:
        """Device, backend of the pipeline group, torch version and buffer bytes of rank 0.

        And `program`, where the ranks ran another one than this package's own.
        """
        names = ("device", "backend", "torch", "buffer_nbytes", "program")
        found = {name: self.statuses[0].notes(name) for name in names}
        return {name: values[0] for name, values in found.items() if values}

    @property
    def watched_s(self) -> float:
        """Seconds from the run's start to the last look at the ranks."""
        return max(seen.now for seen in self.statuses)

    @property
    def reason(self) -> str:
        """The outcome in one sentence."""
        if self.outcome == "completed":
            return "every rank went through its rounds"
        if self.outcome == "crashed":
            return self._crash()
        named = "".join(f"; rank {found.rank} at {found.step!r}" for found in self.culprits)
        if self.outcome == "overtime":
            ready = all(seen.ready for seen in self.statuses)
            so_far = "while ranks still moved" if ready else "before every rank was ready"
            return f"limit_s={self.settings.limit_s:g} passed {so_far}{named}"
        still = f"no rank moved for stall_s={self.settings.stall_s:g}"
        if any(seen.stopped for seen in self.statuses):
            return f"{still}, the others wait for a rank that stands stopped{named}"
        return f"{still}, each waits for another"

    def _crash(self) -> str:
        seen = ended_first(self.statuses)
        assert seen is not None
        code = seen.exit_code or 0
        name = f" ({signal.Signals(-code).name})" if code < 0 else ""
        lines = relative(seen.stderr).strip().splitlines()
        said = f"; its last line on standard error: {lines[-1].strip()}" if lines else ""
        ended = f"rank {seen.rank} ended by itself at {seen.last['step']!r}"
        return f"{ended}, exit code {code}{name}{said}"

    @property
    def setting(self) -> str:
        """What ran and where, in one line."""
        asked, where = self.settings, self.where
        device, backend = where.get("device", asked.device), where.get("backend", "no group yet")
        program = f"{where['program']}: " if "program" in where else ""
        return (
            f"{program}{asked.ranks} ranks, rank 0 on {device}, pipeline group on {backend}, "
            f"torch {where.get('torch', 'not loaded')}; rule {asked.rule}, chunk {asked.chunk} "
            f"tokens, a failing profile is {_KNOWN_TO[asked.on_failure]}"
        )

    def _rank_rows(self) -> Iterator[dict[str, Any]]:
        for seen in self.statuses:
            yield {
                "rank": seen.rank,
                "last_step": seen.last["step"],
                "seconds_since": round(max(seen.now - seen.last["t"], 0.0), 3),
                "blocked_in": blocked_in(seen.stack, _OUTERMOST)
                if self.outcome == "hang"
                else None,
            }

    def _model_rows(self) -> Iterator[dict[str, Any]]:
        for seen in self.statuses:
            yield {"rank": seen.rank, **next(iter(seen.notes("model")), _NO_MODEL)}

    def _sample_rows(self) -> list[dict[str, Any]]:
        least = {sample[0]: sample for sample in self.statuses[0].notes("sample")}
        names = ("probe", "num_tokens", "latency_ms")
        return [dict(zip(names, sample, strict=True)) for sample in least.values()]

    def _event_rows(self) -> Iterator[dict[str, Any]]:
        for seen in self.statuses:
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

    def _heading(self) -> tuple[str, list[str]]:
        """The outcome and the run's length; then what ran, and the failure if there was one."""
        watched = ", watching included" if self.outcome == "hang" else ""
        ended = f"{self.outcome} after {self.seconds:.1f} s{watched}: {self.reason}"
        return ended, [self.setting, *([f"profile: {self.failure}"] if self.failure else [])]

    def __str__(self) -> str:
        ended, lines = self._heading()
        for row in self._rank_rows():
            since = f"{row['seconds_since']:.1f} s ago"
            lines.append(f"rank {row['rank']}: {row['last_step']} ({since})")
            if row["blocked_in"]:
                lines.append(f"  in {row['blocked_in']}")
        return "\n".join([ended, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        ended, notes = self._heading()
        header = ("rank", "last step", "seconds since", "blocked in")
        rows = [tuple("" if v is None else v for v in row.values()) for row in self._rank_rows()]
        said = "".join(f"<p>{escape(note)}</p>" for note in notes)
        stacks = "".join(
            f"<details><summary>rank {rank}</summary><pre>{escape(text)}</pre></details>"
            for rank, text in self.stacks.items()
        )
        return html_table(ended, rows, header) + said + stacks


def _frame(rows: Any, **dtypes: str) -> DataFrame:
    """Rows as a DataFrame with these columns and dtypes, also when there is no row."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(dtypes) or None).astype(dtypes)
