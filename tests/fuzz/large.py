"""Ten million characters of each kind, in a process whose memory is limited."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.guard import nothing_touched, unwatched
from tests.fuzz.mutate import AZURE, BATCHES, MOONCAKE, OURS
from tests.fuzz.targets import TRACE, answer, load_requests, read_config, read_log, warm
from tests.read.test_hostile import SERVE
from tests.read.test_logs import LINE, REPR

LENGTH = 10_000_000
SPARE = 600 * 2**20  # bytes that reading one may take: the text itself may take 40 MB
HEAD = REPR + "\n" + LINE + "\n"
TEXTS: dict[str, Callable[[], str]] = {
    "batch lines": lambda: HEAD + filled(BATCHES.decode()),
    "one line": lambda: SERVE + filled("--log-level info "),
    "one word": lambda: SERVE + filled("9"),
    "one blank": lambda: SERVE + filled(" "),
    "NUL": lambda: filled("\x00") + SERVE,
    "colours": lambda: filled("\x1b[1;32m") + SERVE,
    "escapes without end": lambda: SERVE + filled("\x1b["),
    "wide characters": lambda: SERVE + filled("\U0001f600 "),
    "lone surrogates": lambda: SERVE + filled("\udcff"),
    "aliases": lambda: "args: &a [--tp, '2']\n" + filled("b: *a\n"),
    "nested lists": lambda: "args: " + filled("["),
    "list items": lambda: "args:\n" + filled("- --tp\n- '8'\n"),
    "dumps": lambda: filled("server_args=ServerArgs(tp_size=1, pp_size=2)\n"),
    "programs": lambda: filled("x && sglang.launch_server --tp 2 "),
    "line ends": lambda: SERVE + filled("\r\n"),
    "quotes": lambda: SERVE + filled("'\""),
}
TRACES: dict[str, Callable[[], bytes]] = {
    "Azure": lambda: AZURE + AZURE.split(b"\n", 1)[1] * (LENGTH // 80),
    "Mooncake": lambda: MOONCAKE * (LENGTH // len(MOONCAKE)),
    "ours": lambda: OURS + OURS.split(b"\n", 1)[1] * (LENGTH // 40),
    "one JSON line": lambda: MOONCAKE[:20] + b"1, " * (LENGTH // 3),
    "one CSV line": lambda: OURS + b"1" * LENGTH,
    "open quote": lambda: OURS + b'"' + b"1,1\n" * (LENGTH // 4),
    "nested JSON": lambda: b'{"a": ' * (LENGTH // 6),
    "binary": lambda: bytes(range(256)) * (LENGTH // 256),
}


def filled(piece: str) -> str:
    return piece * (LENGTH // len(piece))


def limit_memory() -> None:
    """Let the process have `SPARE` bytes more than it has now."""
    held = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    now = next(int(words[1]) * 1024 for words in held if words[0] == "VmData:")
    resource.setrlimit(resource.RLIMIT_DATA, (now + SPARE, resource.RLIM_INFINITY))


def read(name: str) -> float:
    """Seconds of processor time that reading the input takes; raises what the readers raise."""
    if name in TRACES:
        TRACE.write_bytes(TRACES[name]())
        start = time.process_time()
        with nothing_touched(str(TRACE)):
            answer(lambda: load_requests(TRACE))
        return time.process_time() - start
    text = TEXTS[name]()
    start = time.process_time()
    with nothing_touched():
        answer(lambda: read_config(text))
        answer(lambda: read_log(text))
    return time.process_time() - start


def main() -> int:
    """Seconds of each named input as JSON; an exception if one breaks a reader or the limit."""
    warm({})
    with unwatched():
        for text in (HEAD + BATCHES.decode(), "args: [--tp, '2']\n"):
            answer(lambda text=text: (read_config(text), read_log(text)))
        TRACE.write_bytes(OURS)
        answer(lambda: load_requests(TRACE))
    limit_memory()
    print(json.dumps({name: read(name) for name in sys.argv[1:]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
