"""Zero differences between our formulas and those of every wanted release."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.upstream import admission, dynamic, padding, sizing, wheels
from tests.upstream.compare import RAISES, Comparison, cases_for, run
from tests.upstream.draw import cases
from tests.upstream.formulas import DYNAMIC, EAGER, FLASHINFER, formulas
from tests.upstream.wheels import Wheel

FIRST = wheels.sglang(wheels.NEEDED[0])
PAIRS = [(w, c) for w in wheels.wanted() for c in (*EAGER, *DYNAMIC, *FLASHINFER)]
FITTING = [
    (wheel, comparison)
    for wheel, comparison in PAIRS
    if (wheel.package == "sglang") == (comparison not in FLASHINFER)
]


def _name(value: Wheel | Comparison) -> str:
    return str(value) if isinstance(value, Wheel) else value.name.split(":")[0].split(",")[0]


@pytest.mark.parametrize(("wheel", "comparison"), FITTING, ids=_name)
def test_no_difference(wheel: Wheel, comparison: Comparison) -> None:
    if comparison not in formulas(wheel):
        assert comparison in EAGER, "only the eager runner is younger than a release"
        return
    outcome = run(comparison, wheel, cases_for(comparison, wheel))
    assert outcome.differ == 0, str(outcome)


def test_each_formula_gets_all_cases_on_the_release_we_model() -> None:
    assert cases() >= 20_000
    full = (*EAGER, dynamic.PREDICTOR)
    assert all(cases_for(comparison, FIRST) == cases() for comparison in full)
    forms = [cases_for(dynamic.PROBES, wheels.sglang(v)) for v in (FIRST.version, "0.5.23")]
    assert sum(forms) == cases()
    assert all(cases_for(sizing.SIZING, wheels.sglang(v)) == cases() for v in wheels.NEEDED)
    assert cases_for(FLASHINFER[0], wheels.FLASHINFER) == cases()


@pytest.mark.parametrize("wrong", ["pr28386", "pr28894"])
def test_another_rule_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison has teeth: 0.5.14 does not size as the rules before and after it."""
    monkeypatch.setattr(sizing, "rule_of", lambda _: wrong)
    outcome = run(sizing.SIZING, FIRST, 500)
    assert outcome.differ > 100
    assert len(outcome.examples) == 3


def test_the_cases_reach_every_branch() -> None:
    """A comparison proves nothing about answers that no case asks for."""
    _, fits = dynamic.PREDICTOR.cases(FIRST, 0, 2_000)
    kinds = Counter(fit if fit == RAISES else type(fit[3]).__name__ for fit in fits)
    assert min(kinds[RAISES], kinds["int"], kinds["NoneType"]) > 100
    steps, padded = padding.PADDING.cases(FIRST, 0, 2_000)
    modes = Counter((step.is_extend, p.mode) for step, p in zip(steps, padded, strict=True))
    assert len(modes) == 4
    assert min(modes.values()) > 50
    queues, taken = admission.ADMISSION.cases(FIRST, 0, 2_000)
    assert Counter(len(tokens) for tokens in taken).keys() >= set(range(9))
    assert sum(q.carried > 0 and q.mixed_decode > 0 and q.page_size > 1 for q in queues) > 50
    rows, _ = sizing.SETTINGS.cases(FIRST, 0, 2_000)
    assert len({(r["enable_dp_attention"], r["cp_zigzag"], r["pp_size"] > 1) for r in rows}) == 8
