"""Four deployments people run, as EngineConfigs (data/deployments.csv)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eagerbuf._data import data_path
from eagerbuf.config import FIELDS, FLAGS, EngineConfig

EXTRA = ("name", "smooth_factor", "source")


@dataclass(frozen=True)
class NamedDeployment:
    """A deployment's name, effective per-rank settings, smoothing factor (or None) and source."""

    name: str
    config: EngineConfig
    smooth_factor: float | None
    source: str


def load_deployments(path: Path) -> tuple[NamedDeployment, ...]:
    """The rows of a deployments CSV; ValueError with file, line and reason."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = reader.fieldnames or []
        wrong = [n for n in names if n not in FIELDS + EXTRA] + [n for n in EXTRA if n not in names]
        if wrong:
            raise ValueError(f"{path.name}, line 1: column {wrong[0]!r} is unknown or missing")
        return tuple(_row(row, f"{path.name}, line {reader.line_num}") for row in reader)


@cache
def deployments() -> tuple[NamedDeployment, ...]:
    """The deployments that ship with the package."""
    return load_deployments(data_path("deployments.csv"))


def _row(row: dict[str, str], where: str) -> NamedDeployment:
    if None in row or None in row.values():
        raise ValueError(f"{where}: wrong number of fields")
    if not row["name"] or not row["source"]:
        raise ValueError(f"{where}: needs a name and a source")
    try:
        settings: dict[str, Any] = {n: _value(n, row[n]) for n in FIELDS if row.get(n)}
        config = EngineConfig(**settings)
        factor = float(row["smooth_factor"]) if row["smooth_factor"] else None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    return NamedDeployment(row["name"], config, factor, row["source"])


def _value(name: str, text: str) -> int | bool | str:
    if name in FLAGS:
        if text not in ("yes", "no"):
            raise ValueError(f"{name}={text!r}: give yes or no")
        return text == "yes"
    return text if name == "moe_a2a_backend" else int(text)
