"""Where a released SGLang and what it imports are kept, and how a process gets to see them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eagerbuf.releases import releases

ROOT = Path(__file__).resolve().parent.parent.parent
INSIDE = Path(__file__).resolve().parent / "inside"
_MEMORY, _PREFIX = "/dev/shm", "eagerbuf-"
FIXED = {  # for every process of an engine
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Differs:
    """What releases want otherwise than those before them, from `since` on.

    `entry_for`: whether SGLANG_CPU_OMP_THREADS_BIND has an entry for each "tp" or each "rank".
    """

    since: str
    entry_for: str


DIFFERS = (Differs("0.5.14", entry_for="tp"), Differs("0.5.19", entry_for="rank"))


def known_releases() -> list[str]:
    """Every release that has an eager runner, oldest first."""
    return [row.release for row in releases() if row.numbered and row.eager_runner]


def differs(release: str) -> Differs:
    """What this release wants: the last entry of DIFFERS that is not newer."""
    order = known_releases()
    return [row for row in DIFFERS if order.index(row.since) <= order.index(release)][-1]


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
    if release not in known_releases():
        known = ", ".join(known_releases())
        return f"release={release!r}: not known to have an eager runner, give one of {known}"
    if sys.platform != "linux":
        return "SGLang runs on Linux only"
    if not (engine_folder() / "packages").is_dir():
        return "SGLang is not set up on this machine: run `make engine`"
    if not (release_folder(release) / "sglang").is_dir():
        return f"SGLang {release} is not set up: run `make engine RELEASES={release}`"
    return None


def python_path(release: str) -> str:
    """Stand-ins first, then the release, then what it imports; this package comes last."""
    places = (INSIDE, release_folder(release), engine_folder() / "packages", ROOT)
    return os.pathsep.join(map(str, places))


def package_roots(release: str) -> list[str]:
    """Folders that stacks are shown without."""
    return [str(place) for place in (release_folder(release), engine_folder() / "packages", INSIDE)]


@contextmanager
def run_folder() -> Iterator[str]:
    """A folder for the model and the sockets of one run; in memory where no full disk matters.

    One whose run was killed is removed by the next run.
    """
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
    for old in Path(place).glob(f"{_PREFIX}*-*"):
        if not Path("/proc", old.name.split("-")[1]).exists():
            shutil.rmtree(old, ignore_errors=True)
    prefix = f"{_PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(dir=place, prefix=prefix, ignore_cleanup_errors=True) as found:
        yield found
