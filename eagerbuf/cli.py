"""The `eagerbuf` command: a launch command, a config or a log in, a verdict out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import IO, Any

from eagerbuf.config import FIELDS, FLAGS

EXIT = {"fits": 0, "not-applicable": 0, "overflows": 1, "hangs": 1, "unknown": 3}
UNREADABLE = 2
LARGEST_INPUT = 64 * 2**20  # bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 fits or not applicable, 1 overflows or hangs, 2 unreadable, 3 unknown."""
    options = _parser().parse_args(arguments)
    try:
        status, text = _check(options)
    except ValueError as error:
        _write(sys.stderr, f"eagerbuf: {error}")
        return UNREADABLE
    if sys.stdout is None:
        _write(sys.stderr, "eagerbuf: cannot write the report: standard output is closed")
    return status if _write(sys.stdout, text) else UNREADABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eagerbuf", description="Do SGLang's eager input buffers hold what is sent to them?"
    )
    commands = parser.add_subparsers(dest="action", required=True)
    check = commands.add_parser(
        "check",
        help="judge a launch command, a config file, a Kubernetes list or a start-up log",
        description="Exit status: 0 fits (or no eager runner), 1 overflows or hangs, "
        "2 unreadable input, 3 unknown.",
    )
    check.add_argument("file", nargs="?", help="a file; - for standard input")
    check.add_argument("--command", metavar="TEXT", help="the launch command itself")
    check.add_argument("--release", help="an SGLang release, e.g. 0.5.14 (default: newest known)")
    check.add_argument("--gpu-mem-gib", type=float, metavar="GIB", help="memory of one GPU")
    check.add_argument("--json", action="store_true", help="the report as JSON")
    check.add_argument("--explain", action="store_true", help="where every value came from")
    group = check.add_argument_group("effective values of one rank; they beat what was read")
    for name in FIELDS:
        _add_field(group, name)
    return parser


def _add_field(group: Any, name: str) -> None:
    flag = "--" + name.replace("_", "-")
    if name in FLAGS:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=None)
    else:
        kind = str if name == "moe_a2a_backend" else int
        group.add_argument(flag, type=kind, metavar="NAME" if kind is str else "N")


def _write(stream: IO[str] | None, text: str) -> bool:
    """Write a text whole; a reader that has gone is no failure, a full or closed stream is."""
    if stream is None:
        return False
    encoding = getattr(stream, "encoding", None) or "utf-8"
    printable = text.encode(encoding, errors="backslashreplace").decode(encoding)
    try:
        stream.write(printable + "\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is not sys.stderr:
            _write(sys.stderr, f"eagerbuf: cannot write the report: {error.strerror}")
        return False
    return True


def _check(options: argparse.Namespace) -> tuple[int, str]:
    """The exit status, and the report as text."""
    from eagerbuf.diagnose.report import render
    from eagerbuf.diagnose.verdict import check
    from eagerbuf.read import read_servers

    text = _text(options)
    fields = {n: v for n in FIELDS if (v := getattr(options, n)) is not None}
    readings = read_servers(
        text, release=options.release, gpu_mem_gib=options.gpu_mem_gib, **fields
    )
    report = check(readings, release=options.release)
    status = EXIT[report.verdict]
    if options.json:
        return status, json.dumps(report.to_dict(), indent=2)
    seen = _observed(text, report)
    terminal = sys.stdout is not None and sys.stdout.isatty()
    colored = terminal and "NO_COLOR" not in os.environ
    return status, render(report, seen, explain=options.explain, colored=colored)


def _observed(text: str, report: Any) -> list[Any]:
    """The largest batches of a log; pandas is loaded only if there are any."""
    if "Prefill batch" not in text and "Decode batch" not in text:
        return []
    from eagerbuf.diagnose.in_log import largest_in_log
    from eagerbuf.read import read_log

    return largest_in_log(
        read_log(text, release=report.release), report.config["num_tokens_per_bs"]
    )


def _text(options: argparse.Namespace) -> str:
    from eagerbuf.read.text import shown

    if (options.file is None) == (options.command is None):
        raise ValueError("give either a file (- for standard input) or --command")
    if options.command is not None:
        return str(options.command)
    if options.file == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed; give a file or --command")
        return _decoded(sys.stdin.buffer.read(LARGEST_INPUT + 1), "standard input")
    name = shown(options.file)
    try:
        with open(options.file, "rb") as file:
            data = file.read(LARGEST_INPUT + 1)
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        why = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"{name}: {why or error}") from None
    return _decoded(data, name)


def _decoded(data: bytes, name: str) -> str:
    if len(data) > LARGEST_INPUT:
        raise ValueError(f"{name}: over {LARGEST_INPUT >> 20} MiB; give the start of the log")
    for encoding in ("utf-8-sig", "utf-16") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ():
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8-sig", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
