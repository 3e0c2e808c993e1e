"""Fills the cache of wheels before the first test that needs one; without wheels these tests are
skipped with one line, or fail where CI=true."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator

import pytest

from tests.upstream import wheels

MISSING = "released wheels are missing"


@pytest.fixture(scope="session")
def missing_wheels(request: pytest.FixtureRequest) -> str:
    """Why wheels are missing, after one attempt to get them; "" if all are there."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    if all(wheel.cached for wheel in wheels.wanted()):
        return ""
    with shown:
        try:
            wheels.fill(wheels.wanted(), lambda line: print(line, file=sys.stderr, flush=True))
        except wheels.WheelMissing as missing:
            return f"{missing} (`make upstream` fills the cache)"
    return ""


@pytest.fixture(autouse=True)
def released(request: pytest.FixtureRequest) -> None:
    """Every test here needs the wheels, but for modules that set NEEDS_WHEELS = False."""
    if getattr(request.module, "NEEDS_WHEELS", True):
        require(request.getfixturevalue("missing_wheels"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report every such skip at this file, so that pytest folds them all into one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]:
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


def require(missing: str) -> None:
    if missing and os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"released wheels are required in CI: {missing}", pytrace=False)
    if missing:
        pytest.skip(f"{MISSING}: {missing}")
