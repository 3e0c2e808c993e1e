"""The cases of tests/data/cases.jsonl through read_config and check: verdicts, rules, findings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eagerbuf import check, read_servers

STORED = [Path(__file__).parents[1] / "data" / f"{name}.jsonl" for name in ("cases", "cases2")]
KEYS = {"id", "kind", "release", "args", "text", "expect", "source"}
EXPECTED = {"release", "verdict", "config", "unknown", "has", "lacks", "rules", "error", "mentions"}
OF_A_RULE = {"verdict", "max_bs", "max_num_tokens", "has", "lacks"}


def cases_of(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        case: dict[str, Any] = json.loads(line)
        lacks = ", ".join(sorted(KEYS - set(case)))
        if lacks:
            raise ValueError(f"{path.name}, line {number}: case {case.get('id')!r} lacks {lacks}")
        yield case


CASES = [case for path in STORED for case in cases_of(path)]
CHECKED = [case for case in CASES if not case["expect"].get("error")]
RULES = [(case, rule) for case in CHECKED for rule in case["expect"].get("rules", ())]


def misspelt(case: dict[str, Any]) -> str:
    """One line about keys that no test looks at, or nothing."""
    rules = case["expect"].get("rules", {})
    unknown = set(case["expect"]) - EXPECTED
    unknown |= {key for expected in rules.values() for key in set(expected) - OF_A_RULE}
    if not unknown:
        return ""
    names, known, of_a_rule = (", ".join(sorted(keys)) for keys in (unknown, EXPECTED, OF_A_RULE))
    return f"case {case['id']}: expect has {names}; known are {known}, and of a rule {of_a_rule}"


def report(case: dict[str, Any]) -> dict[str, Any]:
    args = case["args"]
    options = {
        flag.removeprefix("--").replace("-", "_"): int(value)
        for flag, value in zip(args[::2], args[1::2], strict=True)
    }
    readings = read_servers(case["text"], release=case["release"], **options)
    return check(readings, release=case["release"]).to_dict()


def codes(findings: list[dict[str, Any]]) -> set[str]:
    return {finding["code"] for finding in findings}


def held(expected: dict[str, Any], got: dict[str, Any]) -> None:
    """Assert what a case expects of a verdict and its findings."""
    for name in ("verdict", "max_bs", "max_num_tokens", "release"):
        if name in expected:
            assert got[name] == expected[name], name
    assert set(expected.get("has", ())) <= codes(got["findings"])
    assert not set(expected.get("lacks", ())) & codes(got["findings"])


def test_every_expectation_is_one_that_is_looked_at() -> None:
    assert not [line for case in CASES if (line := misspelt(case))]


@pytest.mark.parametrize("expect", [{"hass": []}, {"rules": {"tight": {"max_bss": 1}}}])
def test_a_misspelt_expectation_is_named(expect: dict[str, Any]) -> None:
    line = misspelt({"id": "x", "expect": {"verdict": "fits", **expect}})
    assert line.startswith(f"case x: expect has {'hass' if 'hass' in expect else 'max_bss'}; known")


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case["id"])
def test_the_verdict_of_the_release_that_was_asked_for(case: dict[str, Any]) -> None:
    got = report(case)
    held({**case["expect"], **({"release": case["release"]} if case["release"] else {})}, got)
    expected = case["expect"].get("config", {})
    assert {name: got["config"][name] for name in expected} == expected
    assert set(case["expect"].get("unknown", ())) <= set(got["unknown"])


@pytest.mark.parametrize(("case", "rule"), RULES, ids=[f"{c['id']}-{r}" for c, r in RULES])
def test_each_rule_against_the_shapes_of_that_release(case: dict[str, Any], rule: str) -> None:
    held(case["expect"]["rules"][rule], report(case)["rules"][rule])
