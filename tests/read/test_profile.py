"""A log that itself shows the failed latency profile, or that ends in it."""

from __future__ import annotations

import pytest

from eagerbuf import check, read_config
from eagerbuf.diagnose.report import Report
from eagerbuf.read.profile import Profile, profile_in

DUMP = (
    "[2026-06-30 10:00:00] server_args=ServerArgs(model_path='m', tp_size=8, pp_size=4, "
    "chunked_prefill_size=12288, max_running_requests=128, max_prefill_tokens=16384, "
    "enable_dynamic_chunking={})\n"
)
LINE = (
    "[2026-06-30 10:02:00 PP0 TP0] max_total_num_tokens=400000, chunked_prefill_size=12288, "
    "max_prefill_tokens=16384, max_running_requests=128, context_len=65536\n"
)
BAR = "Profiling prefill latency for dynamic chunking:"
START = f"{BAR}   0%|          | 0/128 [00:00<?, ?it/s]"
SOME = f"{START}\r{BAR}  25%|██▌       | 32/128 [00:09<00:27,  3.45it/s]"
SIZES = (
    "The size of tensor a (12288) must match the size of tensor b (15360) "
    "at non-singleton dimension 0"
)
STARTS = DUMP.format(True) + LINE + START + "\n"


def failed(error: str, rank: str = "PP0 TP0") -> str:
    return (
        f"[2026-06-30 10:02:03 {rank}] [PP Dynamic Chunk] Failed to profile prefill latency: "
        f"{error}. Dynamic chunking will be disabled.\n"
    )


def judged(text: str, release: str) -> Report:
    return check(read_config(text, release=release))


def message(report: Report, code: str, severity: str) -> str:
    (found,) = [f for f in report.findings if (f.code, f.severity) == (code, severity)]
    return found.message


@pytest.mark.parametrize("release", ["0.5.12", "0.5.14", "0.5.18"])
def test_a_failure_that_only_one_rank_knows_of_is_a_hang(release: str) -> None:
    report = judged(STARTS + failed("'X' object has no attribute 'y'"), release)
    assert report.verdict == "hangs"
    told = message(report, "profile-hang", "error")
    assert "failed: 'X' object has no attribute 'y'; only PP rank 0" in told
    assert "overflow" not in told
    assert "profile-fails" not in {finding.code for finding in report.findings}


@pytest.mark.parametrize("release", ["0.5.20", "0.5.23"])
def test_a_failure_that_every_rank_knows_of_is_a_warning(release: str) -> None:
    report = judged(STARTS + failed(f"RuntimeError('{SIZES}')"), release)
    assert report.verdict == "fits"
    told = message(report, "profile-fails", "warning")
    assert "a probe of 15360 tokens overflowed the buffer of 12288" in told
    assert "dynamic chunking is off" in told
    assert "profile-hang" not in {finding.code for finding in report.findings}


def test_an_overflow_is_told_with_its_sizes() -> None:
    report = judged(STARTS + failed(SIZES), "0.5.14")
    told = message(report, "profile-hang", "error")
    assert "a probe of 15360 tokens overflowed the buffer of 12288" in told
    assert report.affected.startswith("hangs in 0.5.14, ")  # no other release wrote this log
    assert report.rules["pr28677"].verdict == "hangs"
    assert report.rules["pr28894"].verdict == "fits"


FIT = "ValueError('Failed to fit coefficients: insufficient rank')"
FIT_FAILED = failed(FIT).replace("profile prefill latency", "fit the chunk-size predictor")


@pytest.mark.parametrize("release", ["0.5.20", "0.5.23"])
def test_a_fit_that_fails_is_told_and_no_hang(release: str) -> None:
    report = judged(STARTS + FIT_FAILED, release)
    assert report.verdict == "fits"
    told = message(report, "profile-fails", "warning")
    assert f"the fit of the latency model failed: {FIT}; dynamic chunking is off" in told
    assert "profile-hang" not in {finding.code for finding in report.findings}


def test_a_fit_fails_on_every_rank_alike() -> None:
    assert profile_in(STARTS + FIT_FAILED) == Profile(FIT, in_fit=True)
    assert judged(STARTS + FIT_FAILED, "0.5.18").verdict == "fits"
    assert profile_in(STARTS + failed("no") + STARTS + FIT_FAILED) == Profile(FIT, in_fit=True)
    assert profile_in(STARTS + FIT_FAILED + STARTS + failed("no")) == Profile("no")
    cut = "\n".join(FIT_FAILED[i : i + 80] for i in range(0, len(FIT_FAILED), 80))
    assert profile_in(cut) == Profile(FIT, in_fit=True)


def test_a_server_that_serves_did_not_hang() -> None:
    text = STARTS + failed("no") + "[2026-06-30 10:03:00 PP0 TP0] Prefill batch, #new-seq: 1,\n"
    report = judged(text, "0.5.14")
    assert report.verdict == "fits"
    assert "failed: no; dynamic chunking is off" in message(report, "profile-fails", "warning")


def test_a_profile_that_went_well_afterwards_counts() -> None:
    ready = "[PP Dynamic Chunk] [PP0] Predictor ready (quadratic). Target latency: 9.00ms\n"
    assert profile_in(STARTS + failed("no") + STARTS + ready) is None
    assert judged(STARTS + failed("no") + STARTS + ready, "0.5.14").verdict == "fits"


def test_static_chunks_have_no_profile() -> None:
    report = judged(DUMP.format(False) + LINE + failed("no"), "0.5.14")
    assert report.verdict == "fits"
    assert not report.findings or {f.severity for f in report.findings} == {"info"}


@pytest.mark.parametrize(
    "text",
    [
        LINE + failed(SIZES),  # the resolved values alone: pipeline and chunking are not known
        f"python -m sglang.launch_server --model-path m $ARGS\n{failed(SIZES)}",
        "sglang serve --model-path m --tp 8 --pp-size 4 --enable-dynamic-chunking\n"
        + failed(SIZES),
    ],
)
def test_what_is_unknown_does_not_undo_what_the_log_shows(text: str) -> None:
    assert judged(text, "0.5.19").verdict == "hangs"
    assert message(judged(text, "0.5.19"), "profile-hang", "error")
    assert judged(text, "0.5.20").verdict != "hangs"


@pytest.mark.parametrize(
    ("bar", "at"),
    [
        (START, "0/128"),
        (START + "\n\n", "0/128"),
        (SOME, "32/128"),
        (SOME[:-12] + "\n" + SOME[-12:], "32/128"),
        (BAR[:-1], ""),
    ],
)
@pytest.mark.parametrize(("release", "why"), [("0.5.18", "only PP rank 0"), ("0.5.20", "waits")])
def test_a_log_that_ends_in_the_profile(bar: str, at: str, release: str, why: str) -> None:
    report = judged(DUMP.format(True) + LINE + bar, release)
    assert report.verdict == "fits"
    told = message(report, "profile-hang", "warning")
    assert (f"at probe {at}" in told) is bool(at)
    assert why in told
    (found,) = [f for f in report.findings if f.code == "profile-hang"]
    assert "py-spy" in found.remedy


def test_a_profile_that_something_follows_is_not_where_the_log_ends() -> None:
    assert profile_in(SOME + "\n[2026-06-30 10:03:00 PP0 TP0] The server is ready\n") is None
    assert profile_in(DUMP) is None


@pytest.mark.parametrize("cut", [80, 100, 119])
def test_a_failure_that_a_terminal_broke(cut: int) -> None:
    line = failed(SIZES).rstrip()
    broken = "\n".join(line[i : i + cut] for i in range(0, len(line), cut))
    assert profile_in(broken) == Profile(SIZES)
    assert profile_in(line[:140]) == Profile(line[:140].split("latency: ")[1])


def test_the_line_of_the_failure_alone_is_enough_for_the_hang() -> None:
    report = judged(failed(SIZES), "0.5.14")
    assert report.verdict == "hangs"
    assert message(report, "profile-hang", "error")
    assert judged(failed(SIZES), "0.5.20").verdict == "unknown"
    assert judged(START, "0.5.14").verdict == "unknown"


def test_a_failure_of_an_earlier_start_up_is_not_the_last_ones() -> None:
    again = DUMP.replace("12288", "8192").format(True) + LINE.replace("12288", "8192")
    report = judged(STARTS + failed("boom") + again, "0.5.14")
    assert report.verdict == "fits"
    assert "boom" not in str(report)
    assert "2 start-ups" in str(report)
    ended = judged(DUMP.replace("12288", "8192").format(True) + START + "\n" + STARTS, "0.5.14")
    assert "0/128" in message(ended, "profile-hang", "warning")


def test_ranks_that_print_their_dumps_are_one_start_up() -> None:
    dump = DUMP.format(True)
    report = judged(dump + dump + LINE + failed("boom") + dump, "0.5.14")
    assert report.verdict == "hangs"
    old = DUMP.replace("12288", "8192").format(True)
    report = judged(old + old + dump + LINE + failed("boom") + dump, "0.5.14")
    assert report.verdict == "hangs"
    assert "2 start-ups" in str(report)


STALLS = [
    "[2026-06-30 10:07:00 PP1 TP0] Watchdog timeout (self.watchdog_timeout=300, soft=False)",
    "[2026-06-30 10:07:00 PP1 TP0] Pyspy dump for PID 77:\nProcess 77: python3\nThread 77 (idle)",
    "[2026-06-30 10:07:00] Health check failed. Server couldn't get a response from detokenizer",
    "[rank1]:[E630 10:12:00 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation",
    "[2026-06-30 10:07:00] Scheduler hit an exception: Traceback (most recent call last):\n  File",
]


@pytest.mark.parametrize("after", STALLS)
def test_a_hang_whose_log_goes_on_with_a_stall(after: str) -> None:
    for bar in (SOME, SOME + "\n[2026-06-30 10:02:05 PP2 TP0] something else"):
        assert profile_in(f"{STARTS}{bar}\n{after}\n") == Profile(at="32/128")
    report = judged(f"{STARTS}{SOME}\n{after}\n", "0.5.14")
    assert "at probe 32/128" in message(report, "profile-hang", "warning")


@pytest.mark.parametrize("after", STALLS)
@pytest.mark.parametrize(
    "goes_on",
    [
        "[2026-06-30 10:03:00 PP0 TP0] [PP Dynamic Chunk] [PP0] Predictor ready (quadratic). X",
        "[2026-06-30 10:03:00 PP0 TP0] Prefill batch, #new-seq: 1, #new-token: 6,",
        "[2026-06-30 10:03:00] The server is fired up and ready to roll!",
        "INFO:     Application startup complete.",
        'INFO:     127.0.0.1:4444 - "GET /health HTTP/1.1" 200 OK',
    ],
)
def test_a_start_up_that_went_on_did_not_hang_whatever_follows(after: str, goes_on: str) -> None:
    assert profile_in(f"{STARTS}{SOME}\n{goes_on}\n{after}\n") is None
    assert profile_in(f"{STARTS}{SOME}\n{after}\n{goes_on}\n") is None


@pytest.mark.parametrize("after", STALLS)
def test_a_stall_after_the_last_probe_is_not_the_profiles(after: str) -> None:
    assert profile_in(f"{STARTS}{BAR} 100%|███| 128/128 [00:30<00:00]\n{after}\n") is None
    assert profile_in(f"{STARTS}{BAR}\n{after}\n") is None
