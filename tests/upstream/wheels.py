"""The cache of released wheels: which are wanted, how it is filled, how it is checked."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NEEDED = ("0.5.14", "0.5.15.post1", "0.5.19", "0.5.20", "0.5.23")  # every rule and every fault
KEPT = ("sglang/srt/", "sglang/bench", "flashinfer/")  # the rest of a wheel is of no use here
PLATFORMS = tuple(f"manylinux_2_{glibc}_x86_64" for glibc in (34, 28, 35, 39))
PIN = re.compile(r"^Requires-Dist: flashinfer[-_]python(?:\[\w+\])? *\(?==([\w.]+)", re.MULTILINE)
Show = Callable[[str], None]


class WheelMissing(Exception):
    """A wheel is neither in the cache nor to be had from the package index."""


def cache_folder() -> Path:
    """Where wheels are kept: EAGERBUF_UPSTREAM, or .upstream/ beside the package."""
    return Path(os.environ.get("EAGERBUF_UPSTREAM") or ROOT / ".upstream").expanduser()


@dataclass(frozen=True)
class Wheel:
    """One released wheel of SGLang or FlashInfer."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def name(self) -> str:
        """Its folder in the cache, and what file names in tracebacks start with."""
        return f"{self.package}-{self.version}"

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    @property
    def cached(self) -> bool:
        """The manifest is written last, so a folder that has one is whole."""
        return (self.folder / "manifest.json").is_file()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Wheel file, sha256, size, date of the newest file, and a sha256 for each source."""
        if not self.cached:
            raise WheelMissing(f"{self} is not in {cache_folder().name}/: run `make upstream`")
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        return manifest

    def read(self, path: str) -> str:
        """One source file, refused if it is no longer what the wheel held."""
        data = (self.folder / path).read_bytes()
        if hashlib.sha256(data).hexdigest() != self.manifest["files"][path]:
            raise WheelMissing(f"{self}: {path} was changed in the cache; delete {self.name}/")
        return data.decode("utf-8")


def sglang(version: str) -> Wheel:
    return Wheel("sglang", version)


FLASHINFER = Wheel("flashinfer-python", "0.6.12")  # what SGLang 0.5.14 pins
FLASHINFER_NEW = Wheel("flashinfer-python", "0.7.2")  # what SGLang 0.5.23 pins


def releases() -> list[dict[str, str]]:
    """What data/releases.csv says of each release, oldest first: its rows without the source."""
    with (ROOT / "data" / "releases.csv").open(encoding="utf-8", newline="") as file:
        return [{k: v for k, v in row.items() if k != "source"} for row in csv.DictReader(file)]


def known_digests() -> dict[tuple[str, str], str]:
    """(package, version) -> sha256 of the wheel; what is not listed yet is taken as it is."""
    with (ROOT / "locks" / "wheels.csv").open(encoding="utf-8", newline="") as file:
        return {(row["package"], row["version"]): row["sha256"] for row in csv.DictReader(file)}


def known_releases() -> list[str]:
    """Every release of the table that is a wheel (one row is a stretch of main)."""
    return [row["release"] for row in releases() if row["release"][0].isdigit()]


def row_of(wheel: Wheel) -> dict[str, str]:
    """The row of a release of SGLang in the table."""
    return next(row for row in releases() if row["release"] == wheel.version)


def every() -> bool:
    """The switch: all releases and the large FlashInfer, not only the needed ones."""
    return os.environ.get("EAGERBUF_UPSTREAM_ALL", "") not in ("", "0")


def wanted() -> list[Wheel]:
    """The wheels a run compares with; the newest release of the table is always one."""
    known = known_releases()
    versions = known if every() else [v for v in known if v in (*NEEDED, known[-1])]
    return [*map(sglang, versions), FLASHINFER, *([FLASHINFER_NEW] if every() else [])]


def fill(wheels: Iterable[Wheel], show: Show) -> None:
    """Bring the wheels into the cache, one line each; WheelMissing at the first failure."""
    wheels = list(wheels)
    for at, wheel in enumerate(wheels, 1):
        step = f"[{at}/{len(wheels)}] {wheel}"
        if not wheel.cached:
            show(f"{step}: downloading ...")
            fetch(wheel)
        held = wheel.manifest
        show(f"{step}: {held['bytes'] / 1e6:.1f} MB wheel, {len(held['files']):,} sources checked")


def fetch(wheel: Wheel) -> None:
    """Download one wheel without dependencies, keep its checked sources and a manifest."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="partial-") as scratch:
        archive = _download(wheel, Path(scratch))
        unpacked = Path(scratch) / wheel.name
        manifest = _unpack(wheel, archive, unpacked)
        (unpacked / "manifest.json").write_text(json.dumps(manifest, indent=0), "utf-8")
        shutil.rmtree(wheel.folder, ignore_errors=True)
        unpacked.replace(wheel.folder)


def _download(wheel: Wheel, target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.11", *(f"--platform={name}" for name in PLATFORMS)]
    command += ["--no-input", "--disable-pip-version-check", "--retries=1", "--timeout=20"]
    command += ["--dest", str(target), f"{wheel.package}=={wheel.version}"]
    bar = sys.stderr.isatty()
    done = subprocess.run(
        command, stdout=sys.stderr if bar else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise WheelMissing(f"{wheel} could not be downloaded: {_reason(done.stderr)}")
    return next(target.glob("*.whl"))


def _reason(errors: str) -> str:
    """pip's last line, or what it stands for: offline it ends in "no matching distribution"."""
    if "connection broken" in errors:
        return "no connection to the package index"
    return (errors.strip() or "pip failed without a word").splitlines()[-1]


def _unpack(wheel: Wheel, archive: Path, target: Path) -> dict[str, Any]:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != known_digests().get((wheel.package, wheel.version), digest):
        raise WheelMissing(f"{wheel}: {archive.name} is not the file that wheels.csv lists by hash")
    with zipfile.ZipFile(archive) as zipped:
        info = _dist_info(wheel, zipped)
        recorded = _record(zipped, info)
        sources = [n for n in zipped.namelist() if n.endswith(".py") and n.startswith(KEPT)]
        files = {name: _extract(zipped, name, target, recorded) for name in sources}
        newest = max(entry.date_time for entry in zipped.infolist())
        metadata = zipped.read(f"{info}/METADATA").decode("utf-8")
    return {
        "package": wheel.package,
        "version": wheel.version,
        "wheel": archive.name,
        "sha256": digest,
        "bytes": archive.stat().st_size,
        "newest_file": "{:04}-{:02}-{:02}".format(*newest[:3]),
        "flashinfer": pin.group(1) if (pin := PIN.search(metadata)) else "",
        "files": files,
    }


def _dist_info(wheel: Wheel, zipped: zipfile.ZipFile) -> str:
    """The metadata folder, if the archive is the release that was asked for."""
    name = f"{wheel.package.replace('-', '_')}-{wheel.version}.dist-info"
    if f"{name}/RECORD" not in zipped.namelist():
        raise WheelMissing(f"{wheel}: the downloaded wheel has no {name}/RECORD")
    return name


def _record(zipped: zipfile.ZipFile, info: str) -> dict[str, str]:
    """File -> sha256 (hex) as the wheel's RECORD lists them."""
    rows = csv.reader(zipped.read(f"{info}/RECORD").decode("utf-8").splitlines())
    digests = ((row[0], row[1].removeprefix("sha256=")) for row in rows if row[1])
    return {name: base64.urlsafe_b64decode(code + "=").hex() for name, code in digests}


def _extract(zipped: zipfile.ZipFile, name: str, target: Path, recorded: dict[str, str]) -> str:
    """Write one source and return its sha256, which must be the recorded one."""
    data = zipped.read(name)
    digest = hashlib.sha256(data).hexdigest()
    if recorded.get(name) != digest:
        raise WheelMissing(f"{zipped.filename}: {name} does not match the wheel's RECORD")
    path = target / name
    if not path.resolve().is_relative_to(target.resolve()):
        raise WheelMissing(f"{zipped.filename}: {name} leaves the folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return digest
