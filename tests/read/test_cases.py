"""The cases of tests/data/cases.jsonl through read_config: values, unknown fields, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagerbuf import check
from eagerbuf.read import Reading, read_servers
from eagerbuf.releases import newest_release

CASES = [
    json.loads(line)
    for name in ("cases.jsonl", "cases2.jsonl")
    for line in (Path(__file__).parents[1] / "data" / name).read_text("utf-8").splitlines()
]
REFUSED = [case for case in CASES if case["expect"].get("error")]
READ = [case for case in CASES if not case["expect"].get("error")]


def overrides(args: list[str]) -> dict[str, int]:
    """["--max-running-requests", "256"] -> {"max_running_requests": 256}."""
    pairs = zip(args[::2], args[1::2], strict=True)
    return {flag.removeprefix("--").replace("-", "_"): int(value) for flag, value in pairs}


def read(case: dict[str, Any]) -> Reading:
    """What the case's text says; of several servers the first."""
    return read_servers(case["text"], release=case["release"], **overrides(case["args"]))[0]


@pytest.mark.parametrize("case", READ, ids=lambda case: case["id"])
def test_values_are_what_the_case_expects(case: dict[str, Any]) -> None:
    reading = read(case)
    for name, value in case["expect"].get("config", {}).items():
        derived = name not in reading.values
        got = getattr(reading.config, name) if derived else reading.values[name]
        assert got == value, name
    assert set(case["expect"].get("unknown", ())) <= set(reading.unknown)


@pytest.mark.parametrize("case", READ, ids=lambda case: case["id"])
def test_every_known_value_tells_where_it_came_from(case: dict[str, Any]) -> None:
    reading = read(case)
    known = {name for name, value in reading.values.items() if value is not None}
    assert known <= set(reading.sources)
    assert set(reading.sources.values()) <= {"flag", "log", "default", "option"}
    assert not set(reading.unknown) & set(reading.sources)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_refused_text_says_why_in_one_line(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refusal:
        check(read(case))
    assert all(word in str(refusal.value) for word in case["expect"].get("mentions", ()))


def test_an_option_is_marked_as_one() -> None:
    case = next(case for case in CASES if case["args"])
    reading = read(case)
    assert reading.values["max_running_requests"] == 256
    assert reading.sources["max_running_requests"] == "option"


def test_a_reading_without_a_release_leaves_it_to_the_newest_known() -> None:
    case = next(case for case in CASES if case["id"] == "default-release")
    assert read(case).release is None
    assert check(read(case)).release == newest_release().release
