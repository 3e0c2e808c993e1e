"""The hang with real ranks: every outcome, what is reported, and that nothing outlives a call.

Under 45 s on two quiet cores, the slow ones three minutes: every rank has to import torch.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch

from eagerbuf.buffers import StaticBuffers
from eagerbuf.engine.stacks import blocked_in, relative
from eagerbuf.predictor import ChunkSizePredictor, probe_lengths
from eagerbuf.repro.hang import HangReport, run_hang
from eagerbuf.repro.hang import run as hang_run
from eagerbuf.repro.hang.groups import Groups
from eagerbuf.repro.hang.pipeline_rank import PipelineRank
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.hang.stage import Stage, milliseconds
from eagerbuf.repro.hang.start_up import init_chunked_prefill, sweep
from eagerbuf.repro.launch import worker_group
from eagerbuf.repro.launch.event_log import EventLog
from eagerbuf.repro.launch.outcome import Culprit, StallClock, ended_first, judge, root_cause
from eagerbuf.repro.launch.status import WorkerStatus

MARK = f"eagerbuf-test-{os.getpid()}"
BROADCAST = "broadcast < broadcast_object_list < profile_and_init_predictor < init_chunked_prefill"
ABSOLUTE = re.compile(r"(?<![\w.:-])/\w+/")


def marked() -> list[psutil.Process]:
    """Living processes that carry this test's mark in their environment, except this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("EAGERBUF_TEST") == MARK and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found


def ranks_of(parent: int) -> list[psutil.Process]:
    """The rank processes that `parent` has started, in order of rank."""
    children = psutil.Process(parent).children(recursive=True)
    ranks = [child for child in children if "eagerbuf.repro.hang" in child.cmdline()]
    return sorted(ranks, key=lambda child: json.loads(child.environ()["EAGERBUF_WORKER"])["rank"])


def wait_until(condition, seconds: float = 30.0):
    """The first true value of `condition`; fails after `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if value := condition():
                return value
        except (psutil.Error, KeyError):
            pass
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {condition}")


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tmp_path_factory) -> Iterator[None]:
    """After every test: no process with the mark, no child, no open file or folder of a run."""
    folder = tmp_path_factory.mktemp("tmp")
    monkeypatch.setenv("EAGERBUF_TEST", MARK)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    files = psutil.Process().num_fds()
    yield
    left = marked()
    for process in left:  # started by this test, as the mark says
        process.kill()
    assert left == []
    assert not [child for child in psutil.Process().children() if child.status() == "zombie"]
    assert list(folder.iterdir()) == []
    assert psutil.Process().num_fds() <= files + 2  # torch and tqdm may open one of their own


def check_face(report: HangReport) -> None:
    """What holds for any report: columns, plain JSON, relative paths, one row a rank."""
    assert list(report.ranks) == ["rank", "last_step", "seconds_since", "blocked_in"]
    assert list(report.samples) == ["probe", "num_tokens", "latency_ms"]
    assert list(report.model) == ["rank", "enabled", "a", "b", "c"]
    assert list(report.events) == ["rank", "seconds", "step"]
    assert report.ranks["rank"].tolist() == list(range(report.settings.ranks))
    assert (report.ranks["seconds_since"] >= 0).all()
    assert all(isinstance(found, Culprit) for found in report.culprits)
    assert report.culprits or report.outcome == "completed"
    assert report.events.groupby("rank")["seconds"].is_monotonic_increasing.all()
    plain = json.dumps(report.to_dict())
    assert json.loads(plain)["outcome"] == report.outcome
    for text in (plain, str(report), report._repr_html_()):
        assert not ABSOLUTE.search(re.sub(r"</\w+>", "", text)), text


# --- the outcomes ---


def test_a_chunk_sized_buffer_and_a_failure_that_only_rank_0_knows_of_hang_two_ranks():
    report = run_hang(stall_s=1.0)
    check_face(report)
    assert report.outcome == "hang"
    assert report.failure is not None
    assert "batch of 640 tokens" in report.failure
    assert "buffer of 512 tokens" in report.failure
    rank0, rank1 = report.ranks.to_dict("records")
    assert rank0["last_step"] == "round 0, micro-batch 1: wait for the last send of requests"
    assert rank0["blocked_in"] == "commit < pass_requests < event_loop"
    assert rank1["last_step"] == "broadcast of the samples"
    assert rank1["blocked_in"] == BROADCAST
    assert (report.ranks["seconds_since"] >= 1.0).all()
    assert 'File "eagerbuf/repro/hang/start_up.py"' in report.stacks[1]
    assert 'File "torch/distributed/distributed_c10d.py"' in report.stacks[1]
    assert report.samples.empty
    assert report.model["enabled"].tolist()[0] is False
    assert report.model["enabled"].isna().tolist() == [False, True]
    assert report.where["device"] in ("cpu", "cuda:0")


@pytest.mark.slow
def test_four_ranks_hang_three_of_them_in_the_broadcast():
    report = run_hang(ranks=4, chunk=64, stall_s=1.0, device="cpu")
    check_face(report)
    assert report.outcome == "hang"
    assert report.ranks["blocked_in"].tolist()[1:] == [BROADCAST] * 3
    assert report.ranks["blocked_in"].tolist()[0] == "commit < pass_requests < event_loop"


def test_a_buffer_for_the_probe_completes_with_one_model_on_all_ranks():
    report = run_hang(rule="tight", stall_s=1.0, device="cpu")
    check_face(report)
    assert report.outcome == "completed"
    assert report.failure is None
    assert report.stacks == {}
    assert report.ranks["blocked_in"].isna().all()
    assert report.ranks["last_step"].tolist() == ["done", "done"]
    assert report.samples["num_tokens"].tolist() == [640 - 5 * i for i in range(128)]
    assert (report.samples["latency_ms"] > 0).all()
    assert report.model["enabled"].tolist() == [True, True]
    first, second = report.model.drop(columns="rank").to_dict("records")
    assert first == second
    assert first["a"] > 0
    assert report.where["buffer_nbytes"] == 640 * 48 + 4 * 16


def test_a_failure_that_is_broadcast_turns_dynamic_chunking_off_everywhere():
    report = run_hang(on_failure="broadcast", stall_s=1.0, device="cpu")
    check_face(report)
    assert report.outcome == "completed"
    assert "batch of 640 tokens" in str(report.failure)
    assert report.model["enabled"].tolist() == [False, False]
    runs = report.events[report.events["step"].str.contains("run 512 tokens")]
    assert runs["rank"].value_counts().to_dict() == {0: 6, 1: 6}


def test_the_limit_ends_a_run_that_still_moves():
    report = run_hang(rule="tight", chunk=8192, stall_s=1.0, limit_s=3.0, device="cpu")
    check_face(report)
    assert report.outcome == "overtime"
    assert report.culprits[0].step in report.reason
    assert 3.0 <= report.seconds < 8.0
    assert set(report.stacks) == {0, 1}
    assert report.ranks["blocked_in"].isna().all()


def test_a_killed_rank_is_named_not_the_one_that_it_takes_along():
    with ThreadPoolExecutor() as pool:
        future = pool.submit(run_hang, rule="tight", chunk=4096, device="cpu")
        ranks = wait_until(lambda: [r for r in ranks_of(os.getpid()) if r.num_threads() > 5][1:])
        time.sleep(0.5)
        ranks_of(os.getpid())[0].kill()
        report = future.result(30)
    check_face(report)
    assert len(ranks) == 1
    assert report.outcome == "crashed"
    assert "rank 0 ended by itself" in report.reason
    assert "exit code -9 (SIGKILL)" in report.reason


def test_a_rank_that_cannot_start_is_named_with_its_last_words(monkeypatch):
    script = (
        "import json, os, sys, time\n"
        "print('first words', file=sys.stderr)\n"
        "rank = json.loads(os.environ['EAGERBUF_WORKER'])['rank']\n"
        "time.sleep(60) if rank == 0 else sys.exit('out of luck')"
    )
    monkeypatch.setattr(hang_run, "rank_command", lambda _: [sys.executable, "-c", script])
    report = run_hang()
    check_face(report)
    assert report.outcome == "crashed"
    assert report.reason == (
        "rank 1 ended by itself at 'not started', exit code 1; "
        "its last line on standard error: out of luck"
    )
    assert report.stacks == {1: "first words\nout of luck"}


@pytest.mark.slow
def test_a_rank_that_is_stopped_for_less_than_the_stall_does_no_harm():
    with ThreadPoolExecutor() as pool:
        future = pool.submit(run_hang, rule="tight", stall_s=6.0, device="cpu")
        for rank in (0, 1):
            wait_until(lambda: [r for r in ranks_of(os.getpid()) if r.num_threads() > 5][1:])
            process = ranks_of(os.getpid())[rank]
            process.suspend()
            time.sleep(2.0)
            process.resume()
        assert future.result(60).outcome == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 8])
def test_other_numbers_of_ranks_complete(ranks: int):
    report = run_hang(ranks=ranks, rule="pr28677", chunk=128, device="cpu")
    check_face(report)
    assert report.outcome == "completed"
    assert report.model["a"].nunique() == 1


@pytest.mark.slow
def test_the_smallest_chunk_makes_128_equal_probes():
    report = run_hang(rule="tight", chunk=1, device="cpu")
    assert report.outcome == "completed"
    assert report.samples["num_tokens"].tolist() == [1] * 128


@pytest.mark.parametrize("on_failure", ["rank0_only", "broadcast"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_fit_that_fails_turns_dynamic_chunking_off_on_any_rank(monkeypatch, on_failure, place):
    lengths = list(range(640, 0, -5))
    samples = lengths, [(10.0 - (length / 640) ** 2) for length in lengths]
    lines: list[dict] = []
    log = EventLog(lambda line: lines.append(json.loads(line)), 0.0)
    groups = Groups(place, 2, torch.device("cpu"), None, None, "gloo")
    settings = Settings(rule="tight", on_failure=on_failure)
    rank = PipelineRank(groups, settings, StaticBuffers(settings.size), None, log)  # type: ignore[arg-type]

    def broadcast(box: list, **_) -> None:
        box[:] = list(samples) if len(box) == 2 else [samples]

    monkeypatch.setattr("eagerbuf.repro.hang.start_up.profile_prefill_latency", lambda _: samples)
    monkeypatch.setattr("torch.distributed.broadcast_object_list", broadcast)
    assert init_chunked_prefill(rank) is None
    assert lines[-1]["step"] == "dynamic chunking disabled"
    assert "(a > 0)" in lines[-1]["note"]["failure"]


# --- nothing outlives the launcher ---


def launcher(after_s: float, number: int) -> subprocess.Popen[str]:
    """A process that calls run_hang and gets a signal, `after_s` seconds after its ranks appear."""
    script = (  # a shell starts what it puts in the background with SIGINT ignored
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from eagerbuf import run_hang; run_hang(rule='tight', chunk=8192)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    wait_until(lambda: len(ranks_of(process.pid)) == 2 or process.poll())
    time.sleep(after_s)
    assert marked()
    process.send_signal(number)
    return process


def test_ctrl_c_leaves_nothing():
    process = launcher(1.0, signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    assert stderr.strip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_a_killed_launcher_takes_its_ranks_along(after_s: float):
    process = launcher(after_s, signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until(lambda: not marked(), 5)


def test_an_error_in_the_launcher_ends_the_ranks(monkeypatch):
    started = []

    def broken(*_):
        started.extend(ranks_of(os.getpid()))
        raise OSError("no more")

    monkeypatch.setattr(worker_group, "judge", broken)
    with pytest.raises(OSError, match="no more"):
        run_hang()
    assert len(started) == 2


def test_a_start_that_fails_halfway_ends_the_ranks_that_there_are(monkeypatch):
    start, started = subprocess.Popen, []

    def only_once(*args, **kwargs):
        if started:
            raise OSError("no more processes")
        started.append(start(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(worker_group.subprocess, "Popen", only_once)
    with pytest.raises(OSError, match="no more processes"):
        run_hang()
    assert started[0].returncode == -signal.SIGKILL


# --- refused arguments ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": 1}, r"ranks=1: must be 2 to 8"),
        ({"ranks": 9}, r"ranks=9: must be 2 to 8"),
        ({"ranks": 2.5}, r"ranks=2.5: give a whole number, 2 to 8"),
        ({"ranks": True}, r"ranks=True: must be 2 to 8"),
        ({"rule": "pr1"}, r"rule='pr1': unknown, give one of pr28386, "),
        (
            {"on_failure": "ignore"},
            r"on_failure='ignore': unknown, give one of rank0_only, broadcast",
        ),
        ({"chunk": 0}, r"chunk=0: must be at least 1"),
        ({"chunk": -1}, r"chunk=-1: must be at least 1"),
        ({"stall_s": 0}, r"stall_s=0: must be finite and greater than 0"),
        ({"stall_s": "x"}, r"stall_s='x': give a number of seconds"),
        ({"stall_s": math.nan}, r"stall_s=nan: must be finite"),
        ({"limit_s": 3.0}, r"limit_s=3.0: must be finite and greater than stall_s=3.0"),
        ({"limit_s": math.inf}, r"limit_s=inf: must be finite"),
        ({"device": "tpu"}, r"device='tpu': unknown, give one of auto, cpu, cuda"),
    ],
)
def test_arguments_out_of_their_limits_start_nothing(monkeypatch, arguments, message: str):
    monkeypatch.setattr(worker_group.WorkerGroup, "run", lambda _: pytest.fail("started"))
    with pytest.raises(ValueError, match=message):
        run_hang(**arguments)


def test_cuda_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda': torch sees no CUDA device"):
        run_hang(device="cuda")


def test_settings_stand_for_a_pipeline_with_dynamic_chunks():
    assert Settings(chunk=512).size.max_num_tokens == 512
    assert Settings(chunk=512, rule="tight").size.max_num_tokens == 640
    assert Settings(chunk=512, rule="pr28677").size.max_num_tokens == 16384
    assert Settings(chunk=512, rule="pr28894").size.max_num_tokens == 16384 + 8 * 512


# --- who is blocked: the watcher's judgement, without processes ---


def seen(rank: int, *steps: str, waits: bool = False, **known) -> WorkerStatus:
    lines = [{"t": float(i), "step": step, "waits": False} for i, step in enumerate(steps)]
    if lines:
        lines[-1]["waits"] = waits
    return WorkerStatus(rank, lines, asleep=known.pop("asleep", True), **known)


def stalled_after(ranks: list[WorkerStatus], seconds: int = 60) -> str | None:
    """The verdict when nothing changes for `seconds`, looked at four times a second."""
    clock = StallClock()
    for tick in range(4 * seconds):
        verdict = judge(ranks, clock, tick / 4, stall_s=3.0, limit_s=1000.0)
        if verdict:
            return verdict
    return None


def test_all_waiting_and_asleep_is_a_hang():
    ranks = [seen(0, "ready", "send", waits=True), seen(1, "ready", "broadcast", waits=True)]
    assert stalled_after(ranks) == "hang"
    assert stalled_after(ranks, seconds=3) is None


@pytest.mark.parametrize(
    "first",
    [
        seen(0, "ready", "probe"),
        seen(0, "start", waits=True),
        seen(0),
        seen(0, "ready", "send", waits=True, asleep=False),
    ],
    ids=["computing", "not ready", "not started", "runnable or stopped"],
)
def test_a_rank_that_is_not_blocked_is_no_hang(first: WorkerStatus):
    assert stalled_after([first, seen(1, "ready", "broadcast", waits=True)]) is None


def test_growing_cpu_time_is_no_hang_and_a_tick_of_noise_does_not_hide_one():
    for growth, verdict in ((0.02, None), (0.0005, "hang")):
        ranks = [seen(0, "ready", "send", waits=True), seen(1, "ready", "broadcast", waits=True)]
        clock, found = StallClock(), None
        for tick in range(100):
            ranks[0].cpu_s += growth
            found = found or judge(ranks, clock, tick / 4, stall_s=3.0, limit_s=1000.0)
        assert found == verdict


def test_a_wait_on_cuda_spins_and_is_blocked_all_the_same():
    ranks = [seen(r, "ready", "broadcast", waits=True, asleep=False) for r in range(2)]
    for rank in ranks:
        rank.lines[0]["note"] = {"device": f"cuda:{rank.rank}"}
    assert stalled_after(ranks) == "hang"


def test_a_pause_of_the_watcher_itself_is_no_stall():
    ranks = [seen(0, "ready", "send", waits=True), seen(1, "ready", "broadcast", waits=True)]
    clock = StallClock()
    verdicts = [judge(ranks, clock, now, 3.0, 1000.0) for now in (0.0, 0.25, 100.0, 100.25)]
    assert verdicts == [None] * 4


def test_a_new_line_of_one_rank_starts_the_clock_again():
    ranks = [seen(0, "ready", "send", waits=True), seen(1, "ready", "broadcast", waits=True)]
    clock = StallClock()
    for tick in range(200):
        if tick % 10 == 0:
            ranks[1].lines.append({"t": 9.0, "step": "broadcast", "waits": True})
        assert judge(ranks, clock, tick / 4, 3.0, 1000.0) is None


def test_a_rank_that_stands_stopped_is_a_hang_once_the_others_wait_for_it():
    stopped = seen(0, "start", stopped=True, asleep=False)
    waiting = seen(1, "rendezvous", waits=True)
    assert stalled_after([stopped, waiting]) == "hang"
    assert stalled_after([seen(0, "start"), waiting]) is None
    assert stalled_after([stopped, seen(1, "ready", "probe")]) is None
    assert stalled_after([stopped, seen(1, "ready", "done")]) == "hang"


def test_while_a_rank_gets_no_cpu_the_clock_stands_still():
    ranks = [seen(0, "ready", "send", waits=True), seen(1, "ready", "broadcast", waits=True)]
    clock, verdicts = StallClock(), []
    for tick in range(60):
        ranks[0].starved = tick < 40 and tick % 2 == 1
        verdicts.append(judge(ranks, clock, tick / 10, 3.0, 1000.0))
    # the first look starts the clock; half of the next 39 count, then all do
    assert verdicts.index("hang") == 40 + 10


def test_completed_needs_every_rank_and_overtime_comes_last():
    done, waiting = seen(0, "ready", "done"), seen(1, "ready", "barrier", waits=True)
    assert judge([done, seen(1, "ready", "done")], StallClock(), 2.0, 3.0, 1.0) == "completed"
    assert judge([done, waiting], StallClock(), 2.0, 3.0, 1.0) == "overtime"
    assert stalled_after([done, waiting]) == "hang"


def test_the_culprit_is_the_one_that_did_not_lose_a_peer():
    lost, killed = seen(0, "ready", exit_code=3), seen(1, "ready", exit_code=-9)
    assert ended_first([lost, killed]) is killed
    assert ended_first([lost, seen(1)]) is lost
    assert ended_first([seen(0), seen(1)]) is None
    assert stalled_after([lost, killed]) == "crashed"


def ended(rank: int, exit_code: int, *, raised: float | None = None, **known) -> WorkerStatus:
    status = seen(rank, "ready", "probe", exit_code=exit_code, **known)
    if raised is not None:
        status.lines.append({"t": raised, "note": {"raised": "RuntimeError: closed by peer"}})
    return status


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (ended(1, 3, raised=5.0), ended(0, 1, raised=5.1)),
        (ended(1, 3, raised=5.0), ended(0, 3, raised=5.1)),
        (ended(1, -9, ended=6.0), ended(0, 1, raised=5.0)),
        (ended(1, 1, raised=5.0), ended(0, -6, ended=6.0)),
        (ended(1, -6, ended=6.0), ended(0, 3, raised=5.0)),
        (ended(1, 70, ended=6.0), ended(0, 3, raised=5.0)),
    ],
    ids=["code 1 later", "both lost", "killed", "abort later", "abort", "without a word"],
)
def test_who_ended_first_is_blamed(first: WorkerStatus, other: WorkerStatus):
    assert ended_first([other, first]) is first


def test_ranks_that_are_all_through_have_completed_whatever_ends_them_then():
    through = seen(0, "ready", "done", exit_code=-9), seen(1, "ready", "done")
    assert stalled_after(list(through)) == "completed"
    assert stalled_after([through[0], seen(1, "ready", "barrier", waits=True)]) == "crashed"


def failed(rank: int, at: float, **known) -> WorkerStatus:
    status = seen(rank, "ready", "sweep", "disabled", "send", waits=True, **known)
    status.lines[2] |= {"t": at, "note": {"failure": "too large"}}
    return status


def test_an_outcome_is_down_to_the_ranks_that_held_the_others_up():
    waiting = seen(1, "ready", "broadcast", waits=True)
    stopped = seen(2, "ready", "fit", stopped=True)
    computing = seen(3, "ready", "probe", asleep=False)
    assert root_cause("hang", [failed(0, 2.0), waiting]) == (Culprit(0, "sweep"),)
    assert root_cause("hang", [failed(0, 2.0), waiting, failed(2, 1.0)]) == (Culprit(2, "sweep"),)
    assert root_cause("hang", [failed(0, 2.0), failed(1, 1.0)]) == ()
    assert root_cause("hang", [failed(0, 2.0), waiting, stopped]) == (Culprit(2, "fit"),)
    assert root_cause("overtime", [waiting, computing]) == (Culprit(3, "probe"),)
    assert root_cause("overtime", [waiting, stopped, computing]) == (Culprit(2, "fit"),)
    assert root_cause("crashed", [waiting, ended(0, -9)]) == (Culprit(0, "probe"),)
    assert root_cause("completed", [computing, stopped]) == ()


# --- stacks ---


def test_a_folder_with_a_blank_in_its_name_is_taken_off(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/a folder/of mine", *sys.path])
    stack = '  File "/a folder/of mine/eagerbuf/repro/hang/start_up.py", line 3 in wait'
    assert relative(stack) == '  File "eagerbuf/repro/hang/start_up.py", line 3 in wait'


def test_no_path_stays_absolute():
    text = (
        f'  File "{threading.__file__}", line 1 in wait\n'
        f'  File "{worker_group.__file__}", line 2 in watch\n'
        f'  File "{pytest.__file__}", line 3 in x\n'
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] closed [127.0.0.1]:4"
    )
    assert relative(text) == (
        '  File "threading.py", line 1 in wait\n'
        '  File "eagerbuf/repro/launch/worker_group.py", line 2 in watch\n'
        '  File "pytest/__init__.py", line 3 in x\n'
        "[tcp/pair.cc:547] closed [127.0.0.1]:4"
    )


def test_blocked_in_stops_at_the_ranks_own_start():
    stack = (
        'Stack (most recent call first):\n  File "a/torch/x.py", line 1 in recv\n'
        '  File "b.py", line 2 in loop\n'
        '  File "c.py", line 3 in run_rank\n  File "d.py", line 4 in x'
    )
    assert blocked_in(stack, ("run_rank",)) == "recv < loop"


# --- the latency fit on a busy machine ---


@pytest.mark.slow
def test_the_fit_holds_while_both_cores_are_busy():
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        torch.set_num_threads(1)
        stage, device, lengths = Stage(torch.device("cpu")), torch.device("cpu"), probe_lengths(512)
        log = EventLog(lambda _: None, 0.0)

        def measure(length: int) -> float:
            positions = torch.arange(length)
            return milliseconds(lambda: stage.forward(stage.embed(positions, positions)), device)

        for _ in range(10):
            model = ChunkSizePredictor().fit(lengths, sweep(lengths, measure, log))
            assert model.a is not None
            assert model.a > 1e-6
    finally:
        for load in loads:
            load.kill()
            load.wait()
