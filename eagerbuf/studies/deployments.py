"""Deployments people run and pools of public logs, as EngineConfigs (deployments.csv, logs.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from eagerbuf._csv import Reads, flag, maybe, table
from eagerbuf.config import FIELDS, FLAGS, EngineConfig

EXTRA = {"smooth_factor": maybe(float), "model": maybe(str), "kv_bytes_per_token": maybe(float)}
SCHEMA: dict[str, Reads] = {
    "name": str,
    **{name: maybe(flag if name in FLAGS else int) for name in FIELDS},
    "moe_a2a_backend": maybe(str),
    **EXTRA,
    "source": str,
}


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


@cache
def deployments() -> tuple[NamedDeployment, ...]:
    """The deployments that ship with the package."""
    return _named("deployments.csv")


def find_deployment(name: str) -> NamedDeployment:
    """The deployment of that name."""
    return next(each for each in deployments() if each.name == name)


@cache
def log_lines() -> tuple[NamedDeployment, ...]:
    """KV pools of public start-up logs, and the settings that the logs show."""
    return _named("logs.csv")


def _named(file: str) -> tuple[NamedDeployment, ...]:
    return tuple(map(_deployment, table(file, SCHEMA)))


def _deployment(row: dict[str, Any]) -> NamedDeployment:
    settings = {name: row[name] for name in FIELDS if row[name] is not None}
    extra = {name: row[name] for name in EXTRA}
    known = row["tp_size"] is not None
    config = EngineConfig(**settings)
    return NamedDeployment(row["name"], config, source=row["source"], ranks_known=known, **extra)
