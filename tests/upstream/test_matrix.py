"""The matrix read from the wheels equals data/releases.csv, and the faults run as described."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.upstream import __main__, dynamic, engine, facts, wheels
from tests.upstream.load import Room
from tests.upstream.wheels import Wheel

SGLANG = [wheel for wheel in wheels.wanted() if wheel.package == "sglang"]
ROWS = {row["release"]: row for row in wheels.releases()}
MODELLED = ("always", "2", "idle hybrid-SSM rank", "no", "no")
NEWEST = ("never", "1", "idle hybrid-SSM rank, prefill graph, pplx", "yes", "yes")


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_the_table_says_what_the_wheel_says(wheel: Wheel) -> None:
    found = {column: facts.fact(wheel, column) for column in facts.COLUMNS}
    assert found == ROWS[wheel.version]


def test_the_columns_are_those_of_the_table() -> None:
    assert list(facts.COLUMNS) == list(wheels.releases()[0])


@pytest.mark.parametrize(("version", "drift"), [("0.5.14", MODELLED), ("0.5.23", NEWEST)])
def test_later_releases_left_the_form_we_model(version: str, drift: tuple[str, ...]) -> None:
    assert tuple(facts.fact(wheels.sglang(version), name) for name in facts.DRIFT) == drift


def test_a_report_on_a_known_release_finds_no_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "REPORT_CASES", 50)
    assert __main__.main(["report", "0.5.20"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"sizing_rule +pr28894 +pr28894\n", shown)
    assert len(re.findall(r" 50 +0 *", shown)) == 7


def test_the_flashinfer_we_compare_with_is_the_one_pinned() -> None:
    pins = {v: wheels.sglang(v).manifest["flashinfer"] for v in ("0.5.14", "0.5.23")}
    assert pins == {
        "0.5.14": wheels.FLASHINFER.version,
        "0.5.23": wheels.FLASHINFER_NEW.version,
    }


@pytest.mark.parametrize("version", ["0.5.14", "0.5.19"])
def test_the_scheduler_swallows_what_rank_0_alone_knows(version: str) -> None:
    """Up to 0.5.19 the failure ends in a log line: rank 0 goes on, nobody else hears of it."""
    wheel = wheels.sglang(version)
    assert dynamic.Dynamic(wheel).fails() == ("raised", [])
    scheduler = _scheduler()
    _start(wheel, scheduler)
    assert scheduler.enable_dynamic_chunking is False


@pytest.mark.parametrize("version", ["0.5.20", "0.5.23"])
def test_later_schedulers_send_the_failure_to_every_rank(version: str) -> None:
    assert dynamic.Dynamic(wheels.sglang(version)).fails() == ("disabled", [[None]])


@pytest.mark.parametrize("wheel", SGLANG, ids=str)
def test_without_a_chunk_the_profile_fails_before_the_first_probe(wheel: Wheel) -> None:
    """Chunking off leaves nothing to multiply by 1.25."""
    with pytest.raises(TypeError):
        dynamic.Dynamic(wheel).probe_lengths(None)


_SCHEDULER = f"{engine.SRT}/managers/scheduler.py"


def _scheduler() -> SimpleNamespace:
    def profile() -> None:
        raise dynamic.ProfileFailed("the first forward failed")

    return SimpleNamespace(
        server_args=SimpleNamespace(
            chunked_prefill_size=512,
            enable_mixed_chunk=False,
            enable_dynamic_chunking=True,
            prefill_decode_interval=None,
        ),
        ps=SimpleNamespace(pp_size=2),
        model_config=SimpleNamespace(is_multimodal=False),
        profile_and_init_predictor=profile,
    )


def _start(wheel: Wheel, scheduler: SimpleNamespace) -> None:
    """Run the part of the scheduler's start-up that wraps the profiler."""
    stubs = dict.fromkeys(engine.GETTERS, lambda: scheduler.server_args) | {
        "get_resolved_model_impl": lambda _: "sglang",
        "ModelImpl": SimpleNamespace(TRANSFORMERS="transformers"),
        "logger": engine.SILENT,
    }
    Room(wheel, stubs).piece("Scheduler.init_chunked_prefill", _SCHEDULER)(scheduler)
