"""Where a released SGLang and what it imports are kept, and how a process gets to see them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent.parent
INSIDE = Path(__file__).resolve().parent / "inside"
FIXED = {  # for every process of an engine
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Differs:
    """What a release wants otherwise than the others.

    `entry_for`: whether SGLANG_CPU_OMP_THREADS_BIND has an entry for each "tp" or each "rank".
    """

    entry_for: str = "rank"


_TP = Differs(entry_for="tp")
RELEASES: Mapping[str, Differs] = MappingProxyType(
    {
        "0.5.14": _TP,
        "0.5.15": _TP,
        "0.5.15.post1": _TP,
        "0.5.16": _TP,
        "0.5.17": _TP,
        "0.5.18": _TP,
        "0.5.19": Differs(),
        "0.5.20": Differs(),
        "0.5.21": Differs(),
        "0.5.22": Differs(),
        "0.5.23": Differs(),
    }
)


class EngineMissing(ValueError):
    """SGLang is not set up on this machine, or not this release."""


def engine_folder() -> Path:
    """Where it is kept: EAGERBUF_ENGINE_DIR, or .engine/ beside the package."""
    return Path(os.environ.get("EAGERBUF_ENGINE_DIR") or ROOT / ".engine").expanduser().absolute()


def release_folder(release: str) -> Path:
    """The wheel of `release`, unpacked."""
    return engine_folder() / f"sglang-{release}"


def available(release: str) -> bool:
    """Whether `run_engine(release)` can run here."""
    return why_not(release) is None


def why_not(release: str) -> str | None:
    """One line that says what is missing and how to get it, None if nothing is."""
    if release not in RELEASES:
        return f"release={release!r}: no engine with an eager runner, give one of {_known()}"
    if sys.platform != "linux":
        return "SGLang runs on Linux only"
    if not (engine_folder() / "packages").is_dir():
        return "SGLang is not set up on this machine: run `make engine`"
    if not (release_folder(release) / "sglang").is_dir():
        return f"release={release!r} is not set up on this machine: run `make engine`"
    return None


def _known() -> str:
    return ", ".join(RELEASES)


def python_path(release: str) -> str:
    """Stand-ins first, then the release, then what it imports; this package comes last."""
    places = (INSIDE, release_folder(release), engine_folder() / "packages", ROOT)
    return os.pathsep.join(map(str, places))


def package_roots(release: str) -> list[str]:
    """Folders that stacks are shown without."""
    return [str(place) for place in (release_folder(release), engine_folder() / "packages", INSIDE)]
