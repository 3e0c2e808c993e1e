"""make mutants: every mutant of the formulas against their tests; survivors need a reason.

Two passes: tests worked by hand and properties, then what survived against the released code.
Mutants that survivors.csv has a reason for count as survivors and are not tried.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from io import StringIO
from os import environ

from tests.mutants.mutate import ROOT, Mutant, mutants
from tests.mutants.run import preload, survives
from tests.upstream.wheels import NEEDED, sglang

GOAL = 0.95
REASONS = ROOT / "tests" / "mutants" / "survivors.csv"
REPORT = ROOT / "build" / "mutants.csv"
SIZES = tuple(
    f"tests/core/test_{name}.py"  # the quick ones first
    for name in (
        "arrays",
        "batch_sources",
        "edges",
        "sizing",
        "shapes",
        "config",
        "frames",
        "properties",
    )
)
REPLAY = tuple(
    f"tests/simulate/test_replay{kind}.py" for kind in ("_running", "", "_inputs", "_ahead", "_any")
)
TESTS: dict[str, Sequence[str]] = {
    "_arrays": SIZES,
    "config": SIZES,
    "_frames": SIZES,
    "sizing": SIZES,
    "shapes": SIZES,
    "predictor": ("tests/core/test_edges.py", "tests/core/test_predictor.py"),
    "admission": ("tests/core/test_admission.py", *REPLAY, "tests/core/test_properties.py"),
    "simulate/scheduler": REPLAY,
}
# what survives is tried against the released code too, where the wheels are
COMPARED = "tests/upstream/test_formulas.py"
RELEASED: dict[str, str] = {
    "predictor": "0.5.14 and (ChunkSizePredictor or probe)",
    "admission": "0.5.14 and PrefillAdder",
    "_arrays": "0.5.14 and eager",
    "config": "0.5.14 and eager",
    "sizing": "0.5.14 and eager",
}


@dataclass
class Tally:
    """How many mutants of a room were tried, and which survived."""

    tried: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    @property
    def killed(self) -> float:
        return 1 - len(self.survivors) / max(1, self.tried)


def of_room(room: str) -> list[Mutant]:
    """Every mutant of a room's files."""
    path = ROOT / "eagerbuf" / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return [mutant for file in files for mutant in mutants(file)]


def alive(found: Iterable[Mutant], tests: Sequence[str]) -> list[Mutant]:
    """Those that pass the tests; a fork for each, as many at once as there are cores."""
    chosen = list(found)
    with ThreadPoolExecutor(int(environ.get("EAGERBUF_WORKERS", "2"))) as pool:
        passed = pool.map(partial(_survives, tests=tests), chosen)
        return [mutant for mutant, passes in zip(chosen, passed, strict=True) if passes]


def _survives(mutant: Mutant, tests: Sequence[str]) -> bool:
    passes = survives(mutant, tests)
    print("survives " if passes else ".", end=f"{mutant}\n" if passes else "", flush=True)
    return passes


def tally(room: str, share: float) -> Tally:
    """Try a seeded share of a room's mutants, after its tests on the code as it is."""
    found = of_room(room)
    chosen = random.Random(room).sample(found, max(1, round(share * len(found))))
    tests = [
        *TESTS[room],
        "--deselect",
        "tests/core/test_config.py::test_public_names_are_all_there",
    ]
    print(f"\n{room}: {len(chosen)} of {len(found)} mutants", flush=True)
    if not survives(None, tests):
        sys.exit(f"mutants: the tests of {room} fail on the code as it is")
    excused = [mutant for mutant in chosen if key(mutant) in reasons()]
    left = alive((mutant for mutant in chosen if mutant not in excused), tests)
    if room in RELEASED and sglang(NEEDED[0]).cached:
        left = alive(left, [COMPARED, "-k", RELEASED[room]])
    return Tally(len(chosen), [*excused, *left])


@cache
def reasons() -> dict[tuple[str, str, str], str]:
    """Why a survivor may live, by (file, the line, the changed line)."""
    with REASONS.open(encoding="utf-8", newline="") as file:
        return {
            (row["file"], row["was"], row["now"]): row["reason"] for row in csv.DictReader(file)
        }


def key(mutant: Mutant) -> tuple[str, str, str]:
    _, was, now = mutant.change
    return str(mutant.path.relative_to(ROOT)), was, now


def report(tallies: dict[str, Tally]) -> int:
    """Print the share killed in each room and every survivor without a reason; 1 if any is."""
    from notebooks.site.outputs import write_whole  # only now: the forks load a room of their own

    known = reasons()
    survivors = [mutant for one in tallies.values() for mutant in one.survivors]
    REPORT.parent.mkdir(exist_ok=True)
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("file", "was", "now", "reason"))
    rows.writerows((*key(mutant), known.get(key(mutant), "")) for mutant in survivors)
    write_whole(REPORT, text.getvalue())
    for room, one in tallies.items():
        print(f"{room:10} {one.tried:5} mutants, {one.killed:.1%} killed")
    unknown = [mutant for mutant in survivors if key(mutant) not in known]
    for mutant in unknown:
        print(f"no reason given: {mutant}")
    total = sum(one.tried for one in tallies.values())
    killed = 1 - len(survivors) / max(1, total)
    print(f"in all     {total:5} mutants, {killed:.1%} killed (goal {GOAL:.0%})")
    return int(bool(unknown) or killed < GOAL)


def main(arguments: Sequence[str]) -> int:
    """`python -m tests.mutants [room …] [share=0.1]`."""
    share = next((float(a[6:]) for a in arguments if a.startswith("share=")), 1.0)
    rooms = [a for a in arguments if not a.startswith("share=")] or list(TESTS)
    unknown = [room for room in rooms if room not in TESTS]
    if unknown:
        print(f"mutants: no room {unknown[0]!r}: give some of {', '.join(TESTS)}")
        return 2
    preload()
    return report({room: tally(room, share) for room in rooms})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
