"""What people type and read: names, types, docstrings with units, documented columns, faces."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import eagerbuf
from eagerbuf import EngineConfig, check, read_config
from eagerbuf.cli import main
from eagerbuf.repro import autotune
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.status import WorkerStatus
from eagerbuf.studies import ablations, batch_fit, curves, one_deployment
from eagerbuf.studies.deployments import deployments
from eagerbuf.studies.release_table import release_table

ROOT = Path(__file__).parents[2]
PUBLIC = [name for name in eagerbuf.__all__ if name != "__version__"]
UNITS = r"token|request|byte|GiB|second|rank"
MEMBER = (property, type(lambda: None))

CONFIG = EngineConfig(512, 8, context_len=4096, max_total_num_tokens=4096, tp_size=2)
MODEL = eagerbuf.ChunkSizePredictor(a=1e-5, b=0.02, c=30.0)
REQUESTS = pd.DataFrame({"prompt_tokens": [700, 90], "output_tokens": [3, 2]})
LOG = "[2026-06-30 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 8, #cached-token: 0\n"
STEPS = [{"t": 0.0, "step": "ready"}, {"t": 0.5, "step": "broadcast of the samples"}]
SEEN = (WorkerStatus(0, STEPS), WorkerStatus(1, STEPS))
HANG = eagerbuf.HangReport("hang", 1.0, Settings(), SEEN)


def documented(thing):
    text = inspect.getdoc(thing) or ""
    assert len(text) > 20, thing
    return text


# --- names and their types ---


def test_tab_completion_lists_every_public_name():
    assert set(dir(eagerbuf)) == set(eagerbuf.__all__)
    assert all(getattr(eagerbuf, name) is not None for name in PUBLIC)


def test_no_public_name_is_that_of_a_room():
    """Or importing the room would put it in the name's place."""
    assert not {path.stem for path in (ROOT / "eagerbuf").iterdir()} & set(PUBLIC)


PANDAS = "class DataFrame: ...\n"  # as its types say it: not everybody has pandas-stubs
SNIPPET = """\
import eagerbuf
from eagerbuf import EngineConfig, buffer_size, ceil_align, check, max_prefill_buffer_tokens
from eagerbuf._frames import config_columns
from pandas import DataFrame
config, frame = EngineConfig(12288, 128), DataFrame()
reveal_type(buffer_size(config, "tight"))  # eagerbuf.sizing.BufferSize
reveal_type(max_prefill_buffer_tokens(config))  # int
reveal_type(max_prefill_buffer_tokens(config_columns(frame)))  # ndarray
reveal_type(config.attn_tp_size)  # int
reveal_type(config.require_mlp_sync)  # bool
reveal_type(config_columns(frame).attn_tp_size)  # ndarray
reveal_type(ceil_align(7, 4))  # int
reveal_type(check(config).verdict)  # str
reveal_type(eagerbuf.run_hang())  # HangReport
eagerbuf.bufer_size  # error
EngineConfig("12288", 128)  # error
EngineConfig(frame, 128)  # error
max_prefill_buffer_tokens("nonsense")  # error
max_prefill_buffer_tokens(frame)  # error
buffer_size("nonsense", "tight")  # error
buffer_size(config, 28677)  # error
buffer_size(frame, "tight")  # error
ceil_align(frame, 8)  # error
ceil_align("7", 8)  # error
eagerbuf.size_many(config, "tight")  # error
"""


def test_a_user_gets_types_from_mypy(tmp_path):
    """Each line of the snippet is told as its comment says: a type, or an error; others nothing."""
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.pyi").write_text(PANDAS)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-plotly.*,torch.*,yaml.*,psutil.*,tqdm.*]\n"
        "ignore_missing_imports = true\nfollow_imports = skip\n"
        "[mypy-eagerbuf.*]\nignore_errors = true\n"
    )
    script = tmp_path / "user.py"
    script.write_text(SNIPPET)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", script],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    told = {
        int(line): kind.split("[")[0].removeprefix("builtins.") or "error"
        for line, kind in re.findall(
            r"user\.py:(\d+): (?:note: Revealed type is \"(.+)\"|error: )", ran.stdout
        )
    }
    wanted = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(SNIPPET.splitlines(), 1)
        if "  # " in line
    }
    assert set(told) == set(wanted), ran.stdout
    for line, kind in wanted.items():
        assert told[line].endswith(kind), (SNIPPET.splitlines()[line - 1], told[line])
    assert (ROOT / "eagerbuf" / "py.typed").exists()


# --- docstrings ---


@pytest.mark.parametrize("name", [n for n in PUBLIC if n != "RULES"])
def test_every_public_name_is_documented(name):
    thing = getattr(eagerbuf, name)
    documented(thing)
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and isinstance(value, MEMBER):
                documented(value)


def test_every_rule_says_where_it_lived_and_its_formula():
    for rule in eagerbuf.RULES.values():
        assert rule.lived
        assert "max" in rule.formula


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_tell_units(name):
    """Whoever takes or returns numbers says what they count."""
    thing = getattr(eagerbuf, name)
    if not inspect.isfunction(thing):
        return
    signature = inspect.signature(thing)
    kinds = [str(p.annotation) for p in signature.parameters.values()]
    kinds.append(str(signature.return_annotation))
    if any(re.search(r"\b(int|float|DataFrame|BufferSize)\b", kind) for kind in kinds):
        assert re.search(UNITS, documented(thing)), name


def test_every_field_of_a_configuration_has_its_unit():
    from eagerbuf.config import FIELDS, FLAGS, UNITS

    counts = set(FIELDS) - FLAGS - {"moe_a2a_backend"}
    assert counts <= set(UNITS)
    for name in counts:
        assert f"`{name}`" in documented(EngineConfig), name


# --- columns ---


def tables():
    """Each public table, and the docstring that describes it."""
    near = autotune.misshape_table([12, 16], attn_tp_sizes=[8])
    times = {"num_tokens": [16] * 3, "tactic": ["x"] * 3, "round": [0, 1, 2]}
    named = deployments()[:1]
    shapes = pd.DataFrame(
        {"deployment": named[0].name, "kind": "decode", "num_tokens": [4], "bs": 4, "batches": 1}
    )
    sizes = pd.DataFrame({"chunked_prefill_size": [512], "max_running_requests": [8]})
    report = check(CONFIG)
    return {
        "size_many": (eagerbuf.size_many(sizes, "tight"), eagerbuf.size_many),
        "replay": (eagerbuf.replay(REQUESTS, CONFIG, progress=False), eagerbuf.replay),
        "sample_requests": (
            eagerbuf.sample_requests("azure-2023-code", 2),
            eagerbuf.sample_requests,
        ),
        "price_rules": (eagerbuf.price_rules(named), eagerbuf.price_rules),
        "read_log": (eagerbuf.read_log(LOG), eagerbuf.read_log),
        "to_frame": (report.to_frame(), eagerbuf.Report.to_frame),
        "ranks": (HANG.ranks, eagerbuf.HangReport),
        "samples": (HANG.samples, eagerbuf.HangReport),
        "model": (HANG.model, eagerbuf.HangReport),
        "events": (HANG.events, eagerbuf.HangReport),
        "probe_table": (curves.probe_table(CONFIG, 512), curves.probe_table),
        "chunk_curve": (curves.chunk_curve(MODEL, CONFIG, [0.75]), curves.chunk_curve),
        "latency_curve": (curves.latency_curve(MODEL, 640), curves.latency_curve),
        "release_table": (release_table(), release_table),
        "shape_table": (one_deployment.shape_table(report), one_deployment.shape_table),
        "other_chunks": (one_deployment.other_chunks(CONFIG, [512]), one_deployment.other_chunks),
        "ceilings": (batch_fit.ceilings(named), batch_fit.ceilings),
        "fit_table": (batch_fit.fit_table(shapes, batch_fit.ceilings(named)), batch_fit.fit_table),
        "ablate": (ablations.ablate({"one": CONFIG}), ablations.ablate),
        "misshape_table": (near, autotune.misshape_table),
        "rarity": (autotune.rarity(near), autotune.rarity),
        "load_decode": (
            autotune.load_decode(CONFIG, [4], rules=("tight",)),
            autotune.load_decode,
        ),
        "regrets": (
            autotune.regrets(near, pd.DataFrame({**times, "ms": [1.0, 2.0, 3.0]})),
            autotune.regrets,
        ),
    }


def test_every_column_is_named_in_the_docstring():
    for name, (frame, owner) in tables().items():
        words = set(re.findall(r"\w+", documented(owner)))
        assert len(frame.columns) >= 2, name
        assert set(map(str, frame.columns)) <= words, (name, set(frame.columns) - words)
        assert all(re.fullmatch(r"[a-z]\w*", str(column)) for column in frame.columns), name


def test_a_request_file_has_the_documented_columns(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("prompt_tokens,output_tokens,arrival_s\n10,2,0.5\n")
    frame = eagerbuf.load_requests(path)
    words = set(re.findall(r"\w+", documented(eagerbuf.load_requests)))
    assert set(frame.columns) <= words


# --- faces ---


def test_a_configuration_shows_what_was_set_and_can_be_typed_again():
    config = EngineConfig(-1, 7, tp_size=4, moe_a2a_backend="deepep")
    assert repr(config) == (
        "EngineConfig(chunked_prefill_size=-1, max_running_requests=7, tp_size=4, "
        "moe_a2a_backend='deepep')"
    )
    assert eval(repr(config)) == config


def test_faces_show_units():
    for cell in ("512", "tokens", "requests", "ranks"):
        assert f">{cell}<" in CONFIG._repr_html_()
    size = eagerbuf.buffer_size(CONFIG, "tight")
    for cell in ("tokens", "requests", "bytes on the device"):
        assert f">{cell}<" in size._repr_html_()


def test_a_report_is_text_in_a_terminal_and_a_table_in_a_notebook():
    report = check(EngineConfig(12288, 128, pp_size=4, enable_dynamic_chunking=True), "0.5.18")
    text, html = repr(report), report._repr_html_()
    assert text == str(report)
    assert text.startswith("FITS: SGLang 0.5.18, sizing rule pr28894\n")
    assert max(map(len, text.splitlines())) <= 125
    assert "profile-hang" in text
    assert "profile-hang" in html
    assert "None" not in html
    assert "at least 16,384" in html  # the pool, which is not known, may make it more


def test_a_hang_report_is_text_in_a_terminal_and_a_table_in_a_notebook():
    assert repr(HANG).startswith("hang after 1.0 s, watching included: no rank")
    assert "rank 1: broadcast of the samples" in repr(HANG)
    assert "<th style='text-align:left'>blocked in</th>" in HANG._repr_html_()


def test_a_reading_names_what_is_unknown():
    assert ">unknown<" in read_config("sglang serve --tp 8")._repr_html_()


def test_the_readmes_command_runs_as_it_stands(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^\.venv/bin/(eagerbuf check --release .+\n.+)$", readme, re.M)[1]
    status = main(shlex.split(command.replace("\\\n", ""))[1:])
    assert status == 1
    assert capsys.readouterr().out.startswith("HANGS: SGLang 0.5.19")
    joined = command.replace("\\\n", "")
    without = joined.replace("--tp 8", "--tp 8 --disable-radix-cache")
    for fits in (without, joined.replace("--release 0.5.19", "--release 0.5.20")):
        assert main(shlex.split(fits)[1:]) == 0
