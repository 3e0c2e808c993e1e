"""The command line of a rank: one option for each field of Settings."""

from __future__ import annotations

import argparse
from dataclasses import fields

from eagerbuf.repro.hang.settings import DEVICES, LEAST_RANKS, MOST_RANKS, ON_FAILURE, Settings
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


def options_parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """A parser of what `Settings.argv` gives, with the defaults of Settings."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    for field in fields(Settings):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(
            flag, type=type(field.default), default=field.default, help=_HELP[field.name]
        )
    return parser
