"""What surrounds a run: a notebook's cell, a full disk, a GPU that is not there.

The cell takes about 3 s; the rest is slow, as its ranks start cold.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from eagerbuf.repro.hang import run_hang
from eagerbuf.repro.hang.run import rank_command, run_ranks
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch import worker as launched
from eagerbuf.repro.launch.process_state import ProcessState

HOME = Path(__file__).parents[2]


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; fails after `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, condition
        time.sleep(0.02)


def test_ctrl_c_in_a_cell_leaves_the_kernel_and_nothing_else():
    manager, client = start_new_kernel(cwd=HOME)
    try:
        kernel = psutil.Process(manager.provisioner.pid)
        cell = "from eagerbuf import run_hang; run_hang(rule='tight', chunk=8192, device='cpu')"
        # Else the kernel aborts what comes within a moment of an error, as for "run all cells".
        asked = client.execute(cell, stop_on_error=False)
        wait_until(lambda: len(kernel.children()) == 2)
        ranks = kernel.children()
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=20))["parent_header"]["msg_id"] != asked:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert not [rank for rank in ranks if rank.is_running()]
        assert client.execute_interactive("1 + 1", timeout=20)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# --- the temporary folder, where there are no files in memory ---


def test_without_files_in_memory_a_folder_that_takes_none_is_named(monkeypatch):
    monkeypatch.delattr("os.memfd_create")
    monkeypatch.setattr("tempfile.tempdir", "/proc/self")
    before = psutil.Process().num_fds()
    with pytest.raises(OSError, match=r"no file to write to: .*; set TMPDIR"):
        run_hang()
    assert psutil.Process().num_fds() == before
    assert psutil.Process().children() == []


def test_a_disk_that_fills_up_between_two_files_leaves_none_open(monkeypatch):
    plain, opened = launched.unnamed_file, []

    def third_fails(name: str):
        if len(opened) == 2:
            raise OSError(28, "No space left on device")
        opened.append(plain(name))
        return opened[-1]

    monkeypatch.setattr(launched, "unnamed_file", third_fails)
    with pytest.raises(OSError, match="No space left on device"):
        run_hang()
    assert [file.closed for file in opened] == [True, True]


def test_files_of_the_temporary_folder_have_no_name_either(monkeypatch, tmp_path: Path):
    monkeypatch.delattr("os.memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = launched.unnamed_files()
    files["stderr"].write(b"a few words")
    assert list(tmp_path.iterdir()) == []
    launched.close(files)


# --- a device ---


@pytest.mark.slow
def test_a_gpu_that_is_gone_is_a_crash_with_its_reason(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    settings = Settings(device="cuda", chunk=64)
    report = run_ranks(settings, rank_command(settings))
    assert report.outcome == "crashed"
    assert "ValueError: device='cuda': torch sees no CUDA device" in report.reason
    assert [culprit.step for culprit in report.culprits] == ["rendezvous"]


@pytest.mark.slow
def test_twenty_runs_at_once_from_the_threads_of_one_process():
    """Cold ranks, forty at a time: each run ends by its own settings."""
    rules = ["tight", "pr28386"] * 10
    with ThreadPoolExecutor(20) as pool:
        runs = [
            pool.submit(run_hang, rule=rule, chunk=64, device="cpu", limit_s=600.0)
            for rule in rules
        ]
        outcomes = [run.result().outcome for run in runs]
    assert outcomes == ["completed", "hang"] * 10
    assert psutil.Process().children() == []


# --- a process's state ---


@pytest.fixture
def worker():
    """A process that computes for ever."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_stopped_until_it_goes_on(worker):
    state = ProcessState(worker.pid)
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
    state.look()
    assert not state.stopped  # one look tells nothing
    state.look()
    assert state.stopped
    worker.send_signal(signal.SIGCONT)
    time.sleep(0.05)
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
    state.look()
    assert not state.stopped  # it has run in between
    assert not state.starved


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="a kernel's way to starve a process")
def test_a_process_that_gets_no_cpu_is_starved_not_stopped(worker):
    core = min(os.sched_getaffinity(0))
    for pid in (worker.pid, (rival := subprocess.Popen([sys.executable, "-c", "while 1: 1"])).pid):
        os.sched_setaffinity(pid, {core})
    try:
        os.sched_setscheduler(worker.pid, os.SCHED_IDLE, os.sched_param(0))
        state, looks = ProcessState(worker.pid), []
        for _ in range(100):
            state.look()
            looks.append(state.starved)
            assert not state.stopped
            time.sleep(0.01)
        assert any(looks)
    finally:
        rival.kill()
        rival.wait()


def test_a_process_that_is_gone_is_neither_stopped_nor_starved(worker):
    worker.kill()
    worker.wait()
    state = ProcessState(worker.pid)
    state.look()
    state.look()
    assert (state.stopped, state.starved) == (False, False)
