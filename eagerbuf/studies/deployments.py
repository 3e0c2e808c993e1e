"""Deployments people run and pools of public logs, as EngineConfigs (deployments.csv, logs.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eagerbuf._csv import Reads, Row, decimal, flag, matching, maybe, rows, text, whole
from eagerbuf._data import data_path
from eagerbuf.config import FIELDS, FLAGS, EngineConfig
from eagerbuf.model import find_model


def _reads(name: str) -> Reads:
    if name == "moe_a2a_backend":
        return matching(r"[a-z0-9_]+", "a backend's name")
    return flag if name in FLAGS else whole(-1)


SCHEMA = {
    "name": text,
    **{name: maybe(_reads(name)) for name in FIELDS},
    "smooth_factor": maybe(decimal()),
    "model": maybe(text),
    "kv_bytes_per_token": maybe(decimal(1)),
    "source": text,
}

EXTRA = ("smooth_factor", "model", "kv_bytes_per_token")
OPTIONAL = (*FIELDS, *EXTRA)


@dataclass(frozen=True)
class NamedDeployment:
    """A deployment's name, effective per-rank settings, smoothing factor (or None) and source.

    `model`: its row of models.csv, `kv_bytes_per_token`: as its own log states it; None: not known.
    `ranks_known`: whether `tp_size` is given, not the default.
    """

    name: str
    config: EngineConfig
    smooth_factor: float | None
    source: str
    model: str | None = None
    kv_bytes_per_token: float | None = None
    ranks_known: bool = True


def load_deployments(path: Path) -> tuple[NamedDeployment, ...]:
    """The rows of a deployments CSV; ValueError with file, line and reason."""
    found = rows(path.read_bytes(), path.name, SCHEMA, unique=["name"], optional=OPTIONAL)
    return tuple(map(_deployment, found))


@cache
def deployments() -> tuple[NamedDeployment, ...]:
    """The deployments that ship with the package."""
    return load_deployments(data_path("deployments.csv"))


@cache
def log_lines() -> tuple[NamedDeployment, ...]:
    """KV pools of public start-up logs, and the settings that the logs show."""
    return load_deployments(data_path("logs.csv"))


def _deployment(row: Row) -> NamedDeployment:
    given = row.values
    settings = {name: given[name] for name in FIELDS if given.get(name) is not None}
    try:
        config = EngineConfig(**settings)
        if given.get("model") is not None:
            find_model(given["model"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{row.where}: {error}") from None
    extra: dict[str, Any] = {name: given.get(name) for name in EXTRA}
    extra["ranks_known"] = given.get("tp_size") is not None
    return NamedDeployment(given["name"], config, source=given["source"], **extra)
