"""Thousands of inputs through every reader: the documented error or an answer, nothing else.

5,000 in `make test`, 100,000 in `make test-full`, a million with EAGERBUF_MILLION=1; coverage
guides `make fuzz`. What once broke a reader is kept in tests/fuzz/found and read first.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf.read import read_config, read_log
from tests.fuzz import batch, guard, large, mutate, targets

ROOT = Path(__file__).parents[2]
MILLION = os.environ.get("EAGERBUF_MILLION", "") not in ("", "0")
QUICK = ("batch lines", "one line", "one JSON line", "nested lists")
SLOW = [name for name in (*large.TEXTS, *large.TRACES) if name not in QUICK]


def child(module: str, *arguments: str) -> Any:
    """What a module of tests.fuzz prints, as JSON."""
    command = [sys.executable, "-m", f"tests.fuzz.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def fed(count: int, seed: int) -> None:
    """That many inputs; a failure shows each input that failed, to be kept in found/."""
    result = child("batch", str(count), str(seed))
    assert result["made"] == []
    for target, failures in result["failures"].items():
        for failure in failures:
            print(f"{target}: {base64.b64decode(failure['input'])!r}\n{failure['why'][-1500:]}")
    assert not any(result["failures"].values())


def test_five_thousand_inputs() -> None:
    fed(5_000, 0)


@pytest.mark.slow
def test_a_hundred_thousand_inputs_or_a_million() -> None:
    for seed in range(1, 51 if MILLION else 6):
        fed(20_000, seed)


FOUND = sorted(mutate.FOUND.glob("*/*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_a_reader(path: Path) -> None:
    with guard.unwatched(), guard.soon():
        targets.TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", targets.TARGETS)
@settings(deadline=None, max_examples=30)
@given(data=st.binary(max_size=400), at=st.integers(0, 100))
def test_any_bytes_alone_and_inside_a_real_input(target: str, data: bytes, at: int) -> None:
    real = mutate.seeds(target)[at % len(mutate.seeds(target))]
    cut = len(real) * at // 100
    with guard.unwatched():
        targets.TARGETS[target](data)
        targets.TARGETS[target](real[:cut] + data + real[cut:])


def test_the_inputs_differ_and_come_back_with_their_seed() -> None:
    for target in targets.TARGETS:
        known = len(mutate.seeds(target))  # they come first, whatever the seed
        first = list(islice(mutate.inputs(target, 1), known + 400))
        assert first == list(islice(mutate.inputs(target, 1), known + 400))
        assert len(set(first[known:])) > 300
        other = islice(mutate.inputs(target, 2), known, known + 400)
        assert len(set(first[known:]) & set(other)) < 10  # the shortest ones, such as b""


def test_many_inputs_are_still_read() -> None:
    """Inputs that are all refused at once would test little."""
    for target, read in (("config", read_config), ("log", read_log)):
        texts = [targets.decoded(data) for data in islice(mutate.inputs(target, 3), 150)]
        assert sum(targets.answer(lambda t=text, r=read: r(t)) is not None for text in texts) > 45


TOUCHES: dict[str, Callable[[Path], object]] = {
    "open": lambda folder: (folder / "x").open("w"),
    "evaluate": lambda _: eval("1 + 1"),
    "execute": lambda _: exec("x = 1"),
    "compile": lambda _: compile("1", "x", "eval"),
    "shell": lambda folder: os.system(f"touch {folder}/x"),
    "process": lambda folder: subprocess.run(["touch", str(folder / "x")], check=False),
    "network": lambda _: socket.create_connection(("127.0.0.1", 9)),
    "name": lambda _: socket.getaddrinfo("localhost", 80),
    "list": lambda folder: os.listdir(folder),
    "import": lambda _: __import__("antigravity"),
    "remove": lambda folder: os.remove(folder / "kept"),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_the_guard_sees_whatever_is_touched(touch: str, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(guard.Touched), guard.nothing_touched():
        TOUCHES[touch](tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_guard_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CPU_S", 0.05)
    with pytest.raises(guard.Slow), guard.soon():
        all(iter(lambda: 1, 0))  # for ever, in steps


def test_an_error_that_is_not_our_own_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="raised"):
        targets.answer(lambda: int("x"))
    with pytest.raises(AssertionError, match="raised"):
        targets.answer(lambda: read_config(str(10**4000 * 10**4000)))


def test_a_failure_comes_back_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        assert b"8" not in data

    monkeypatch.setitem(targets.TARGETS, "trace", broken)
    assert batch.broken("trace", b"7") is None
    assert "assert b" in str(batch.broken("trace", b"8"))


@pytest.mark.parametrize(
    "value",
    ["$((4*2))", "2**3", "8+0", "${TP:-8}", "`echo 8`", "$(echo 8)", "{{ 8 }}", "__import__('os')"],
)
def test_what_would_have_to_be_evaluated_is_not_known(value: str) -> None:
    text = f"python3 -m sglang.launch_server --model-path m --pp-size 2 --tp-size={value}"
    reading = targets.answer(lambda: read_config(text))
    assert reading is None or reading.values["tp_size"] is None


def test_ten_megabytes_in_bounded_memory() -> None:
    assert max(child("large", *QUICK).values()) < 30


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_ten_megabytes_of_every_kind(name: str) -> None:
    assert child("large", name)[name] < 60


def test_the_limit_on_memory_is_one() -> None:
    code = "from tests.fuzz import large; large.limit_memory(); bytearray(large.SPARE + 2**20)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "MemoryError" in done.stderr


def processor_s(data: bytes) -> float:
    targets.TRACE.write_bytes(data)
    start = time.process_time()
    targets.answer(lambda: targets.load_requests(targets.TRACE))
    return time.process_time() - start


@pytest.mark.parametrize("name", ["Azure", "Mooncake", "ours", "open quote"])
def test_a_trace_four_times_as_long_takes_about_four_times_as_long(name: str) -> None:
    """Nine times is twice squared and a bit: what is quadratic takes sixteen times as long."""
    data = large.TRACES[name]()[:400_000]
    data = data[: data.rfind(b"\n") + 1] or data
    short = data[: data.rfind(b"\n", 0, len(data) // 4) + 1]
    pairs = []
    for _ in range(4):  # a busy machine slows a run down, never speeds one up
        pairs.append((processor_s(short), processor_s(data)))
        once, four = (min(times) for times in zip(*pairs, strict=True))
        if four < max(9 * once, 0.05):
            return
    raise AssertionError(f"{once:.3f} s, and {four:.3f} s for four times as much")
