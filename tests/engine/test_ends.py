"""However a run of SGLang ends, no process of it is left: Ctrl-C, a killed caller, a full disk."""

import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest

pytestmark = pytest.mark.xdist_group("engine")
RANKS_BY_S = 90  # until the ranks must have come up, also on a busy machine
GONE_BY_S = 10


@pytest.fixture
def caller(needs):
    """A process that runs an engine, as a shell would start it, and the mark of all its own."""
    needs("0.5.14")
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "eagerbuf.engine"]
    process = subprocess.Popen(
        command, env=os.environ | {"EAGERBUF_TEST": mark}, stderr=subprocess.PIPE, text=True
    )
    yield process, mark
    process.kill()
    process.wait()


def marked(mark):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("EAGERBUF_TEST") == mark and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.2)
    return condition()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_rank_outlives_its_caller(caller, number):
    process, mark = caller
    assert wait_for(lambda: len(marked(mark)) >= 5, RANKS_BY_S)  # caller, engine, ranks, tokenizer
    process.send_signal(number)
    assert wait_for(lambda: not marked(mark), GONE_BY_S)
    if number == signal.SIGINT:
        assert process.wait(GONE_BY_S) == 130
        assert "Traceback" not in process.stderr.read()


def test_flags_that_the_release_does_not_know_are_one_line_and_status_2(needs):
    needs("0.5.14")
    command = [sys.executable, "-m", "eagerbuf.engine", "--", "--chunk-size", "512"]
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert "unrecognized arguments: --chunk-size 512" in last
    assert "Traceback" not in done.stderr
