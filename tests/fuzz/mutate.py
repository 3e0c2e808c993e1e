"""Inputs by the thousand: real ones cut, crossed, stuffed with what means something, recoded."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz.targets import TEXT, WORDS
from tests.read.test_hostile import CONFIG, MANIFEST, PIECES, SERVE
from tests.read.test_logs import LINE, REPR

CASES = [Path(__file__).parent.parent / "data" / name for name in ("cases.jsonl", "cases2.jsonl")]
FOUND = Path(__file__).parent / "found"
LONGEST = 6_000  # bytes of an input: the large ones have tests of their own
AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319569,3180,8\n"
)
OURS = b"prompt_tokens,output_tokens,arrival_s,workload\n12,3,0,a\n4096,1,0.25,a\n1,0,7.0e2,b\n"
MOONCAKE = b"".join(
    b'{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": [1, 2]}\n' % row
    for row in ((0, 6758, 500), (27482, 6955, 0), (30535, 1, 26))
)
BATCHES = (
    b"[2026-07-14 10:00:00 DP0 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: "
    b"0, token usage: 0.01, #running-req: 0, #queue-req: 2, \n"
    b"[2026-07-14 10:00:01 TP0] Prefill batch [17], #new-seq: 2, #new-token: 77, #cached-token: 1\n"
    b"[2026-07-14 10:00:02 TP0] Decode batch, #running-req: 3, #token: 5, token usage: 0.00\n"
)
ARGUMENTS = [
    (b"-",),
    (b"FILE", b"--release", b"0.5.14"),
    (b"--command", b"TEXT", b"--json"),
    (b"-", b"--explain", b"--tp-size", b"8", b"--enable-dp-attention", b"--gpu-mem-gib", b"80"),
    (b"FILE", b"--json", b"--max-running-requests", b"256", b"--chunked-prefill-size", b"-1"),
]
NUMBERS = (
    *(
        b"0",
        b"-1",
        b"1",
        b"2147483648",
        b"9" * 19,
        b"9" * 4301,
        b"1e999",
        b"nan",
        b"-inf",
        b"0x" + b"f" * 5000,
    ),
    *(b"1_0", b"\xd9\xa3", b"08", b"1.5", b"8k", b"25.6k", b"2Ki", b"2**31", b"$((4*2))", b"true"),
)
CANARIES = (
    b"__import__('os').system('touch made')",
    b"$(touch made)",
    b"`touch made`",
    b"!!python/object/apply:os.system ['touch made']",
    b"!!python/name:os.system",
    b"${TP:-8}",
    b"{{ 4 * 2 }}",
    b"<<: *a",
    b"&a [*a, *a]",
    b"? - a\n: b",
    b"\x1b]0;title\x07",
    b"\x1b[31m",
    b"\x9b31m",
    b"\xe2\x80\xae",
    b"\xff\xfe",
    b"\x00",
    b"\xed\xa0\x80",
    b"# -*- coding: utf-7 -*-",
    b"%YAML 1.1\n---\n",
    b"2023-13-45 99:99:99",
    b"1:2:3:4",
    b"sglang:v0.5.14",
    b"lmsysorg/sglang:v0.5.20-cu129",
)
CODES = ("utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp037", "utf-7")
Change = Callable[[random.Random, bytes], bytes]


def seeds(target: str) -> list[bytes]:
    """Inputs in order of a target, and those that once broke it."""
    found = [path.read_bytes() for path in sorted((FOUND / target).glob("*"))]
    lines = [line for path in CASES for line in path.read_text("utf-8").splitlines()]
    texts = [case["text"] for case in map(json.loads, lines)]
    real = [text.encode() for text in (*texts, REPR[:3000], LINE, MANIFEST, CONFIG, SERVE)]
    if target == "trace":
        return [*found, AZURE, OURS, MOONCAKE]
    if target == "log":
        return [*found, BATCHES, BATCHES * 5, (REPR[:3000] + "\n").encode() + BATCHES, *real]
    if target == "command":
        logged = WORDS.join(ARGUMENTS[0]) + TEXT + SERVE.encode() + b"\n" + BATCHES
        return [
            *found,
            logged,
            *(WORDS.join(words) + TEXT + text for words in ARGUMENTS for text in real),
        ]
    return [*found, *real]


def words() -> list[bytes]:
    """What means something to a reader, or to what a reader must not be."""
    return [*(piece.encode("utf-8", "surrogatepass") for piece in PIECES), *CANARIES, *NUMBERS]


def inputs(target: str, seed: int) -> Iterator[bytes]:
    """Endless inputs, the seeds first; the same ones for the same `seed`."""
    known = seeds(target)
    yield from known
    source = random.Random(f"{target} {seed}")
    pieces = words()
    changes: list[Change] = [
        lambda r, d: _insert(r, d, r.choice(pieces)),
        lambda r, d: _insert(r, d, r.choice(pieces) * r.choice((2, 9, 70))),
        lambda r, d: _insert(r, d, r.randbytes(r.randrange(1, 9))),
        lambda r, d: _cross(r, d, r.choice(known)),
        _number,
        _number,
        _cut,
        _double,
        _line,
        _flip,
        _wrap,
        _recode,
    ]
    while True:
        data = source.choice(known)
        for _ in range(source.choice((1, 1, 2, 3, 6))):
            data = source.choice(changes)(source, data)[:LONGEST]
        yield data


def _span(source: random.Random, data: bytes) -> tuple[int, int]:
    start = source.randrange(len(data) + 1)
    return start, min(len(data), start + source.choice((1, 4, 30, 300)))


def _insert(source: random.Random, data: bytes, piece: bytes) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + piece + data[at:]


def _cross(source: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: source.randrange(len(data) + 1)] + other[source.randrange(len(other) + 1) :]


def _number(source: random.Random, data: bytes) -> bytes:
    """A number replaced by another."""
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return data
    start, end = source.choice(found).span()
    return data[:start] + source.choice(NUMBERS) + data[end:]


def _cut(source: random.Random, data: bytes) -> bytes:
    start, end = _span(source, data)
    return data[:start] + data[end:]


def _double(source: random.Random, data: bytes) -> bytes:
    start, end = _span(source, data)
    return data[:end] + data[start:end] * source.choice((1, 2, 20)) + data[end:]


def _line(source: random.Random, data: bytes) -> bytes:
    """A line moved, broken in two or joined with the next."""
    lines = data.split(b"\n")
    at = source.randrange(len(lines))
    line = lines.pop(at)
    middle = source.randrange(len(line) + 1)
    moved = source.choice(([line], [line[:middle], line[middle:]], [line + b" "]))
    to = source.choice((at, source.randrange(len(lines) + 1)))
    return b"\n".join([*lines[:to], *moved, *lines[to:]])


def _flip(source: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = source.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << source.randrange(8)]) + data[at + 1 :]


def _wrap(source: random.Random, data: bytes) -> bytes:
    """The whole inside something else: quotes, a script, a list, a document, a log."""
    before, after = source.choice(
        (
            (b"bash -c '", b"'"),
            (b'["', b'"]'),
            (b"args:\n- |\n  ", b"\n"),
            (b"```\n", b"\n```"),
            (b"a: &a\n" + b"- " * 50, b""),
            (b"cat > x.yaml << EOF\n", b"\nEOF\nsglang serve --config x.yaml"),
            (b"[2026-07-14 10:00:00 TP0] server_args=ServerArgs(", b")"),
            (b"2026-06-30T10:00:00Z stdout F ", b""),
            (b"\x1b[32m", b"\x1b[0m"),
        )
    )
    return before + data + after


def _recode(source: random.Random, data: bytes) -> bytes:
    return data.decode("latin-1").encode(source.choice(CODES), errors="replace")
