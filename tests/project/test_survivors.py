"""The mutants that may live: each is a line that still stands so, with a reason."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
with (ROOT / "tests" / "mutants" / "survivors.csv").open(encoding="utf-8", newline="") as _file:
    SURVIVORS = list(csv.DictReader(_file))


@pytest.mark.parametrize("file", sorted({row["file"] for row in SURVIVORS}))
def test_every_survivor_is_a_line_of_its_file(file):
    lines = {line.strip() for line in (ROOT / file).read_text(encoding="utf-8").splitlines()}
    gone = [row["was"] for row in SURVIVORS if row["file"] == file and row["was"] not in lines]
    assert gone == []


def test_every_survivor_has_a_reason_and_is_there_once():
    keys = [(row["file"], row["was"], row["now"]) for row in SURVIVORS]
    assert len(set(keys)) == len(keys)
    for row in SURVIVORS:
        assert row["now"] != row["was"]
        assert len(row["reason"].split()) >= 4, row
