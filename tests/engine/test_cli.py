"""The command line without an engine: bad input is one line and status 2, outcomes have theirs."""

import json

import pytest

from eagerbuf.engine import __main__ as cli
from eagerbuf.engine.environment import available, differs, known_releases
from eagerbuf.engine.log import Log
from eagerbuf.engine.report import OUTCOMES, EngineReport


def report(outcome):
    return EngineReport("0.5.14", ("--pp-size", "2"), None, outcome, 1.5, {}, Log(), ("PP0",))


@pytest.mark.parametrize(
    ("argv", "mentions"),
    [
        (["--release", "0.5.13"], "release='0.5.13': not known to have an eager runner"),
        (["--rule", "nope"], "rule='nope'"),
        (["--requests", "nowhere.csv"], "nowhere.csv"),
        (["--stall-s", "0"], "stall_s=0.0"),
        (["--limit-s", "nan"], "limit_s=nan"),
    ],
)
def test_bad_input_is_one_line_and_status_2(argv, mentions, capsys):
    assert cli.main(argv) == 2
    said = capsys.readouterr()
    assert mentions in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out


def test_a_release_that_is_not_set_up_says_how_to(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EAGERBUF_ENGINE_DIR", str(tmp_path))
    assert cli.main([]) == 2
    assert "run `make engine`" in capsys.readouterr().err
    assert not available("0.5.14")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_has_its_status(outcome, monkeypatch, capsys):
    monkeypatch.setattr(cli, "run_engine", lambda **_: report(outcome))
    assert cli.main(["--json"]) == {"completed": 0, "overtime": 4}.get(outcome, 1)
    assert json.loads(capsys.readouterr().out)["outcome"] == outcome


def test_words_after_the_dashes_are_sglang_s(monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr(cli, "run_engine", lambda **kw: asked.update(kw) or report("completed"))
    assert cli.main(["--release", "0.5.19", "--requests", "7", "--", "--tp-size", "2"]) == 0
    assert (asked["release"], asked["requests"]) == ("0.5.19", 7)
    assert list(asked["flags"]) == ["--tp-size", "2"]
    assert "completed after 1.5 s" in capsys.readouterr().out


def test_every_release_with_an_eager_runner_is_in_the_table():
    assert len(known_releases()) >= 11
    assert {differs(release).entry_for for release in known_releases()} == {"tp", "rank"}
