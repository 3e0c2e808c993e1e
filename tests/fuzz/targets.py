"""What is fed with any bytes, and what must hold: the documented error, or an answer in order."""

from __future__ import annotations

import io
import json
import linecache
import math
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import pandas as pd

import eagerbuf
from eagerbuf import EngineConfig, Reading, cli, load_requests, read_config, read_log
from eagerbuf.config import check_value
from eagerbuf.diagnose.verdict import check
from tests.fuzz.guard import nothing_touched, unwatched

T = TypeVar("T")
PACKAGE = Path(eagerbuf.__file__).parent
LONGEST = 700  # characters of an error
VERDICTS = set(cli.EXIT)
COLUMNS = ["time", "tags", "kind", "new_tokens", "requests", "cached_tokens", "page_rounded"]
WORDS, TEXT = b"\x1c", b"\x1d"  # between arguments of the command; before its standard input
_SCRATCH = tempfile.TemporaryDirectory(prefix="eagerbuf-fuzz-")
TRACE = Path(_SCRATCH.name) / "trace"
CONFIG = Path(_SCRATCH.name) / "input"


def answer(run: Callable[[], T]) -> T | None:
    """What `run` returns; None if it refuses with an error that the package raised itself."""
    try:
        return run()
    except ValueError as error:
        _documented(error)
        return None


def _documented(error: ValueError) -> None:
    """One printable line, raised by a `raise` of this package: no library's error got through."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    name = frame.f_code.co_filename
    source = linecache.getline(name, line).strip()
    assert Path(name).is_relative_to(PACKAGE), f"{name} raised {error!r}"
    assert source.startswith("raise "), f"{source!r} raised {error!r}"
    assert str(error).isprintable(), f"not one printable line: {error!r}"
    assert len(str(error)) <= LONGEST, f"{len(str(error))} characters"


def config(data: bytes) -> None:
    """read_config, and on every sixteenth input what follows from it."""
    text = decoded(data)
    with nothing_touched():
        reading = answer(lambda: read_config(text))
    if reading is not None:
        _in_order(reading)
    if sum(data) % 16 == 0:
        _same_in_other_clothes(text, reading)
        if reading is not None:
            _judged(reading)


def decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _in_order(reading: Reading) -> None:
    assert reading.config is None or isinstance(reading.config, EngineConfig)
    known = {name: value for name, value in reading.values.items() if value is not None}
    assert all(check_value(name, value) == value for name, value in known.items())
    assert set(known) <= set(reading.sources)
    assert not set(reading.unknown) & set(reading.sources)
    assert set(reading.sources.values()) <= {"flag", "log", "default", "option"}
    assert all(note.isprintable() for note in reading.notes), reading.notes


def _same_in_other_clothes(text: str, reading: Reading | None) -> None:
    """Line ends, a byte order mark and colours change nothing."""
    if "\x1b" in text or "\r" in text:
        return
    middle = len(text) // 2
    coloured = f"\ufeff{text[:middle]}\x1b[1;32m{text[middle:]}\x1b[0m".replace("\n", "\r\n")
    assert answer(lambda: read_config(coloured)) == reading


def _judged(reading: Reading) -> None:
    with nothing_touched():
        report = answer(lambda: check(reading))
        if report is not None:
            assert report.verdict in VERDICTS
            json.dumps(report.to_dict())


def log(data: bytes) -> None:
    """read_log: columns and kinds of values are always the same."""
    text = decoded(data)
    with nothing_touched():
        frame = answer(lambda: read_log(text))
    if frame is None:
        return
    assert list(frame.columns) == COLUMNS
    assert len(frame) * len("Decode batch, #running-req: ") <= len(text)
    assert set(frame.kind) <= {"prefill", "decode"}
    counts = frame[["new_tokens", "requests", "cached_tokens"]]
    assert (counts.dtypes == "Int64").all()
    assert (counts.fillna(0) >= 0).all(axis=None)
    decodes = frame[frame.kind == "decode"]
    assert decodes.new_tokens.isna().all()


def trace(data: bytes) -> None:
    """load_requests: whole numbers and times in order, a row a line."""
    TRACE.write_bytes(data)
    with nothing_touched(str(TRACE)):
        frame = answer(lambda: load_requests(TRACE))
    if frame is None:
        return
    assert list(frame.dtypes.astype(str)) == ["int64", "int64", "float64"]
    assert 1 <= len(frame) <= data.count(b"\n") + data.count(b"\r") + 1
    assert (frame.prompt_tokens >= 1).all()
    assert (frame.output_tokens >= 0).all()
    assert frame.arrival_s.map(math.isfinite).all()
    assert (frame.arrival_s >= 0).all()
    _as_json_says(data, frame)


def _as_json_says(data: bytes, frame: pd.DataFrame) -> None:
    """JSON lines, read in the plainest way, hold the same lengths."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        rows = [json.loads(line) for line in io.StringIO(data.decode("utf-8-sig")) if line.strip()]
        assert [row["input_length"] for row in rows] == list(frame.prompt_tokens)


def command(data: bytes) -> None:
    """`eagerbuf check` with any arguments; the text as standard input, as a file or as a word."""
    head, _, text = data.partition(TEXT)
    words = [decoded(word) for word in head.split(WORDS) if word]
    CONFIG.write_bytes(text)
    words = [word.replace("FILE", str(CONFIG)).replace("TEXT", decoded(text)) for word in words]
    status, out, err = _run(["check", *words], text)
    assert status in range(4), status
    if status == cli.UNREADABLE:
        assert err
        assert not out
    elif "--json" in words:
        assert json.loads(out)["verdict"] in VERDICTS
    elif "-h" not in words and "--help" not in words:
        assert all(line.isprintable() for line in out.split("\n")), repr(out)


def _run(arguments: list[str], stdin: bytes) -> tuple[int, str, str]:
    streams = sys.stdin, sys.stdout, sys.stderr
    out, err = io.StringIO(), io.StringIO()
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin)), out, err
    try:
        with nothing_touched(*arguments):
            status = cli.main(arguments)
    except SystemExit as left:
        return (left.code if isinstance(left.code, int) else -1), out.getvalue(), err.getvalue()
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    if status == cli.UNREADABLE:
        assert err.getvalue().startswith("eagerbuf: ")
        assert err.getvalue()[:-1].isprintable(), repr(err.getvalue())
    return status, out.getvalue(), err.getvalue()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "config": config,
    "log": log,
    "trace": trace,
    "command": command,
}


def warm(inputs: dict[str, Iterable[bytes]]) -> None:
    """Load what is loaded when first used, and the sources that errors are traced to."""
    for path in PACKAGE.rglob("*.py"):
        linecache.getlines(str(path))
    for form in ("listed", "python", "units", "yamls"):
        import_module(f"eagerbuf.read.words.{form}")
    for name, several in inputs.items():
        for data in several:
            with unwatched(), suppress(Exception):
                TARGETS[name](data)
