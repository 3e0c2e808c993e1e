"""A program and what it starts: when nothing moves, where it stands, and that nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from eagerbuf.engine.environment import run_folder
from eagerbuf.engine.stacks import blocked_in, relative
from eagerbuf.engine.supervise import Session, StallClock

WAITS = """
import faulthandler, os, signal, subprocess, sys, time
faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=False)
def wait_for_ever():
    print("waits", flush=True)
    time.sleep(600)
"""
FAMILY = (
    WAITS
    + """
child = "import os, time; os.fork() or os.fork(); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child])
time.sleep(1)
wait_for_ever()
"""
)


@pytest.fixture
def start():
    sessions = []

    def begin(code):
        sessions.append(Session([sys.executable, "-c", code], os.environ))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.end()


def said(session, word, seconds=20):
    text, until = "", time.monotonic() + seconds
    while word not in text and time.monotonic() < until:
        text += session.new_text()
        time.sleep(0.05)
    assert word in text
    return text


def test_nothing_that_it_started_outlives_it(start):
    session = start(FAMILY)
    said(session, "waits")
    family = session.processes()
    assert len(family) >= 4
    session.end()
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_orphans_are_found_when_the_program_itself_is_gone(start):
    session = start(FAMILY)
    said(session, "waits")
    os.kill(session.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while session.exit_code() is None and time.monotonic() < until:
        time.sleep(0.05)
    orphans = session.processes()
    assert len(orphans) >= 3
    session.end()
    assert not [p for p in orphans if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_a_blocked_process_writes_where_it_is(start):
    session = start(WAITS + "wait_for_ever()")
    said(session, "waits")
    stack = session.stack(psutil.Process(session.pid))
    assert blocked_in(stack) == "wait_for_ever < <module>"


def test_what_was_written_comes_in_whole_lines(start):
    session = start("import time; print('one\\ntw', end='', flush=True); time.sleep(600)")
    assert said(session, "one") == "one\n"


def test_the_clock_runs_only_while_nothing_moves():
    clock = StallClock()
    assert clock.tick(0.4, wrote=False, cpu_s=0.0, kept=False) == pytest.approx(0.4)
    assert clock.tick(0.8, wrote=False, cpu_s=0.0, kept=True) == pytest.approx(0.4)
    assert clock.tick(1.2, wrote=False, cpu_s=0.01, kept=False) == pytest.approx(0.8)
    assert clock.tick(1.6, wrote=False, cpu_s=0.3, kept=False) == 0.0
    assert clock.tick(9.0, wrote=False, cpu_s=0.3, kept=False) == pytest.approx(0.5)
    assert clock.tick(9.2, wrote=True, cpu_s=0.3, kept=False) == 0.0


def test_paths_lose_the_folders_of_packages():
    text = '  File "/somewhere/else/sglang-1/sglang/srt/a.py", line 3 in f'
    assert '"sglang/srt/a.py"' in relative(text, ["/somewhere/else/sglang-1"])
    assert '"srt/a.py"' in relative(text)


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next():
    code = "import os; from eagerbuf.engine.environment import run_folder as f\n"
    code += "with f() as folder: print(folder, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    with run_folder() as folder:
        assert Path(folder).is_dir()
        assert not left.exists()
    assert not Path(folder).exists()
