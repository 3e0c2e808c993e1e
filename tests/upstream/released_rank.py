"""`python -m tests.upstream.released_rank`: a rank of `startup.run_released`, guarded at once."""

from __future__ import annotations

import json
import sys

from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.supervised import Assignment, supervised
from eagerbuf.sizing import BufferSize
from tests.upstream.wheels import sglang


def main(settings: str, release: str, max_bs: str, max_num_tokens: str) -> None:
    """Be a rank; the first argument holds the fields of Settings as a JSON object."""
    size = BufferSize(int(max_bs), int(max_num_tokens))

    def run(assignment: Assignment) -> None:
        from tests.upstream.released_life import run_rank  # loads torch, which takes seconds

        run_rank(Settings(**json.loads(settings)), sglang(release), size, assignment)

    supervised(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
