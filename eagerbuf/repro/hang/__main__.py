"""`python -m eagerbuf.repro.hang SETTINGS`: one rank of `run_hang`, which starts it."""

from __future__ import annotations

import json
import sys

from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.supervised import Assignment, supervised


def main(argument: str) -> None:
    """Be a rank; `argument` holds the fields of Settings as a JSON object."""
    settings = Settings(**json.loads(argument))

    def run(assignment: Assignment) -> None:
        from eagerbuf.repro.hang.run_rank import run_rank  # loads torch, which takes seconds

        run_rank(settings, assignment)

    supervised(run)


if __name__ == "__main__":
    main(sys.argv[1])
