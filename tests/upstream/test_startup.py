"""Released start-up code run by real ranks: into the hang, past it, and what was recorded of it.

About 15 s on two quiet cores, two minutes with the slow ones.
"""

from __future__ import annotations

import re

import psutil
import pytest

from eagerbuf.repro.hang import HangReport
from tests.upstream import evidence, facts, wheels
from tests.upstream.dynamic import MIXIN, SIZER
from tests.upstream.engine import SRT
from tests.upstream.startup import released_frames, run_released

OVERFLOW = "The size of tensor a (512) must match the size of tensor b (640)"
SWALLOWING = ("0.5.15.post1", "0.5.19")
FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<name>\w+)')


def frames(report: HangReport, rank: int) -> list[tuple[str, str]]:
    """(path, function) of a rank's stack, innermost first."""
    found = FRAME.finditer(report.stacks[rank])
    return [(frame["path"], frame["name"]) for frame in found]


def nothing_is_left() -> bool:
    return not psutil.Process().children(recursive=True)


def is_hang(report: HangReport, release: str) -> None:
    """Rank 0 went on into its event loop, the others wait in the broadcast of the samples."""
    assert report.outcome == "hang"
    assert report.failure is not None
    assert OVERFLOW in report.failure
    loop = frames(report, 0)
    assert loop[0] == (f"sglang-{release}/{MIXIN}", "_pp_commit_comm_work")
    assert (f"sglang-{release}/{MIXIN}", "event_loop_pp") in loop
    waits = [
        (f"sglang-{release}/{SRT}/distributed/parallel_state.py", "broadcast_object_list"),
        (f"sglang-{release}/{MIXIN}", "profile_and_init_predictor"),
        (f"sglang-{release}/{SRT}/managers/scheduler.py", "init_chunked_prefill"),
    ]
    for rank in range(1, report.settings.ranks):
        assert [frame for frame in frames(report, rank) if "sglang" in frame[0]] == waits
    assert not any('File "/' in stack for stack in report.stacks.values())
    assert report.model.enabled.tolist()[0] is False
    assert report.model.enabled.isna().sum() == report.settings.ranks - 1


def is_profiled(report: HangReport) -> None:
    assert (report.outcome, report.failure) == ("completed", None)
    assert report.samples.num_tokens.tolist()[:2] == [640, 635]
    assert len(report.samples) == 128
    assert report.model.enabled.all()
    assert (report.model.a > 0).all()
    assert (report.model[["a", "b", "c"]].nunique() == 1).all()


def is_told(report: HangReport) -> None:
    """The probe fails as ever, every rank hears of it and serves without dynamic chunks."""
    assert report.outcome == "completed"
    assert report.failure is not None
    assert OVERFLOW in report.failure
    assert report.model.enabled.tolist() == [False] * report.settings.ranks


def test_0_5_14_with_the_old_size_hangs_in_its_own_lines() -> None:
    report = run_released("0.5.14", "old", stall_s=2.0)
    is_hang(report, "0.5.14")
    waiting = report.ranks.blocked_in.iloc[1]
    assert "broadcast_object_list < profile_and_init_predictor < init_chunked_prefill" in waiting
    assert report.where["buffer_nbytes"] == 512 * 48 + 4 * 16
    assert "SGLang 0.5.14" in str(report)
    lines = wheels.sglang("0.5.14").read(MIXIN).splitlines()
    held = released_frames(report)
    assert "work.wait()" in lines[held.line.iloc[0] - 1]
    in_broadcast = held[held.function == "profile_and_init_predictor"]
    assert "broadcast_object_list" in lines[in_broadcast.line.iloc[0] - 1]
    assert nothing_is_left()


@pytest.mark.slow
def test_0_5_14_with_its_own_size_profiles() -> None:
    report = run_released("0.5.14", "released")
    is_profiled(report)
    assert report.where["buffer_nbytes"] == 16384 * 48 + 4 * 16
    assert nothing_is_left()


@pytest.mark.slow
def test_0_5_23_with_the_old_size_does_not_hang() -> None:
    is_told(run_released("0.5.23", "old"))
    assert wheels.sglang("0.5.23").manifest["files"][SIZER]  # the profiler that ran
    assert nothing_is_left()


@pytest.mark.slow
@pytest.mark.parametrize("release", SWALLOWING)
def test_releases_up_to_0_5_19_hang_with_the_old_size(release: str) -> None:
    is_hang(run_released(release, "old"), release)


@pytest.mark.slow
def test_four_ranks_hang_alike() -> None:
    is_hang(run_released("0.5.14", "old", ranks=4), "0.5.14")


@pytest.mark.slow
def test_0_5_20_is_the_first_that_tells() -> None:
    is_told(run_released("0.5.20", "old"))


@pytest.mark.slow
@pytest.mark.parametrize("release", [*SWALLOWING, "0.5.20", "0.5.23"])
def test_every_release_profiles_with_its_own_size(release: str) -> None:
    is_profiled(run_released(release, "released"))


@pytest.mark.parametrize(
    "wheel", [wheel for wheel in wheels.wanted() if wheel.package == "sglang"], ids=str
)
def test_the_recorded_row_is_what_the_wheel_says(wheel: wheels.Wheel) -> None:
    rows = evidence.recorded("matrix").to_dict("records")
    assert facts.row(wheel) == next(row for row in rows if row["release"] == wheel.version)
