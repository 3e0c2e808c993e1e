"""`make upstream`: fill the cache of wheels, or report on one release, or print the matrix."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterator

from tests.upstream import facts, wheels
from tests.upstream.compare import Comparison, Outcome, run
from tests.upstream.formulas import formulas
from tests.upstream.wheels import Wheel

REPORT_CASES = 2_000


def main(arguments: list[str] | None = None) -> int:
    """0 done and no difference, 1 a difference or something that could not be run, 2 no wheel."""
    options = _parse(arguments)
    if options.all:
        os.environ["EAGERBUF_UPSTREAM_ALL"] = "1"
    try:
        if options.action == "report":
            return report(wheels.sglang(options.release))
        wheels.fill(wheels.wanted(), _show)
        return matrix() if options.action == "matrix" else 0
    except wheels.WheelMissing as missing:
        _show(str(missing))
        return 2


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    parser.add_argument("action", nargs="?", default="fill", choices=("fill", "report", "matrix"))
    parser.add_argument("release", nargs="?", help="for report: a release of SGLang, as 0.5.14")
    parser.add_argument("--all", action="store_true", help="all releases, and FlashInfer 0.7.2")
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
        print(f"\nnot in data/releases.csv; the line to add:\n{_line(found)}")
    outcomes = [_compared(comparison, wheel) for comparison in formulas(wheel)]
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


def _fact(wheel: Wheel, name: str) -> str:
    """A fact of a release that may have moved what it is read from."""
    try:
        return facts.fact(wheel, name)
    except Exception as error:
        return f"cannot tell: {type(error).__name__}: {error}"


def _compared(comparison: Comparison, wheel: Wheel) -> Outcome:
    _show(f"comparing {comparison.name} ...")
    try:
        return run(comparison, wheel, REPORT_CASES)
    except Exception as error:
        text = f"cannot run: {type(error).__name__}: {error}"
        return Outcome(comparison.name, 0, 1, (text,))


def _rows(outcomes: list[Outcome]) -> Iterator[tuple[str, ...]]:
    for outcome in outcomes:
        note = "; ".join(filter(None, (outcome.note, *outcome.examples)))
        yield outcome.name, str(outcome.cases), str(outcome.differ), note


def _line(found: dict[str, str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(found[name] for name in facts.COLUMNS)
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
