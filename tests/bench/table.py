"""pytest-benchmark's record as rows, and the table that is printed."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from tests.bench.goals import COLUMNS, goals, readable


def measured(record: dict[str, Any]) -> pd.DataFrame:
    """One row a case and side: the least seconds of all rounds, for one piece of work."""
    where = {
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
    }
    rows = [{**row, **where} for each in record["benchmarks"] for row in _sides(each)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _sides(each: dict[str, Any]) -> Iterator[dict[str, Any]]:
    note = each["extra_info"]
    sides = {"ours": each["stats"]["min"], **note["rivals"]}
    for side, seconds in sides.items():
        what = {name: note[name] for name in ("of", "case", "work")}
        yield {**what, "side": side, "seconds": float(f"{seconds / note['times']:.4g}")}


def report(rows: pd.DataFrame) -> str:
    """The goals as a Markdown table, with where it was measured."""
    first = rows.iloc[0]
    lines = [
        f"Measured {first.date} on {first.processor}, Python {first.python}, torch {first.torch} "
        "(one thread): least processor time of all rounds, ours and theirs in turn.",
        "",
        "| what | goal | ours | other | ratio | met |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in readable(goals(rows)).itertuples(index=False):
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join([*lines, "", *_bandwidth(rows)])


def _bandwidth(rows: pd.DataFrame) -> Iterator[str]:
    """What `load` reaches of the bandwidth of one plain copy of as many bytes."""
    loads = rows[rows.of == "load"].pivot(index="work", columns="side", values="seconds")
    for tokens, row in loads.iterrows():
        share = row["plain copy"] / row["ours"]
        yield f"load of {tokens:,} tokens: {share:.0%} of a plain copy's bandwidth  "


def _processor() -> str:
    """The model of the processor and how many of its cores there are."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names) or 1} cores"
