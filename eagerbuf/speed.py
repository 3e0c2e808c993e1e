"""What `make bench` measured, held against the goals of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from eagerbuf._data import data_path

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("of", "case", "side", "work", "seconds", "processor", "python", "torch", "date")


class Goal(NamedTuple):
    """What is to hold for rows `of`: seconds of ours, or a ratio to the other `side`.

    kind: "seconds" (ours, at most `limit`), "faster" (side / ours, at least `limit`), "over" (ours
    less the side, seconds, at most `limit`).
    """

    of: str
    case: str | None  # None: every case that has the side
    kind: str
    limit: float
    side: str = "released"


GOALS = (
    Goal("admit", None, "faster", 10),
    Goal("size_many", None, "seconds", 0.2),
    Goal("size_many", None, "faster", 30),
    Goal("replay", "19,366 requests", "seconds", 5),
    Goal("load", None, "faster", 1),
    Goal("start", "import", "over", 0.1, "python"),
    Goal("start", "check", "over", 0.08, "python"),
)
_SAYS = {
    "seconds": "at most {limit:g} s",
    "faster": "at least {limit:g} x as fast as {side}",
    "over": "at most {limit:g} s over {side} alone",
}


def recorded() -> DataFrame:
    """The record that ships with the package, one row a case and side (data/bench.csv).

    Columns: of, case, side ("ours", "released", …), work (requests, configurations or tokens),
    seconds (of the processor, for all of that work), processor, python, torch, date.
    """
    import pandas as pd

    return pd.read_csv(data_path("bench.csv"), dtype={"torch": str, "python": str, "date": str})


def goals(rows: DataFrame) -> DataFrame:
    """Each goal against the rows: what, goal, ours_s, other_s, ratio (other / ours), met (bool)."""
    import pandas as pd

    sides = rows.pivot_table(index=["of", "case"], columns="side", values="seconds", sort=False)
    found = [
        _held(goal, f"{goal.of}, {case}", dict(row))
        for goal in GOALS
        for (of, case), row in sides.iterrows()
        if _applies(goal, of, case, row)
    ]
    return pd.DataFrame(found)


def _applies(goal: Goal, of: str, case: str, row: Any) -> bool:
    if of != goal.of or goal.case not in (None, case) or case == "growth":
        return False
    return goal.kind == "seconds" or row[goal.side] == row[goal.side]


def _held(goal: Goal, what: str, seconds: dict[str, float]) -> dict[str, Any]:
    ours, other = seconds["ours"], seconds.get(goal.side, float("nan"))
    if goal.kind == "seconds":
        other = float("nan")
    met = {
        "seconds": ours <= goal.limit,
        "faster": other >= goal.limit * ours,
        "over": ours - other <= goal.limit,
    }[goal.kind]
    says = _SAYS[goal.kind].format(limit=goal.limit, side=goal.side)
    return {
        "what": what,
        "goal": says,
        "ours_s": ours,
        "other_s": other,
        "ratio": other / ours,
        "met": bool(met),
    }
