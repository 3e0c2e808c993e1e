"""So many inputs through the readers in one process: `python -m tests.fuzz.batch COUNT SEED`."""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
import traceback
from itertools import islice

from tests.fuzz.guard import soon
from tests.fuzz.mutate import inputs
from tests.fuzz.targets import TARGETS, warm

SHARES = {"config": 0.6, "log": 0.15, "trace": 0.2, "command": 0.05}
WARM = 50  # inputs of a target that only load what is loaded when first used
MOST_FAILURES = 20  # of a target


def broken(target: str, data: bytes) -> str | None:
    """Why an input fails, if it does."""
    try:
        with soon():
            TARGETS[target](data)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return traceback.format_exc()
    return None


def run(count: int, seed: int) -> dict[str, list[dict[str, str]]]:
    """Failures by target, of `count` inputs in all."""
    warm({name: islice(inputs(name, -1), WARM) for name in TARGETS})
    failures: dict[str, list[dict[str, str]]] = {}
    for target, share in SHARES.items():
        failures[target] = []
        for data in islice(inputs(target, seed), round(count * share)):
            why = broken(target, data)
            if why:
                failures[target].append({"input": base64.b64encode(data).decode(), "why": why})
            if len(failures[target]) >= MOST_FAILURES:
                break
    return failures


def main() -> int:
    """Failures as JSON; nothing may appear in the folder, which is empty when it begins."""
    count, seed = map(int, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        failures = run(count, seed)
        made = os.listdir(folder)
        os.chdir("/")
    json.dump({"failures": failures, "made": made}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
