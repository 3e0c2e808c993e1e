"""Fields of `ServerArgs` as a text sets them, each with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eagerbuf.read.flags import UNREAD


class Value(NamedTuple):
    """A value and where it came from: "flag", "log", "default" or "option"."""

    value: Any
    source: str


Known = dict[str, Value | None]  # field of EngineConfig -> its effective value, None: unknown


@dataclass(frozen=True)
class Settings:
    """What a text sets, before the engine resolves it; `release` and the GPU's memory with it.

    `partial`: fields that are not here may be set where the text does not show it, so they are
    unknown instead of at their defaults.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    partial: bool = False
    release: tuple[int, ...] = ()
    gpu_mem_gib: float | None = None

    def get(self, name: str, default: Any = None) -> Value | None:
        """The value as set, else the default; None where it cannot be known."""
        found = self.values.get(name)
        if found is not None:
            return None if found.value is UNREAD else found
        return None if self.partial else Value(default, "default")

    def on(self, *names: str) -> Value | None:
        """The first of these fields that is set to True, to a word, or to a number over 1."""
        for name in names:
            found = self.values.get(name)
            if found is not None and _means_on(found.value):
                return found
        return None

    def by_flag(self, name: str) -> Value | None:
        """`on`, but only where a command says so: a log shows what the engine made of it."""
        found = self.on(name)
        return found if found is not None and found.source == "flag" else None


def _means_on(value: Any) -> bool:
    if value is None or value is UNREAD or isinstance(value, bool):
        return value is True
    return value > 1 if isinstance(value, int) else bool(value)
