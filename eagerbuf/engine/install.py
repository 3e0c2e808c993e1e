"""`make engine`: released wheels of SGLang and what they import, each file's hash checked.

They go to folders of their own (see environment.py), so that no pin of SGLang's touches the
environment that the notebooks run in; torch is that environment's.
"""

from __future__ import annotations

import csv
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eagerbuf.engine.environment import ROOT, engine_folder, known_releases, release_folder

NEEDED = ("0.5.14", "0.5.19", "0.5.20", "0.5.23")  # every rule and every fault
LOCK = ROOT / "locks" / "engine.txt"
WHEELS = ROOT / "locks" / "wheels.csv"
PLATFORMS = tuple(f"manylinux_2_{glibc}_x86_64" for glibc in (34, 28, 35, 39))


def main(argv: Sequence[str] | None = None) -> int:
    """Set up the releases named, `all` of them, or those needed; 2 with one line if it fails."""
    asked = list(sys.argv[1:] if argv is None else argv) or list(NEEDED)
    releases = known_releases() if asked == ["all"] else asked
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("engine: set up on Linux and x86-64 only", file=sys.stderr)
        return 2
    try:
        engine_folder().mkdir(parents=True, exist_ok=True)
        _packages()
        for at, release in enumerate(releases, 1):
            _release(release, f"[{at}/{len(releases)}]")
    except (subprocess.CalledProcessError, OSError, KeyError) as error:
        print(f"engine: {_reason(error)}", file=sys.stderr)
        return 2
    return 0


def _packages() -> None:
    """What the releases import. A copy of the lock says that a folder is whole, and of which."""
    target = engine_folder() / "packages"
    mark = target / LOCK.name
    if mark.is_file() and mark.read_bytes() == LOCK.read_bytes():
        return
    _show(f"what SGLang imports, by locks/{LOCK.name} (240 MB in {engine_folder().name}) ...")
    with _partial(target) as partial:
        _pip(partial, "--require-hashes", "-r", str(LOCK))
        shutil.copy(LOCK, partial)


def _release(release: str, step: str) -> None:
    target = release_folder(release)
    if (target / "sglang").is_dir():
        _show(f"{step} SGLang {release} is there")
        return
    _show(f"{step} SGLang {release}: downloading ...")
    with _partial(target) as partial, tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(f"sglang=={release} --hash=sha256:{_digest(release)}\n")
        wanted.flush()
        python = ("--python-version", "3.11", *(f"--platform={name}" for name in PLATFORMS))
        _pip(partial, *python, "--require-hashes", "-r", wanted.name)


def _digest(release: str) -> str:
    with WHEELS.open(encoding="utf-8", newline="") as file:
        known = {(row["package"], row["version"]): row["sha256"] for row in csv.DictReader(file)}
    if ("sglang", release) not in known:
        raise KeyError(f"release {release}: its wheel's hash is not in locks/{WHEELS.name}")
    return known["sglang", release]


class _partial:
    """A folder beside the target that takes its place once it is whole."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix="partial-"))

    def __enter__(self) -> Path:
        return self._scratch

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self._target, ignore_errors=True)
            self._scratch.replace(self._target)
        shutil.rmtree(self._scratch, ignore_errors=True)


def _pip(target: Path, *arguments: str) -> None:
    usual = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(target)]
    subprocess.run([*command, *usual, *arguments], check=True, stderr=subprocess.PIPE, text=True)


def _reason(error: Exception) -> str:
    if not isinstance(error, subprocess.CalledProcessError):
        return str(error.args[0] if isinstance(error, KeyError) else error)
    if "connection broken" in error.stderr:
        return "no connection to the package index"
    lines = [line for line in str(error.stderr).splitlines() if line.startswith("ERROR")]
    return (lines or ["pip failed without a word"])[-1]


def _show(line: str) -> None:
    print(f"engine: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
