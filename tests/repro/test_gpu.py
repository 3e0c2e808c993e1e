"""One command for a GPU, rehearsed without one: end to end on the CPU, placements on a fake device.

About 40 s on two quiet cores. The Triton kernel is compiled where triton is importable or lies in
.triton (`make triton`); EAGERBUF_TRITON=required makes a missing one a failure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from eagerbuf.engine import run_engine
from eagerbuf.engine.environment import why_not
from eagerbuf.repro.gpu import __main__ as program
from eagerbuf.repro.gpu import load_record, parts, record, recorded
from tests.repro.placement import PLANTED
from tests.repro.slow_part import COPY

HOME = Path(__file__).parents[2]
WRONG = re.compile("is on cpu|(cuda:0 and cpu|cpu and cuda:0)!")  # what torch says of a tensor
SLOW = "import time; time.sleep(60)  # of the slow part"


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """The record of a whole run with the CPU in the device's place; SGLang is not set up for it."""
    folder = tmp_path_factory.mktemp("gpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EAGERBUF_ENGINE_DIR", str(folder / "none"))
        arguments = ["--device", "cpu", "--rehearse", "--out", str(folder / "new" / "gpu.json")]
        assert program.main(arguments) == 0
    return folder / "new" / "gpu.json"


def test_the_whole_script_leaves_a_record_that_the_loader_takes(rehearsed):
    found = load_record(rehearsed)
    assert list(found.parts) == list(parts.PARTS) == list(record.COLUMNS)
    assert [part.status for part in found.parts.values()] == ["done"] * 5 + ["skipped"]
    assert "make engine" in found.parts["engine"].said
    hang = found.parts["hang"].to_frame()
    assert hang.rule.tolist() == ["pr28386", "pr28677"]
    assert hang.outcome.tolist() == ["hang", "completed"]
    assert hang.probes.tolist() == [0, 128]
    assert len(hang.samples[1]) == 128
    assert found.parts["copies"].to_frame().num_tokens.tolist() == [1, 64, 1024]
    assert found.parts["tactics"].to_frame().live_tokens.tolist() == [2048, 8, 32, 64, 2052]
    calls = found.parts["collectives"].to_frame()
    assert (calls.done == (calls.num_tokens == 64)).all()
    assert list(rehearsed.parent.iterdir()) == [rehearsed]


def test_a_notebook_shows_the_record_or_that_there_is_none(rehearsed, monkeypatch):
    monkeypatch.setattr(record, "shipped", lambda: str(rehearsed))
    shown = recorded("hang")
    assert str(shown).startswith(f"recorded on {load_record(rehearsed).recorded}: CPU x 1, ")
    for text in (repr(shown), shown._repr_html_()):
        assert "batch of 80 tokens does not fit" in text
    assert "skipped" in str(recorded("engine"))
    monkeypatch.setattr(record, "shipped", lambda: None)
    assert repr(recorded("hang")) == "no GPU run is recorded yet"
    with pytest.raises(ValueError, match="part='all': unknown, give one of machine, hang"):
        recorded("all")


@pytest.mark.skipif(record.shipped() is None, reason="no GPU run is recorded yet")
def test_the_shipped_record_is_valid():
    assert load_record().parts


def test_a_part_that_takes_too_long_ends_and_keeps_what_it_found(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "PROGRAM", "tests.repro.slow_part")
    out, command = tmp_path / "gpu.json", ["--device", "cpu", "--rehearse", "--parts", "copies"]
    assert program.main([*command, "--limit-s", "8", "--out", str(out)]) == 1
    part = load_record(out).parts["copies"]
    assert (part.status, part.said) == ("overtime", "ended after 8 s")
    assert part.rows == (COPY,)
    assert 8 <= part.seconds < 20
    assert not [p for p in psutil.process_iter(["cmdline"]) if SLOW in (p.info["cmdline"] or ())]


def test_a_part_that_fails_says_why_and_the_others_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    out = tmp_path / "gpu.json"
    assert program.main(["--rehearse", "--parts", "copies,collectives", "--out", str(out)]) == 1
    found = load_record(out)
    assert found.parts["copies"].status == "failed"
    assert found.parts["copies"].said
    assert found.parts["collectives"].status == "skipped"
    assert "one device" in found.parts["collectives"].said


def a_record(**parts_of: dict) -> dict:
    return {"schema": 1, "recorded": "2026-12-01", "parts": parts_of}


DONE = {"status": "done", "said": "", "seconds": 1.0, "rows": [COPY]}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([], r"the record: must be an object, is list"),
        (a_record() | {"schema": 2}, r"schema=2: this version reads schema 1"),
        (a_record() | {"recorded": "soon"}, r"Invalid isoformat string: 'soon'"),
        (a_record() | {"by": "me"}, r"the record.by: is unknown"),
        (a_record(extra=DONE), r"parts.extra: unknown, known are machine, "),
        (a_record(copies=DONE | {"status": "good"}), r"parts.copies.status='good': not of done, "),
        (a_record(copies={"status": "done"}), r"parts.copies.rows: is missing"),
        (
            a_record(copies=DONE | {"rows": [COPY, COPY | {"us": "2"}]}),
            r"rows\[1\].us='2': must be",
        ),
        (a_record(copies=DONE | {"rows": [COPY | {"nbytes": True}]}), r"nbytes=True: must be int"),
        (a_record(copies=DONE | {"rows": [COPY | {"us": float("nan")}]}), r"NaN: is no JSON"),
    ],
)
def test_what_the_schema_does_not_allow_is_one_line(told, message, tmp_path):
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(a_record(copies=DONE)))
    assert load_record(path).parts["copies"].rows == (COPY,)
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match=f"gpu.json: .*{message}"):
        load_record(path)


def test_wheels_that_are_carried_along_are_on_the_path(tmp_path):
    (tmp_path / "engine").mkdir()
    for name, module in (("a-1-py3-none-any", "a"), ("engine/sglang-0.5.14-x", "sglang/b")):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as wheel:
            wheel.writestr(f"{module}.py", "")
    env = program._unpacked(tmp_path, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "packages" / "a.py").exists()
    assert str(tmp_path / "unpacked" / "packages") in env["PYTHONPATH"].split(os.pathsep)
    engine = Path(env["EAGERBUF_ENGINE_DIR"])
    assert (engine / "sglang-0.5.14" / "sglang" / "b.py").exists()


# --- placements, on a fake device ---


def run(module: str, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tests.repro.{module}", *arguments]
    return subprocess.run(command, cwd=HOME, env=env, capture_output=True, text=True, timeout=300)


def placed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("placement", *arguments, env=dict(os.environ))


@pytest.mark.parametrize("part", ["hang", "copies", "tactics"])
def test_every_tensor_of_a_part_is_on_the_device(part):
    done = placed(part)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("planted", [name for name in PLANTED if "tile" not in name])
def test_a_forgotten_placement_fails_here(planted):
    done = placed(planted.partition(":")[0], planted)
    assert done.returncode == 1
    assert WRONG.search(done.stderr), done.stderr[-500:]


# --- the Triton kernel ---


def test_what_the_kernel_is_given_is_on_the_device(triton_env):
    done = run("placement", "tiles", env=triton_env)
    assert done.returncode == 0, done.stderr[-500:]
    planted = run("placement", "tiles", "tiles: tile list", env=triton_env)
    assert WRONG.search(planted.stderr), planted.stderr[-500:]


def test_the_kernel_compiles_for_sm_90_under_every_tile(triton_env):
    """Down to machine code, by the ptxas that triton brings; no device is needed."""
    done = run("compiled", env=triton_env)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines() == ["ELF 90"] * 6


@pytest.mark.slow
def test_sglang_itself_runs_as_a_part(tmp_path):
    """On the CPU with two stages: as released it serves, with a buffer of one chunk it hangs."""
    if missing := why_not("0.5.14"):
        (pytest.fail if os.environ.get("EAGERBUF_ENGINE") == "required" else pytest.skip)(missing)
    out = tmp_path / "gpu.json"
    command = ["--device", "cpu", "--rehearse", "--parts", "engine", "--out", str(out)]
    assert program.main(command) == 0
    runs = load_record(out).parts["engine"].to_frame()
    assert runs.outcome.tolist() == ["completed", "hang"]
    assert "must match the size of tensor b (80)" in runs.failure[1]


@pytest.mark.slow
def test_the_switch_for_a_device_leaves_every_layer_its_torch_form():
    """SGLang told that it has no compiled kernels serves; here with the CPU as its device."""
    if missing := why_not("0.5.14"):
        (pytest.fail if os.environ.get("EAGERBUF_ENGINE") == "required" else pytest.skip)(missing)
    switch = str(Path(parts.__file__).with_name("on_cuda.py"))
    report = run_engine("0.5.14", flags=["--pp-size", "1"], requests=4, switches={switch: "cpu"})
    assert report.outcome == "completed", report
    assert report.steps[-1] == "served 4 requests"
    assert {"IPython", "sglang.srt.utils.common.is_cuda"} <= report.stand_ins.keys()
