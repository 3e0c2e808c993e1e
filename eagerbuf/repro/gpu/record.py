"""The record of a run on a GPU: its schema, a loader that checks it, and how notebooks show it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from html import escape
from typing import TYPE_CHECKING, Any

from eagerbuf._csv import find_data

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = 1
FILE = "gpu.json"
NOTHING_YET = "no GPU run is recorded yet"
STATUSES = ("done", "failed", "overtime", "skipped")
NUMBER = (int, float)
MAYBE = type(None)
Types = tuple[type, ...]
HEADER: Mapping[str, Types] = {"schema": (int,), "recorded": (str,), "parts": (dict,)}
PART: Mapping[str, Types] = {"status": (str,), "said": (str,), "seconds": NUMBER, "rows": (list,)}
_PROFILE = dict.fromkeys("abc", (*NUMBER, MAYBE))
_REGRET = dict.fromkeys(("regret_percent", "low_percent", "high_percent"), NUMBER)
COLUMNS: Mapping[str, Mapping[str, Types]] = {
    "machine": {
        **dict.fromkeys(("device", "driver", "capability", "cuda"), (str,)),
        **dict.fromkeys(("python", "torch", "triton", "eagerbuf"), (str,)),
        **dict.fromkeys(("devices", "memory_bytes"), (int,)),
    },
    "hang": {
        **dict.fromkeys(("rule", "outcome", "device", "backend"), (str,)),
        **dict.fromkeys(("chunk", "buffer_tokens", "probes"), (int,)),
        "failure": (str, MAYBE),
        "seconds": NUMBER,
        **_PROFILE,
        "samples": (list,),  # of [tokens of the probe, ms]
        "blocked_in": (list,),  # of each rank: text, or null
    },
    "copies": {"num_tokens": (int,), "nbytes": (int,), "us": NUMBER, "gb_s": NUMBER}
    | {"device_gb_s": NUMBER},
    "tactics": {
        **dict.fromkeys(("max_running_requests", "alignment", "dummy_bucket"), (int,)),
        "live_tokens": (int,),
        **dict.fromkeys(("ran", "kept", "best"), (str,)),
        **dict.fromkeys(("kept_ms", "best_ms", "worst_error"), NUMBER),
        **_REGRET,
        **dict.fromkeys(("told_apart", "tuned_set_differs"), (bool,)),
    },
    "collectives": {
        **dict.fromkeys(("num_tokens", "rank", "part_tokens"), (int,)),
        **dict.fromkeys(("collective", "error", "backend", "device"), (str,)),
        "done": (bool,),
    },
    "engine": {
        **dict.fromkeys(("release", "flags", "outcome"), (str,)),
        **dict.fromkeys(("rule", "failure"), (str, MAYBE)),
        **dict.fromkeys(("device", "last_step"), (str,)),
        "seconds": NUMBER,
        "batches": (int,),
    },
}


@dataclass(frozen=True)
class GpuPart:
    """One part of a run: `status` (done, failed, overtime or skipped), what it said, its rows."""

    name: str
    status: str
    said: str
    seconds: float
    rows: tuple[Mapping[str, Any], ...]
    where: str

    def to_frame(self) -> DataFrame:
        """Its rows, one result each; the columns are those of data/README.md."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(COLUMNS[self.name]))

    @property
    def heading(self) -> str:
        """Where and when it ran, and how it ended where that is not "done"."""
        ended = "" if self.status == "done" else f"; {self.status}: {self.said}"
        return f"{self.where}{ended}"

    def __repr__(self) -> str:
        table = self._short().to_string(index=False) if self.rows else ""
        return f"{self.heading}\n{table}".strip()

    def _repr_html_(self) -> str:
        table = self._short().to_html(index=False, border=0) if self.rows else ""
        return f"<p>{escape(self.heading)}</p>{table}"

    def _short(self) -> DataFrame:
        """The frame without lists, in digits that people read."""
        lists = [name for name, types in COLUMNS[self.name].items() if types == (list,)]
        return self.to_frame().drop(columns=lists).map(_short)


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class GpuRecord:
    """A whole run: the day, and its parts by name (see COLUMNS)."""

    recorded: date
    parts: Mapping[str, GpuPart]


@dataclass(frozen=True)
class _NothingYet:
    def __repr__(self) -> str:
        return NOTHING_YET


def recorded(part: str) -> GpuPart | _NothingYet:
    """What a notebook shows of the recorded GPU run beside its own: a part, or that there is none.

    ValueError for a part that the schema does not know, or a record that is not valid.
    """
    if part not in COLUMNS:
        raise ValueError(f"part={part!r}: unknown, give one of {', '.join(COLUMNS)}")
    record = load_record()
    return _NothingYet() if record is None or part not in record.parts else record.parts[part]


def load_record(path: str | os.PathLike[str] | None = None) -> GpuRecord | None:
    """The record at `path`, by default the shipped data/gpu.json; None if that does not exist.

    ValueError "file: where: what is wrong" for one that the schema does not allow.
    """
    found = path or shipped()
    if found is None:
        return None
    with open(found, encoding="utf-8") as file:
        text = file.read()
    try:
        return _record(json.loads(text, parse_constant=_no_number))
    except ValueError as error:
        raise ValueError(f"{os.path.basename(found)}: {error}") from None


def shipped() -> str | None:
    """The path of the shipped record, None while there is none."""
    try:
        return find_data(FILE)
    except FileNotFoundError:
        return None


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant}: is no JSON number")


def _record(told: Any) -> GpuRecord:
    _check(told, HEADER, "the record")
    if told["schema"] != SCHEMA:
        raise ValueError(f"schema={told['schema']}: this version reads schema {SCHEMA}")
    day = date.fromisoformat(told["recorded"])
    for name, part in told["parts"].items():
        _check_part(name, part)
    machine = told["parts"].get("machine", {}).get("rows") or [{}]
    where = _where(day, machine[0])
    parts = {name: _part(name, part, where) for name, part in told["parts"].items()}
    return GpuRecord(day, parts)


def _part(name: str, part: Mapping[str, Any], where: str) -> GpuPart:
    return GpuPart(name, part["status"], part["said"], part["seconds"], tuple(part["rows"]), where)


def _where(day: date, machine: Mapping[str, Any]) -> str:
    if not machine:
        return f"recorded on {day}, on an unknown machine"
    names = "{device} x {devices}, driver {driver}, torch {torch}, CUDA {cuda}, Python {python}"
    return f"recorded on {day}: {names.format(**machine)}"


def _check_part(name: str, part: Any) -> None:
    if name not in COLUMNS:
        raise ValueError(f"parts.{name}: unknown, known are {', '.join(COLUMNS)}")
    _check(part, PART, f"parts.{name}")
    if part["status"] not in STATUSES:
        raise ValueError(f"parts.{name}.status={part['status']!r}: not of {', '.join(STATUSES)}")
    for at, row in enumerate(part["rows"]):
        _check(row, COLUMNS[name], f"parts.{name}.rows[{at}]")


def _check(told: Any, fields: Mapping[str, Types], where: str) -> None:
    """ValueError unless `told` has exactly these fields, each of one of its types."""
    if not isinstance(told, dict):
        raise ValueError(f"{where}: must be an object, is {type(told).__name__}")
    if differ := sorted(fields.keys() ^ told.keys()):
        how = "is missing" if differ[0] in fields else "is unknown"
        raise ValueError(f"{where}.{differ[0]}: {how}")
    for name, types in fields.items():
        value = told[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join(kind.__name__ for kind in types)
            raise ValueError(f"{where}.{name}={value!r}: must be {wanted}")
