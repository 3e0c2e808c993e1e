"""Hostile input is text: nothing runs, sizes are bounded, time is linear, errors are one line."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf.read import Reading, read_config, read_log
from tests.quickest import within
from tests.read.test_logs import LINE, REPR

SERVE = "python3 -m sglang.launch_server --tp 2 "
MANIFEST = """containers:
- command: [sglang, serve]
  args:
  - --tp
  - '8'
  env: [{name: A, value: b}]
"""
CONFIG = "tensor-parallel-size: 8\nport: 1\n"
SIGNS = "' \" \\ ` $( <a {{ [ ] ( ) { } = : - -- # & | ; ... \x00 \x1b[1m \u2013 \ud800 &a *a"
PIECES = [
    *SIGNS.split(" "),
    *("\n", "\\\n", "\t", "\r", ": ", "- ", "--tp ", "sglang serve ", "bash -c '", "<<EOF\n"),
    *("server_args={", "ServerArgs(", "max_total_num_tokens=", "Prefill batch, ", "9" * 400),
    "!!python/object:os.system ",
]


def refusal(text: str) -> str | None:
    """Why the text is refused, if it is; any exception but ValueError fails the test."""
    try:
        reading = read_config(text)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    assert isinstance(reading, Reading)
    assert all("\n" not in note for note in reading.notes)
    return None


def survives(text: str) -> None:
    """Reading or a ValueError of one line; nothing else."""
    why = refusal(text)
    assert why is None or (why.startswith("ValueError: ") and "\n" not in why and len(why) < 700)
    if text.strip("\x00 \n\r\t"):
        with suppress(ValueError):  # nothing but blanks and the like
            read_log(text)


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    survives(text)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    survives(SERVE + data.decode("latin-1"))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from([*PIECES, "a", " ", "8"]), max_size=40).map("".join))
def test_any_mixture_of_what_means_something(text: str) -> None:
    survives(text)
    survives(SERVE + text)


def repeated(piece: str, before: str = "", after: str = "") -> str:
    return before + piece * (300_000 // len(piece)) + after


HOSTILE = {
    **{f"serve {p!r}"[:40]: repeated(p, SERVE) for p in PIECES},
    **{f"only {p!r}"[:40]: repeated(p) for p in PIECES},
    "escaped quotes": repeated("\\'", SERVE),
    "open string": repeated('\\"', SERVE + '"'),
    "substitutions": repeated("$(a", SERVE),
    "broken words": repeated("\\\na", SERVE),
    "programs": repeated("launch_server "),
    "commands": repeated(SERVE + "\n"),
    "after one another": repeated("x && sglang.launch_server "),
    "scripts in scripts": repeated('bash -c "sglang serve '),
    "lists": repeated('["sglang.launch_server", '),
    "markdown": repeated("`sglang.launch_server "),
    "tracebacks": repeated('File "/x/sglang/launch_server.py", line 1\n'),
    "dumps": repeated("ServerArgs(a=1, tp_size=1, "),
    "whole dumps": repeated("ServerArgs(tp_size=1)\n"),
    "escaped dump": repeated("\\'", "ServerArgs("),
    "nested dump": repeated("(", "ServerArgs("),
    "runs": repeated("tp_size=1, page_size=1, "),
    "run lines": repeated("tp_size=1, x\n"),
    "resolved lines": repeated("max_total_num_tokens=1, context_len=5\n"),
    "ends of resolved lines": repeated("context_len=5, \n"),
    "calls": repeated("Engine(tp_size=1, "),
    "json": repeated('{"model_path": "m", "tp_size": 1, '),
    "assignments": repeated("SGLANG_X=1 ", after="\n" + SERVE),
    "assignments alone": repeated("SGLANG_X=1\n", after="\n" + SERVE),
    "exports in blocks": repeated("if x\nexport SGLANG_X=1\nfi\n" + SERVE + "\n"),
    "code in blocks": repeated('if x:\n  env["SGLANG_X"] = "1"\n', after="Engine(tp_size=2)"),
    "declarations": repeated("ENV SGLANG_X=1 \\\n", after="\n" + SERVE),
    "dashed names": "a" + repeated("a-")[: 2**17 - 1],
    "conditions": repeated("- --tp\n{{- if .x }}\n"),
    "dots": repeated(".", SERVE, "!"),
    "dollars": repeated("$*", SERVE, "!"),
    "images": repeated("sglang", after=":v0.5.14\n" + SERVE),
    "documents": repeated("cat > x.yaml << A\n", after=SERVE + "--config x.yaml"),
    "list items": repeated("- --tp\n"),
    "nested lists": "args: " + "[" * 100_000,
    "nested mappings": "args: [--tp, 2]\nb: " + "{a: " * 30_000,
    "broken batches": repeated("Prefill batch, #new-seq: 1, #new-to\nken: 8, "),
    "uses": repeated("$A x\n", 'A="sglang serve --tp 2"\n'),
    "additions": repeated('if x\nA+=" --tp 4"\n', 'A="sglang serve --tp 2"\n'),
    "sums": repeated('c = ["sglang.launch_server"] + ["a"] + x(\n  '),
    "arrays": repeated("A=(sglang.launch_server #"),
    "blanks, short enough for YAML": SERVE + "\n" + " " * 120_000,
    "dashes, short enough for YAML": SERVE + "\n" + "a-" * 60_000,
    "collectors": repeated("2026-06-30T10:00:00Z ", after="server_args={"),
}


def processor_s(text: str) -> float:
    start = time.process_time()
    survives(text)
    return time.process_time() - start


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(name: str) -> None:
    """Four times the text, less than nine times the time: what is quadratic takes sixteen."""
    whole = HOSTILE[name]
    quarter = whole[: len(whole) // 4] + whole[-80:]  # with the command that some end with
    four, once = processor_s(whole), 0.0
    if four >= 4.0:  # a busy machine may slow one run down
        four = min(four, processor_s(whole), processor_s(whole))
    assert four < 4.0
    for _ in range(4):  # a busy machine slows a run down, never speeds one up
        if four < max(9 * once, 0.1):
            return
        once = min(once or 9.0, processor_s(quarter))
        four = min(four, processor_s(whole))
    assert four < 9 * once


def test_a_10_mb_log_takes_at_most_two_seconds() -> None:
    noise = (
        '[2026-10-31 10:00:00] INFO:     127.0.0.1:4444 - "POST /generate HTTP/1.1" 200 OK\n'
        "[2026-10-31 10:00:01 TP0] Decode batch, #running-req: 1, #token: 5, token usage: 0.00, "
        "cuda graph: True, gen throughput (token/s): 5.00, #queue-req: 0\n"
    )
    text = REPR + "\n" + LINE + "\n" + noise * (10**7 // len(noise))
    assert within(2.0, lambda: read_config(text, release="0.5.14"))
    reading = read_config(text, release="0.5.14")
    assert reading.values["max_running_requests"] == 3319


@pytest.mark.parametrize("levels", [5, 12, 30, 60])
def test_alias_bombs_are_refused(levels: int) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, levels)
    )
    with pytest.raises(ValueError, match="aliases"):
        read_config("args: [--tp, '2']\n" + bomb)
    with pytest.raises(ValueError, match="aliases"):
        read_config("args: &a [--tp, '2', *a]\n")


def test_a_few_aliases_are_followed() -> None:
    text = "x: &f [--tp, '8', --pp-size, '2']\ny:\n- {command: [sglang, serve], args: *f}\n"
    assert read_config(text).values["pp_size"] == 2


@pytest.mark.parametrize(
    "text",
    [
        "args: !!python/object/apply:os.system ['touch {}']\n",
        "args: [--tp, !!python/object/apply:os.system ['touch {}']]\n",
        "sglang serve --tp $(touch {})",
        "sglang serve --tp `touch {}`",
        'sglang serve --model-path "$(touch {})" --tp 2',
        'cmd = ["sglang", "serve", "--tp", __import__("os").system("touch {}")]',
        "server_args=ServerArgs(tp_size=__import__('os').system('touch {}'), pp_size=1)",
        "sgl.Engine(tp_size=__import__('os').system('touch {}'), pp_size=1)",
    ],
)
def test_nothing_is_evaluated_or_executed(text: str, tmp_path: Path) -> None:
    survives(text.format(tmp_path / "made"))
    assert not list(tmp_path.iterdir())


def test_no_file_is_opened(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("tensor-parallel-size: 8\n")
    got = read_config(f"sglang serve --config {config} --chunked-prefill-size 4096")
    assert got.values["tp_size"] is None


@pytest.mark.parametrize("text", [None, b"sglang serve --tp 2", 3, ["--tp", "2"]])
def test_only_text_is_read(text: object) -> None:
    with pytest.raises(ValueError, match=r"^text: give a str"):
        read_config(text)  # type: ignore[arg-type]


def test_too_long_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^text: .* characters"):
        read_config("x" * (2**26 + 1))


def test_too_many_launches_are_refused() -> None:
    with pytest.raises(ValueError, match="over 64 launch commands"):
        read_config((SERVE + "\n") * 100)


def test_checking_one_command_loads_nothing_heavy() -> None:
    code = (
        "import sys; from eagerbuf import read_config; "
        f"read_config({SERVE!r}, release='0.5.14'); "
        "heavy = {'torch', 'numpy', 'pandas', 'plotly', 'yaml', 'json', 'asyncio', 'unittest'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
