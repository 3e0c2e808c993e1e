"""What is recorded of the releases: equal to data/releases.csv, and enough without any wheel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagerbuf.sizing import RULES
from tests.upstream import evidence, facts, startup, wheels
from tests.upstream.test_startup import is_hang, is_profiled, is_told
from tests.upstream.wheels import WheelMissing

NEEDS_WHEELS = False


@pytest.fixture
def no_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERBUF_UPSTREAM", str(tmp_path))


def test_the_recorded_matrix_equals_the_table_of_releases() -> None:
    table = {row["release"]: row for row in wheels.releases()}
    rows = evidence.recorded("matrix").to_dict("records")
    assert [row["release"] for row in rows] == wheels.known_releases()
    for row in rows:
        assert {name: row[name] for name in facts.COLUMNS} == table[row["release"]]


def test_the_recorded_start_ups_follow_from_the_two_faults() -> None:
    rows = evidence.recorded("start_ups").to_dict("records")
    table = {row["release"]: row for row in wheels.releases()}
    own = [v for v in wheels.known_releases() if table[v]["eager_runner"] == "yes"]
    assert [row["release"] for row in rows] == [v for v in own for _ in startup.SIZES]
    for row in rows:
        told = table[row["release"]]["profile_failure_broadcast"] == "yes"
        small = row["size"] == "old"
        assert row["outcome"] == ("hang" if small and not told else "completed")
        assert row["ranks_with_dynamic_chunking"] == ("0" if small else "2")
        assert row["probes"] == ("0" if small else "128")
        assert ("a (512) must match the size of tensor b (640)" in row["failure"]) == small


@pytest.mark.usefixtures("no_wheels")
def test_without_wheels_everything_is_what_was_recorded() -> None:
    assert "recorded" in evidence.sources()
    assert evidence.matrix()[list(facts.COLUMNS)].equals(
        evidence.recorded("matrix")[list(facts.COLUMNS)]
    )
    assert (evidence.comparisons().differ == 0).all()
    assert evidence.differences().shape == (8, 6)
    is_hang(evidence.start_up("0.5.14", "old"), "0.5.14")
    is_profiled(evidence.start_up("0.5.14", "released"))
    is_told(evidence.start_up("0.5.23", "old"))


@pytest.mark.usefixtures("no_wheels")
def test_a_recorded_run_says_that_it_is_one() -> None:
    for name in evidence.RUNS:
        report = evidence.start_up(*name.split())
        assert "recorded" in report.setting
        assert name.split()[0] in report.setting


@pytest.mark.usefixtures("no_wheels")
def test_nothing_starts_without_its_wheel() -> None:
    for size in startup.SIZES:
        with pytest.raises(WheelMissing, match=r"sglang 0\.5\.14 .*make upstream"):
            startup.run_released("0.5.14", size)


def test_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"size='small'.*old, released"):
        startup.run_released("0.5.14", "small")
    with pytest.raises(ValueError, match=r"release='0\.5\.13'.*no eager runner"):
        startup.run_released("0.5.13")
    with pytest.raises(ValueError, match="not known here"):
        startup.run_released("9.9.9")


def test_the_records_hold_no_path_of_a_machine() -> None:
    for path in evidence.FOLDER.iterdir():
        text = path.read_text("utf-8")
        assert '"/' not in text.replace('\\"', '"'), path.name
    runs = json.loads((evidence.FOLDER / "runs.json").read_text("utf-8"))
    assert list(runs) == list(evidence.RUNS)
    assert all(run["settings"]["rule"] in RULES for run in runs.values())
