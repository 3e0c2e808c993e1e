"""The command: what it prints, how it ends, and how little it loads."""

import json
import math
import os
import resource
import subprocess
import sys

import pytest

from eagerbuf import EngineConfig, check
from eagerbuf.cli import main
from eagerbuf.releases import newest_release

SCATTERED = (
    "python3 -m sglang.launch_server --model-path m --tp 8 --enable-attn-tp-input-scattered "
    "--chunked-prefill-size 8100 --max-running-requests 64"
)
NEWEST = newest_release().release
STATIC = "python3 -m sglang.launch_server --model-path m --chunked-prefill-size 4096"
LOG = """\
[2026-07-01 10:00:00 TP0] max_total_num_tokens=400000, chunked_prefill_size=8192, \
max_prefill_tokens=16384, max_running_requests=100, context_len=65536
[2026-07-01 10:00:01 TP0] Prefill batch, #new-seq: 3, #new-token: 4096, #cached-token: 0,
[2026-07-01 10:00:02 TP0] Decode batch, #running-req: 42, #token: 99,
"""


def run(capsys, *arguments):
    status = main(["check", *arguments])
    return status, capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--command", STATIC, "--release", "0.5.14"], 0, "FITS: SGLang 0.5.14"),
        (["--command", STATIC, "--release", "0.5.13"], 0, "NOT-APPLICABLE"),
        (["--command", SCATTERED, "--release", "0.5.14"], 1, "8104 tokens, buffer of 8100"),
        (["--command", STATIC + " --chunked-prefill-size -1"], 0, "FITS"),
        (["--command", STATIC + " $ARGS"], 3, "UNKNOWN"),
        (
            ["--command", SCATTERED, "--release", "0.5.14", "--chunked-prefill-size", "8096"],
            0,
            "FITS",
        ),
        (
            ["--command", SCATTERED, "--release", "0.5.14", "--no-attn-tp-input-scattered"],
            0,
            "FITS",
        ),
    ],
)
def test_verdict_and_status(capsys, arguments, status, words):
    got, printed = run(capsys, *arguments)
    assert got == status
    assert words in printed.out
    assert "\x1b" not in printed.out  # colours only on a terminal


def test_an_option_beats_what_was_read(capsys):
    _, printed = run(capsys, "--command", STATIC, "--explain", "--tp-size", "4")
    lines = {line.split()[0]: line.split()[1:] for line in printed.out.splitlines() if line}
    assert lines["tp_size"] == ["4", "option"]
    assert lines["chunked_prefill_size"] == ["4096", "flag"]
    assert lines["max_prefill_tokens"] == ["16384", "default"]


def test_a_log_shows_how_close_it_came(capsys, tmp_path):
    log = tmp_path / "server.log"
    log.write_text(LOG, encoding="utf-8")
    status, printed = run(capsys, str(log), "--release", "0.5.14")
    assert status == 0
    assert "1 prefill batches, the largest 4,096 tokens (in whole pages)" in printed.out
    assert "50 % of the token buffer" in printed.out
    assert "42 requests" in printed.out


def test_json_is_the_report(capsys):
    status, printed = run(capsys, "--command", SCATTERED, "--release", "0.5.14", "--json")
    assert status == 1
    assert json.loads(printed.out)["verdict"] == "overflows"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a file"),
        (["x", "--command", "y"], "give either a file"),
        (["no-such-file"], "no-such-file: No such file"),
        (["."], "Is a directory"),
        (["--command", "hello"], "no SGLang launch command"),
        (["--command", STATIC, "--release", "7"], "release='7'"),
        (["--command", STATIC + " --pp 2"], "ambiguous"),
        (["--command", STATIC, "--page-size", "0"], "page_size=0"),
        (["--command", STATIC, "--gpu-mem-gib", "-3"], "gpu_mem_gib"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, words):
    status, printed = run(capsys, *arguments)
    assert status == 2
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_closed_standard_output_is_told(tmp_path):
    code = "import sys; sys.stdout = None; from eagerbuf.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "check", "--command", STATIC]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True)
    told = "eagerbuf: cannot write the report: standard output is closed\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_every_field_has_an_option(capsys):
    from eagerbuf.config import FIELDS

    with pytest.raises(SystemExit):
        main(["check", "--help"])
    text = capsys.readouterr().out
    assert all("--" + name.replace("_", "-") in text for name in FIELDS)


def test_standard_input_and_the_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "eagerbuf", "check", "-", "--release", "0.5.14"],
        input=SCATTERED.encode("utf-16"),
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert b"OVERFLOWS" in done.stdout


def test_a_check_loads_no_heavy_library_and_is_quick(tmp_path):
    code = (
        "import sys; from eagerbuf.cli import main; "
        f"main(['check', '--release', '0.5.14', '--command', {STATIC!r}]); "
        "heavy = {'torch', 'pandas', 'plotly', 'numpy', 'yaml'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    settings = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    spent = {"import asyncio": math.inf, code: math.inf}
    for _ in range(5):  # in turn, since a machine's speed changes with what else it does
        for argument in spent:
            before = _cpu_seconds_of_children()
            command = [sys.executable, "-c", argument]
            subprocess.run(command, check=True, capture_output=True, env=settings)
            spent[argument] = min(spent[argument], _cpu_seconds_of_children() - before)
    usual, check = spent.values()
    assert check < 2 * usual, f"{check:.3f} s of processor time; import asyncio takes {usual:.3f}"


def _cpu_seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_hostile_input_is_text(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for bad in ("$(touch owned)", "`touch owned`", "; touch owned", "$MODEL > owned"):
        run(capsys, "--command", f"{STATIC} {bad}")
    assert list(tmp_path.iterdir()) == []


def test_notes_on_unread_flags_stand_under_the_verdict_and_in_the_json(capsys):
    command = f"{STATIC} --max-total-tokens 9000 --mamba-scheduler-strategy 2"
    _, printed = run(capsys, "--command", command, "--release", "0.5.23")
    lines = printed.out.splitlines()
    assert lines[0].startswith("FITS")
    assert lines[1].startswith("note: --mamba-scheduler-strategy: passed over")
    assert lines[-1].startswith("note: max_total_tokens is a limit")
    _, printed = run(capsys, "--command", command, "--release", "0.5.23", "--json")
    unread, limit = json.loads(printed.out)["notes"]
    assert "which sizes nothing here" in unread
    assert limit.startswith("max_total_tokens is a limit")
    assert printed.out.count("sizes nothing") == 1


def test_a_report_of_settings_has_no_notes():
    assert check(EngineConfig(4096, 64)).to_dict()["notes"] == []


def test_a_buffer_of_unknown_size_is_not_shown_as_one_of_none(capsys):
    command = "sglang serve --model-path m --tp 8"
    status, printed = run(capsys, "--command", command, "--release", "0.5.14")
    assert status == 0
    assert "at least 0" not in printed.out
    expected = "its size in tokens is not known; no completion of the unknown values overflows it"
    assert f"\nbuffer: {expected}\n" in printed.out
    status, printed = run(capsys, "--command", command + " $ARGS", "--release", "0.5.14")
    assert status == 3
    assert "\nbuffer: its size in tokens is not known\n" in printed.out


@pytest.mark.parametrize(
    ("arguments", "assumed"),
    [
        (["--command", STATIC], True),
        (["--command", STATIC, "--release", NEWEST], False),
        (["--command", f"docker run lmsysorg/sglang:v{NEWEST} {STATIC}"], False),
    ],
)
def test_the_verdict_line_says_where_the_release_is_assumed(capsys, arguments, assumed):
    _, printed = run(capsys, *arguments)
    first = printed.out.splitlines()[0]
    assert first.startswith(f"FITS: SGLang {NEWEST}")
    assert first.endswith(f"(release not given: {NEWEST} assumed)") is assumed


def test_only_the_last_start_ups_batches_are_set_against_its_buffer(capsys, tmp_path):
    log = tmp_path / "server.log"
    one = (
        "[2026-07-01 10:00:00] server_args=ServerArgs(model_path='m', tp_size=1, pp_size=1, "
        "chunked_prefill_size=16384, max_running_requests=64, speculative_algorithm=None)\n"
        "[2026-07-01 10:00:01 TP0] Prefill batch, #new-seq: 3, #new-token: 16384, "
        "#cached-token: 0,\n"
    )
    log.write_text(one + one.replace("16384", "4096"), encoding="utf-8")
    _, printed = run(capsys, str(log), "--release", "0.5.14")
    assert "seen: 1 prefill batches, the largest 4,096 tokens" in printed.out
    assert " 100 % of the token buffer" in printed.out
    log.write_text(one + one, encoding="utf-8")
    _, printed = run(capsys, str(log), "--release", "0.5.14")
    assert "seen: 2 prefill batches, the largest 16,384 tokens" in printed.out


PAIR = f"{SCATTERED} --disaggregation-mode prefill &\n{STATIC} --disaggregation-mode decode\n"


def test_of_several_servers_the_worst_decides_and_all_are_listed(capsys):
    status, printed = run(capsys, "--command", PAIR, "--release", "0.5.14")
    lines = printed.out.splitlines()
    assert status == 1
    assert lines[0].startswith("OVERFLOWS")
    assert lines[1:3] == ["server prefill: overflows  (shown below)", "server decode: fits"]
    status, printed = run(capsys, "--command", PAIR, "--release", "0.5.14", "--json")
    report = json.loads(printed.out)
    assert (status, report["verdict"]) == (1, "overflows")
    listed = [(server["name"], server["verdict"]) for server in report["servers"]]
    assert listed == [("prefill", "overflows"), ("decode", "fits")]
    _, printed = run(capsys, "--command", STATIC, "--release", "0.5.14", "--json")
    assert "servers" not in json.loads(printed.out)
