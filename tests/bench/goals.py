"""What `make bench` measured, held against the goals of this project."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

RECORD = Path(__file__).with_name("recorded.csv")
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


def recorded() -> pd.DataFrame:
    """A run of `make bench`, one row a case and side.

    Columns: of, case, side ("ours", "released", …), work (requests, configurations or tokens),
    seconds (of the processor, for all of that work), processor, python, torch, date.
    """
    return pd.read_csv(RECORD)


def goals(measured: pd.DataFrame) -> pd.DataFrame:
    """Each goal against the rows: what, goal, ours_s, other_s, ratio (other / ours), met (bool)."""
    sides = measured.pivot_table(index=["of", "case"], columns="side", values="seconds", sort=False)
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
    other = row.get(goal.side, float("nan"))
    return goal.kind == "seconds" or other == other


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


def readable(held: pd.DataFrame) -> pd.DataFrame:
    """`goals` as text: seconds with a unit, the ratio with one digit, met as yes or NO."""
    shown = held.assign(met=held.met.map({True: "yes", False: "NO"}))
    shown["ratio"] = ["" if ratio != ratio else f"{ratio:.1f}" for ratio in held.ratio]
    for name in ("ours", "other"):
        shown[f"{name}_s"] = [_with_unit(seconds) for seconds in held[f"{name}_s"]]
    return shown.rename(columns={"ours_s": "ours", "other_s": "other"})


def _with_unit(seconds: float) -> str:
    if seconds != seconds:
        return ""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, size = next((each for each in units if seconds >= each[1]), ("ns", 1e-9))
    return f"{seconds / size:.3g} {unit}"


def growth(measured: pd.DataFrame, of: str, side: str) -> pd.DataFrame:
    """How the cost of `of` grows: work and seconds of a side, by work.

    `admit` by the requests it admits, where all that wait are admitted.
    """
    chosen = measured[(measured.of == of) & (measured.side == side)]
    if of == "admit":
        chosen = chosen[chosen.case.str.endswith("waiting and admitted")]
    if of == "size_many":
        chosen = chosen[chosen.case.isin(("growth", "pr28677"))]
    return chosen.sort_values("work")[["work", "seconds"]]
