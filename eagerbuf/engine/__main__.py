"""`python -m eagerbuf.engine`: run a released SGLang on this machine and say how it ended."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from eagerbuf.engine.run import FLAGS, run_engine

STATUS = {"completed": 0, "hang": 1, "crashed": 1, "overtime": 4}
BAD_INPUT = 2  # or not set up; what argparse exits with too


def main(argv: Sequence[str] | None = None) -> int:
    """0 completed, 1 hang or crashed, 2 bad input or not set up, 4 over the time limit."""
    own, flags = _split(sys.argv[1:] if argv is None else list(argv))
    options = vars(_parser().parse_args(own))
    as_json, requests = options.pop("json"), options.pop("requests")
    try:
        report = run_engine(flags=flags, requests=_requests(requests), **options)
    except (ValueError, OSError) as error:
        print(f"eagerbuf.engine: {error}", file=sys.stderr)
        return BAD_INPUT
    print(json.dumps(report.to_dict()) if as_json else report, flush=True)
    return STATUS[report.outcome]


def _split(argv: list[str]) -> tuple[list[str], Sequence[str]]:
    """Our own words, and SGLang's after "--"; without that the usual ones."""
    if "--" not in argv:
        return argv, FLAGS
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _requests(given: str | None) -> Any:
    if given is None or given.isdigit():
        return given and int(given)
    from eagerbuf.simulate.workloads import load_requests

    return load_requests(given)


def _parser() -> argparse.ArgumentParser:
    usage = "%(prog)s [options] [-- SGLANG FLAGS]"
    parser = argparse.ArgumentParser("python -m eagerbuf.engine", usage, __doc__)
    parser.add_argument("--release", default="0.5.14", help="of SGLang (default: %(default)s)")
    parser.add_argument("--rule", help="size the buffers by this rule in place of the release's")
    parser.add_argument("--requests", metavar="N|FILE", help="send so many, or those of a CSV file")
    parser.add_argument("--stall-s", type=float, default=3.0, help="seconds without any movement")
    parser.add_argument("--limit-s", type=float, default=120.0, help="seconds a run may take")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


if __name__ == "__main__":
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
