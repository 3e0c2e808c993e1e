"""`python -m eagerbuf.repro.hang`: one rank where RANK is set (torchrun, run_hang), else all."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from eagerbuf.repro.hang.dist_env import Place
from eagerbuf.repro.hang.options import options_parser
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.child import launched_rank, live
from eagerbuf.repro.launch.event_log import START, Journal
from eagerbuf.repro.launch.guard import die_with_parent


def main(argv: Sequence[str] | None = None) -> int:
    """Be a rank or start a run; exit status 0 only for the outcome "completed"."""
    options = vars(_parser().parse_args(argv))
    as_json = options.pop("json")
    if "RANK" in os.environ:
        options["ranks"] = int(os.environ["WORLD_SIZE"])
    try:
        settings = Settings(**options)
    except ValueError as error:
        print(f"eagerbuf.repro.hang: {error}", file=sys.stderr)
        return 2
    if "RANK" not in os.environ:
        return _whole_run(settings, as_json)
    if "EAGERBUF_LAUNCHED" in os.environ:
        launched_rank(partial(_run, settings))
    else:
        _torchrun_rank(settings, as_json)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = options_parser("python -m eagerbuf.repro.hang", __doc__)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _whole_run(settings: Settings, as_json: bool) -> int:
    from eagerbuf.repro.hang.peers import print_report
    from eagerbuf.repro.launch.worker_group import run_hang

    try:
        report = run_hang(**asdict(settings))
    except (ValueError, OSError) as error:  # no such device, no way to start a rank
        print(f"eagerbuf.repro.hang: {error}", file=sys.stderr)
        return 2
    print_report(report, as_json)
    return 0 if report.outcome == "completed" else 1


def _torchrun_rank(settings: Settings, as_json: bool) -> None:
    """A rank under torchrun: it ends with its parent, at Ctrl-C, or by its own verdict."""
    from eagerbuf.repro.hang.peers import Peer

    die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else a blocked rank would not end
    peer = Peer(settings, Place.from_environment(), as_json)
    peer.journal.step(START)
    peer.watch()
    live(partial(_run, settings, peer.journal, None), peer.journal)


def _run(settings: Settings, journal: Journal, listen: int | None) -> None:
    from eagerbuf.repro.hang.start_up import run_rank

    run_rank(settings, Place.from_environment(), journal, listen)


if __name__ == "__main__":
    sys.exit(main())
