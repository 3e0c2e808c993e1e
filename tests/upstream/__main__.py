"""`make upstream`: fill the cache of wheels, report on one release, print the matrix of all, or
compare every formula outside pytest."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterator

from tests.upstream import facts, wheels
from tests.upstream.compare import Comparison, Outcome, cases_for, run
from tests.upstream.formulas import formulas
from tests.upstream.wheels import Wheel

REPORT_CASES = 2_000


def main(arguments: list[str] | None = None) -> int:
    """0 done and no difference, 1 a difference or something that could not be run, 2 no wheel."""
    options = _parse(arguments)
    for flag, variable in (("all", "EAGERBUF_UPSTREAM_ALL"), ("million", "EAGERBUF_MILLION")):
        if getattr(options, flag):
            os.environ[variable] = "1"
    try:
        if options.action == "report":
            return report(wheels.sglang(options.release))
        wheels.fill(wheels.wanted(), _show)
        return {"fill": lambda: 0, "matrix": matrix, "compare": compare}[options.action]()
    except wheels.WheelMissing as missing:
        _show(str(missing))
        return 2


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    actions = ("fill", "report", "matrix", "compare")
    parser.add_argument("action", nargs="?", default="fill", choices=actions)
    parser.add_argument("release", nargs="?", help="for report: a release of SGLang, as 0.5.14")
    parser.add_argument("--all", action="store_true", help="all releases, and FlashInfer 0.7.2")
    parser.add_argument("--million", action="store_true", help="for compare: a million cases")
    options = parser.parse_args(arguments)
    if (options.action == "report") != bool(options.release):
        parser.error("report takes a release, the other actions take none")
    return options


def report(wheel: Wheel) -> int:
    """Print rule, faults and every difference from ours; the wheel is fetched if need be."""
    wheels.fill([wheel], _show)
    known = {row["release"]: row for row in wheels.releases()}.get(wheel.version)
    found = {name: _fact(wheel, name) for name in facts.COLUMNS | facts.FAULTS | facts.DRIFT}
    listed = known or dict.fromkeys(facts.COLUMNS, "")
    rows = [(name, value, listed.get(name, "")) for name, value in found.items()]
    print(_table(("fact", wheel.version, "data/releases.csv"), rows))
    if known is None:
        print(f"\nnot in data/releases.csv; the line to add:\n{_line(found, wheel)}")
    outcomes = [_compared(comparison, wheel, REPORT_CASES) for comparison in formulas(wheel)]
    print("\n" + _table(("formula", "cases", "differ", "note"), _rows(outcomes)))
    wrong = known is not None and any(found[name] != known[name] for name in known)
    return int(wrong or any(outcome.differ for outcome in outcomes))


def matrix() -> int:
    """Print what is cached of every release, and whether the table agrees."""
    rows = {row["release"]: row for row in wheels.releases()}
    cached = [wheel for wheel in map(wheels.sglang, wheels.known_releases()) if wheel.cached]
    found = [facts.row(wheel) for wheel in cached]
    print(_table(tuple(found[0]), [tuple(row.values()) for row in found]))
    wrong = [row["release"] for row in found if not rows[row["release"]].items() <= row.items()]
    print(f"differs from data/releases.csv: {', '.join(wrong) or 'nothing'}")
    return int(bool(wrong))


def compare() -> int:
    """Print every comparison of every wanted wheel as it ends."""
    differ = 0
    for wheel in wheels.wanted():
        for comparison in formulas(wheel):
            outcome = _compared(comparison, wheel, cases_for(comparison, wheel))
            print(f"{wheel}: {outcome}", flush=True)
            differ += outcome.differ
    return int(bool(differ))


def _fact(wheel: Wheel, name: str) -> str:
    """A fact of a release that may have moved what it is read from."""
    try:
        return facts.fact(wheel, name)
    except Exception as error:
        return f"cannot tell: {type(error).__name__}: {error}"


def _compared(comparison: Comparison, wheel: Wheel, count: int) -> Outcome:
    _show(f"comparing {comparison.name} on {count:,} cases ...")
    try:
        return run(comparison, wheel, count)
    except Exception as error:
        text = f"cannot run: {type(error).__name__}: {error}"
        return Outcome(comparison.name, 0, 1, (text,))


def _rows(outcomes: list[Outcome]) -> Iterator[tuple[str, ...]]:
    for outcome in outcomes:
        note = "; ".join(filter(None, (outcome.note, *outcome.examples)))
        yield outcome.name, str(outcome.cases), str(outcome.differ), note


def _line(found: dict[str, str], wheel: Wheel) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([*(found[name] for name in facts.COLUMNS), wheel.manifest["wheel"]])
    return text.getvalue().strip()


def _table(head: tuple[str, ...], rows: object) -> str:
    lines = [head, *rows]  # type: ignore[misc]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
