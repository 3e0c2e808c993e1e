"""Four deployments people run, as EngineConfigs (data/deployments.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eagerbuf._data import data_path
from eagerbuf.config import FIELDS, FLAGS, EngineConfig
from eagerbuf.schema import Reads, Row, decimal, flag, matching, maybe, rows, text, whole


def _reads(name: str) -> Reads:
    if name == "moe_a2a_backend":
        return matching(r"[a-z0-9_]+", "a backend's name")
    return flag if name in FLAGS else whole(-1)


SCHEMA = {
    "name": text,
    **{name: maybe(_reads(name)) for name in FIELDS},
    "smooth_factor": maybe(decimal()),
    "source": text,
}


@dataclass(frozen=True)
class NamedDeployment:
    """A deployment's name, effective per-rank settings, smoothing factor (or None) and source."""

    name: str
    config: EngineConfig
    smooth_factor: float | None
    source: str


def load_deployments(path: Path) -> tuple[NamedDeployment, ...]:
    """The rows of a deployments CSV; ValueError with file, line and reason."""
    found = rows(path.read_bytes(), path.name, SCHEMA, unique=["name"], optional=FIELDS)
    return tuple(map(_deployment, found))


@cache
def deployments() -> tuple[NamedDeployment, ...]:
    """The deployments that ship with the package."""
    return load_deployments(data_path("deployments.csv"))


def _deployment(row: Row) -> NamedDeployment:
    given = row.values
    settings = {name: given[name] for name in FIELDS if given.get(name) is not None}
    try:
        config = EngineConfig(**settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{row.where}: {error}") from None
    return NamedDeployment(given["name"], config, given["smooth_factor"], given["source"])
