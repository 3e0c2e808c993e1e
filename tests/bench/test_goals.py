"""The record of `make bench`: how it is read, how goals are held against it, and its figure."""

from io import StringIO

import pandas as pd
import pytest

from tests.bench import goals as speed
from tests.bench.figure import cost_of_work
from tests.bench.table import report

HEADER = ",".join(speed.COLUMNS)
WHERE = "CPU,3.11.7,2.13.0,2026-11-30"


def record(*lines):
    text = "\n".join([HEADER, *(f"{line},{WHERE}" for line in lines)]) + "\n"
    return pd.read_csv(StringIO(text))


def test_goals_by_hand():
    rows = record(
        "admit,a,ours,8,2e-06",
        "admit,a,released,8,2e-05",  # 10 x: just met
        "admit,b,ours,8,2e-06",
        "admit,b,released,8,1.9e-05",
        "size_many,tight,ours,1000000,0.2",
        "size_many,growth,ours,10,9.0",  # no goal
        'replay,"19,366 requests",ours,19366,5.1',
        'replay,"100 requests",ours,100,9.0',  # no goal
        "start,import,ours,1,0.11",
        "start,import,python,1,0.02",
        "start,check,ours,1,0.11",
        "start,check,python,1,0.02",
    )
    held = speed.goals(rows).set_index("what")
    assert held.met.to_dict() == {
        "admit, a": True,
        "admit, b": False,
        "size_many, tight": True,
        "replay, 19,366 requests": False,
        "start, import": True,  # 0.09 s over
        "start, check": False,
    }
    assert held.ratio["admit, a"] == pytest.approx(10)
    shown = speed.readable(speed.goals(rows))
    assert shown.loc[0].tolist() == [
        "admit, a",
        "at least 10 x as fast as released",
        "2 µs",
        "20 µs",
        "10.0",
        "yes",
    ]
    assert shown.met.tolist() == ["yes", "NO", "yes", "NO", "yes", "NO"]


def test_seconds_have_a_unit_down_to_nanoseconds():
    rows = record("load,a,ours,1,8e-07", "load,a,released,1,1e-09")
    assert speed.readable(speed.goals(rows))[["ours", "other"]].loc[0].tolist() == [
        "800 ns",
        "1 ns",
    ]
    alone = speed.readable(speed.goals(record("size_many,tight,ours,1000000,0.2")))
    assert alone[["ours", "other"]].loc[0].tolist() == ["200 ms", ""]


def test_the_stored_record_has_every_goal_and_one_machine():
    rows = speed.recorded()
    held = speed.goals(rows)
    for goal in speed.GOALS:
        assert held.what.str.startswith(goal.of).any()
    assert {f"load, {n} tokens" for n in ("1", "512", "8,192", "131,072")} <= set(held.what)
    assert len(rows[["processor", "python", "torch", "date"]].drop_duplicates()) == 1


def test_growth_is_by_work():
    line = speed.growth(speed.recorded(), "admit", "released")
    assert line.work.tolist() == [1, 10, 100, 1000]
    sizes = speed.growth(speed.recorded(), "size_many", "ours")
    assert sizes.work.is_monotonic_increasing
    assert sizes.work.iloc[-1] == 1_000_000
    assert len(cost_of_work(speed.recorded()).data) == 6


def test_the_page_holds_what_the_stored_record_says():
    page = (speed.RECORD.parent / "README.md").read_text(encoding="utf-8")
    assert report(speed.recorded()) in page
