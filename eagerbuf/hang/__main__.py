"""`python -m eagerbuf.hang`: one rank where RANK is set (torchrun, run_hang), else a whole run."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from eagerbuf.hang.guard import die_with_parent, exit_with_stdin
from eagerbuf.hang.journal import START, Journal, to_descriptor
from eagerbuf.hang.place import Place
from eagerbuf.hang.settings import DEVICES, LEAST_RANKS, MOST_RANKS, ON_FAILURE, Settings
from eagerbuf.hang.watch import LOST_PEER
from eagerbuf.sizing import RULES

_HELP = {
    "ranks": f"{LEAST_RANKS} to {MOST_RANKS}; torchrun's number counts where it starts the ranks",
    "rule": f"how the buffers are sized: {', '.join(RULES)}",
    "on_failure": f"what a failing profile does: {', '.join(ON_FAILURE)}",
    "chunk": "chunked_prefill_size in tokens",
    "device": ", ".join(DEVICES),
    "stall_s": "seconds without any progress that make a hang",
    "limit_s": "seconds after which the run is over",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Be a rank or start a run; exit status 0 only for the outcome "completed"."""
    options = vars(_parser().parse_args(argv))
    as_json = options.pop("json")
    if "RANK" in os.environ:
        options["ranks"] = int(os.environ["WORLD_SIZE"])
    try:
        settings = Settings(**options)
    except ValueError as error:
        print(f"eagerbuf.hang: {error}", file=sys.stderr)
        return 2
    if "RANK" not in os.environ:
        return _whole_run(settings, as_json)
    if "EAGERBUF_LAUNCHED" in os.environ:
        _launched_rank(settings, json.loads(os.environ["EAGERBUF_LAUNCHED"]))
    else:
        _torchrun_rank(settings, as_json)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eagerbuf.hang", description=__doc__)
    for field in fields(Settings):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(
            flag, type=type(field.default), default=field.default, help=_HELP[field.name]
        )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _whole_run(settings: Settings, as_json: bool) -> int:
    from eagerbuf.hang.launch import run_hang
    from eagerbuf.hang.peers import print_report

    report = run_hang(**asdict(settings))
    print_report(report, as_json)
    return 0 if report.outcome == "completed" else 1


def _launched_rank(settings: Settings, launched: dict[str, Any]) -> None:
    """A rank of `run_hang`: guarded first, as everything after takes time."""
    die_with_parent(launched["parent"])
    status = [1]
    exit_with_stdin(status)
    stack = os.fdopen(launched["stack"], "wb", buffering=0)
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    journal = Journal(to_descriptor(launched["journal"]), launched["start"])
    journal.step(START)
    _run(settings, journal, launched.get("listen"))
    status[0] = 0
    _sleep_until_ended()


def _torchrun_rank(settings: Settings, as_json: bool) -> None:
    """A rank under torchrun: it ends with its parent, at Ctrl-C, or by its own verdict."""
    from eagerbuf.hang.peers import Peer

    die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else a blocked rank would not end
    peer = Peer(settings, Place.from_environment(), as_json)
    peer.journal.step(START)
    peer.watch()
    _run(settings, peer.journal, None)
    _sleep_until_ended()


def _run(settings: Settings, journal: Journal, listen: int | None) -> None:
    from eagerbuf.hang.rank import run_rank

    try:
        run_rank(settings, Place.from_environment(), journal, listen)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(LOST_PEER if journal.waits else 1)


def _sleep_until_ended() -> None:
    """Torch's own end takes seconds and an early one disturbs the others: wait to be released."""
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main())
