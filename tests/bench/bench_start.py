"""What a start costs: the import, and one check, over Python alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from tests.bench.conftest import Measure, Rival

LAUNCH = "python -m sglang.launch_server --chunked-prefill-size 8192 --tp-size 8"
COMPILED = tempfile.TemporaryDirectory(prefix="eagerbuf-bench-")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPYCACHEPREFIX": COMPILED.name,
}
COMMANDS = {
    "python": ["-c", "pass"],
    "import": ["-c", "import eagerbuf"],
    "check": ["-m", "eagerbuf", "check", "--command", LAUNCH],
}


@pytest.mark.parametrize("case", ["import", "check"])
def test_start(measure: Measure, case: str) -> None:
    done = measure(
        lambda: start(case),
        {"python": Rival(lambda _: start("python"))},
        of="start",
        case=case,
        work=1,
        times=1,
        rounds=25,
    )
    assert done.returncode in (0, 3)
    assert not done.stderr


def start(what: str) -> subprocess.CompletedProcess[bytes]:
    """With compiled modules at hand, as in an installation: the warm-up round writes them."""
    return subprocess.run([sys.executable, *COMMANDS[what]], capture_output=True, env=ENVIRONMENT)
