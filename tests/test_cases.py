"""The cases of tests/data/cases.jsonl through read_config and check: verdicts, rules, findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagerbuf import check, read_config
from eagerbuf.releases import newest_release

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "cases.jsonl").read_text("utf-8").splitlines()
]
CHECKED = [case for case in CASES if not case["expect"].get("error")]
RULES = [(case, rule) for case in CHECKED for rule in case["expect"].get("rules", ())]


def report(case: dict[str, Any]) -> dict[str, Any]:
    args = case["args"]
    options = {
        flag.removeprefix("--").replace("-", "_"): int(value)
        for flag, value in zip(args[::2], args[1::2], strict=True)
    }
    reading = read_config(case["text"], release=case["release"], **options)
    return check(reading, release=case["release"]).to_dict()


def codes(findings: list[dict[str, Any]]) -> set[str]:
    return {finding["code"] for finding in findings}


def held(expected: dict[str, Any], got: dict[str, Any]) -> None:
    """Assert what a case expects of a verdict and its findings."""
    for name in ("verdict", "max_bs", "max_num_tokens", "release"):
        if name in expected:
            assert got[name] == expected[name], name
    assert set(expected.get("has", ())) <= codes(got["findings"])
    assert not set(expected.get("lacks", ())) & codes(got["findings"])


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case["id"])
def test_the_verdict_of_the_release_that_was_asked_for(case: dict[str, Any]) -> None:
    got = report(case)
    asked = {"release": case["release"] or newest_release().release}
    held({**case["expect"], **asked}, got)
    expected = case["expect"].get("config", {})
    assert {name: got["config"][name] for name in expected} == expected
    assert set(case["expect"].get("unknown", ())) <= set(got["unknown"])


@pytest.mark.parametrize(("case", "rule"), RULES, ids=[f"{c['id']}-{r}" for c, r in RULES])
def test_each_rule_against_the_shapes_of_that_release(case: dict[str, Any], rule: str) -> None:
    held(case["expect"]["rules"][rule], report(case)["rules"][rule])
