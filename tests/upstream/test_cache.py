"""The cache of wheels and the loader, on wheels made here: what is checked, what errors say."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import sys
import traceback
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.upstream import wheels
from tests.upstream.__main__ import main
from tests.upstream.conftest import require
from tests.upstream.load import MissingPiece, Room
from tests.upstream.wheels import Wheel, WheelMissing

NEEDS_WHEELS = False
TOY = Wheel("sglang", "9.9.9")
SOURCES = {
    "sglang/srt/__init__.py": "",
    "sglang/srt/rules.py": (
        "import math\n"
        "from .limits import LIMIT as MOST\n"
        "from sglang.srt.moved import *\n"
        "SCALE = 2 * FACTOR\n"
        "\n"
        "class Sizer:\n"
        "    extra: Unknown = math.ceil(0.5)\n"
        "\n"
        "    def size(self, tokens):\n"
        "        from sglang.srt.limits import check\n"
        "        check(tokens)\n"
        "        return SCALE * tokens + self.extra\n"
        "\n"
        "    def on_gpu(self):\n"
        "        return cuda()\n"
        "\n"
        "def scaled(tokens): return min(MOST, SCALE * tokens)\n"
    ),
    "sglang/srt/limits.py": (
        "LIMIT = 100\n"
        "def check(tokens):\n"
        "    if tokens > LIMIT:\n"
        "        raise ValueError(f'{tokens} over {LIMIT}')\n"
    ),
    "sglang/srt/moved.py": "FACTOR = 5\n",
    "sglang/other/left_out.py": "",
}
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = (
    "Metadata-Version: 2.1\nName: sglang\nVersion: 9.9.9\n"
    "Requires-Dist: flashinfer_python[cu13]==0.6.12\n"
)


def make_wheel(folder: Path, tampered: bool = False) -> Path:
    """A wheel of SOURCES with a RECORD; `tampered`: one file differs from it."""
    path = folder / "sglang-9.9.9-py3-none-any.whl"
    record = io.StringIO()
    for name, text in SOURCES.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        csv.writer(record).writerow((name, f"sha256={digest.rstrip('=')}", len(text)))
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in SOURCES.items():
            broken = tampered and name.endswith("limits.py")
            zipped.writestr(zipfile.ZipInfo(name, (2026, 6, 26, 1, 2, 4)), text + "#" * broken)
        info = "sglang-9.9.9.dist-info"
        zipped.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record.getvalue())
        for name, text in (
            ("METADATA", METADATA),
            ("WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any"),
        ):
            zipped.writestr(zipfile.ZipInfo(f"{info}/{name}"), text)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and pip kept off the network."""
    monkeypatch.setenv("EAGERBUF_UPSTREAM", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path / "cache"


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip takes seconds: the wheel is made where pip would put it."""
    monkeypatch.setattr(wheels, "_download", lambda _, target: make_wheel(target))


@pytest.fixture
def toy(request: pytest.FixtureRequest) -> Room:
    request.getfixturevalue("cache")
    request.getfixturevalue("without_pip")
    wheels.fill([Wheel("sglang", "9.9.9")], lambda _: None)
    return Room(Wheel("sglang", "9.9.9"), {})


def test_filling_downloads_checks_and_says_what_it_does(cache: Path, tmp_path: Path) -> None:
    archive = make_wheel(tmp_path)
    lines: list[str] = []
    wheels.fill([TOY], lines.append)
    assert [line.split(": ")[0] for line in lines] == ["[1/1] sglang 9.9.9"] * 2
    held = Wheel("sglang", "9.9.9").manifest
    assert held["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (held["newest_file"], held["flashinfer"]) == ("2026-06-26", "0.6.12")
    assert set(held["files"]) == {name for name in SOURCES if "other" not in name}
    assert sorted(p.name for p in cache.iterdir()) == ["sglang-9.9.9"]
    archive.unlink()
    wheels.fill([TOY], lines.append)
    assert len(lines) == 3, "a second run neither downloads nor says so"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("step", ["_extract", "_unpack", "_record"])
def test_filling_that_fails_half_way_leaves_what_was_there(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A disk that is full at the second file: the cache still holds the whole wheel of before."""
    done, real = [], getattr(wheels, step)

    def full(*arguments: Any) -> Any:
        found = real(*arguments)
        done.append(step)
        if step != "_extract" or len(done) == 2:
            raise OSError(28, "No space left on device")
        return found

    before = {path: path.read_bytes() for path in TOY.folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(wheels, step, full)
    with pytest.raises(OSError, match="No space"):
        wheels.fetch(TOY)
    assert before == {path: path.read_bytes() for path in TOY.folder.rglob("*") if path.is_file()}
    assert [path.name for path in TOY.folder.parent.iterdir()] == [TOY.name]


def test_a_wheel_that_does_not_match_its_record_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_download", lambda _, target: make_wheel(target, tampered=True))
    with pytest.raises(WheelMissing, match=r"limits\.py does not match the wheel's RECORD"):
        wheels.fill([TOY], lambda _: None)
    assert not list(cache.iterdir())


def test_a_wheel_that_is_not_the_listed_file_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_download", lambda _, target: make_wheel(target))
    monkeypatch.setattr(wheels, "known_digests", lambda: {("sglang", "9.9.9"): "0" * 64})
    with pytest.raises(WheelMissing, match=r"whl is not the file that wheels\.csv lists"):
        wheels.fill([TOY], lambda _: None)
    assert not list(cache.iterdir())


def test_every_wheel_that_is_compared_with_is_listed_by_hash() -> None:
    listed = wheels.known_digests()
    compared = [*map(wheels.sglang, wheels.known_releases()), wheels.FLASHINFER]
    assert {(wheel.package, wheel.version) for wheel in compared} <= set(listed)
    assert all(len(digest) == 64 for digest in listed.values())


def test_a_source_changed_in_the_cache_is_refused(toy: Room) -> None:
    (toy.wheel.folder / "sglang/srt/moved.py").write_text("FACTOR = 6\n")
    with pytest.raises(WheelMissing, match=r"moved\.py was changed in the cache"):
        Wheel("sglang", "9.9.9").read("sglang/srt/moved.py")


def test_without_network_and_cache_the_line_names_the_wheel(cache: Path) -> None:
    with pytest.raises(WheelMissing, match=r"sglang 9\.9\.9 could not be downloaded: ERROR: "):
        wheels.fill([TOY], lambda _: None)
    with pytest.raises(WheelMissing, match="run `make upstream`"):
        _ = Wheel("sglang", "9.9.8").manifest
    assert not list(cache.iterdir())


def test_missing_wheels_skip_and_in_ci_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="required in CI: sglang 0 is gone"):
        require("sglang 0 is gone")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="are missing: sglang 0 is gone"):
        require("sglang 0 is gone")
    require("")


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "outcome"), [("", " skipped in "), ("true", " errors in ")])
@pytest.mark.usefixtures("cache")
def test_a_run_without_wheels_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setenv("CI", ci)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    command += ["tests/upstream/test_matrix.py", "tests/upstream/test_edges.py"]
    done = subprocess.run(command, cwd=wheels.ROOT, capture_output=True, text=True, check=False)
    assert outcome in done.stdout
    assert done.returncode == (1 if ci else 0)
    reason = f"sglang {wheels.NEEDED[0]} could not be downloaded: ERROR: "
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert len(skipped) == (0 if ci else 1)
    assert reason in done.stdout


def test_a_piece_finds_its_names_in_its_file_its_imports_and_star_imports(toy: Room) -> None:
    assert toy.piece("scaled", "sglang/srt/rules.py")(3) == 30
    assert toy.piece("scaled", "sglang/srt/rules.py")(1000) == 100
    sizer = toy.piece("Sizer", "sglang/srt/none.py", "sglang/srt/rules.py")
    assert sizer().size(4) == 41
    size = toy.piece("Sizer.size", "sglang/srt/rules.py")
    assert size(sizer(), 4) == 41


def test_a_stub_replaces_its_name_wherever_it_is_used(toy: Room) -> None:
    room = Room(toy.wheel, {"FACTOR": 7, "check": lambda _: None, "LIMIT": 5})
    assert room.piece("Sizer", "sglang/srt/rules.py")().size(400) == 14 * 400 + 1
    assert room.piece("scaled", "sglang/srt/rules.py")(3) == 5


def test_a_class_can_be_taken_without_the_methods_that_need_a_gpu(toy: Room) -> None:
    sizer = toy.piece("Sizer", "sglang/srt/rules.py", only=("size",))
    assert not hasattr(sizer, "on_gpu")
    with pytest.raises(MissingPiece, match="class Sizer has no shrink"):
        toy.piece("Sizer", "sglang/srt/rules.py", only=("shrink",))


def test_an_error_in_a_piece_points_into_the_release(toy: Room) -> None:
    with pytest.raises(ValueError, match="101 over 100") as caught:
        toy.piece("Sizer", "sglang/srt/rules.py")().size(101)
    frames = [
        (f.filename, f.lineno, f.line) for f in traceback.extract_tb(caught.value.__traceback__)
    ]
    assert frames[-2:] == [
        ("sglang-9.9.9/sglang/srt/rules.py", 11, "check(tokens)"),
        ("sglang-9.9.9/sglang/srt/limits.py", 4, "raise ValueError(f'{tokens} over {LIMIT}')"),
    ]


def test_a_name_that_nothing_binds_is_a_name_error_in_the_release(toy: Room) -> None:
    with pytest.raises(NameError, match="cuda"):
        toy.piece("Sizer", "sglang/srt/rules.py")().on_gpu()


def test_a_moved_piece_is_named_with_where_it_was_sought_and_where_it_is(toy: Room) -> None:
    with pytest.raises(MissingPiece) as caught:
        toy.piece("check", "sglang/srt/rules.py", "sglang/srt/gone.py")
    assert str(caught.value) == (
        "sglang 9.9.9: no check in sglang/srt/rules.py, sglang/srt/gone.py (no such file); "
        "the name is now defined in sglang/srt/limits.py"
    )
    with pytest.raises(MissingPiece, match="no file defines it"):
        toy.piece("Sizer.shrink", "sglang/srt/rules.py")


def test_a_report_on_an_unknown_release_says_what_it_could_not_find(
    toy: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    assert toy.wheel.cached
    assert main(["report", "9.9.9"]) == 1
    shown = capsys.readouterr().out
    assert "not in data/releases.csv; the line to add:\n9.9.9,2026-06-26,no,," in shown
    assert "cannot tell: MissingPiece: sglang 9.9.9: no SchedulerPPMixin." in shown
    assert "cannot run: MissingPiece: sglang 9.9.9: no ChunkSizePredictor in " in shown
