"""What else each release sizes by the number: its own code against ours, and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagerbuf.consumers.known import CONSUMERS
from eagerbuf.consumers.workspace import table_bytes, workspace_bytes
from tests.upstream import admission, draw, wheels
from tests.upstream import consumer_evidence as evidence
from tests.upstream.admission import PLENTY, Admission, Queue
from tests.upstream.conftest import require
from tests.upstream.consumer_formulas import FORMULAS, compared
from tests.upstream.consumers import BUDGET, CAPACITY, TOPOLOGY, walk_the_table
from tests.upstream.wheels import FLASHINFER, sglang

NEEDS_WHEELS = False
LIVE = ("0.5.19", "0.5.20", "0.5.22", "0.5.23")  # 0.5.21 where its wheel is cached
COUNT = 60


@pytest.fixture(scope="module")
def version(request: pytest.FixtureRequest) -> str:
    """A release that is cached, or fetched now: 0.5.22 is no release that all tests want."""
    wanted, missing = sglang(request.param), ""
    try:
        wheels.fill([w for w in (wanted, FLASHINFER) if not w.cached], lambda _: None)
    except wheels.WheelMissing as error:
        missing = f"{error} (`make upstream` fills the cache)"
    require(missing)
    return str(request.param)


releases = pytest.mark.parametrize("version", LIVE, indirect=True)
newest = pytest.mark.parametrize("version", ["0.5.22", "0.5.23"], indirect=True)


@releases
def test_no_formula_differs(version: str) -> None:
    found = compared(evidence.release(version), version, COUNT)
    assert len(found) >= 2
    assert set(found.values()) == {0}, found


@newest
def test_another_formula_is_noticed(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerbuf.consumers.workspace.FLOOR", 4095)
    monkeypatch.setattr("eagerbuf.consumers.workspace.MOST_TOP_K", 21)
    found = compared(evidence.release(version), version, COUNT)
    assert found["FlashInfer all-to-all workspace"] == COUNT
    assert found["DCP pack buffers"] == 0


@releases
def test_who_reads_the_number_is_listed(version: str) -> None:
    """A reader that is not listed, or one that is gone, is a new consumer to look at."""
    listed = {c.source for c in CONSUMERS if c.since <= version} | {"runtime_context.py"}
    if version < "0.5.21":
        listed -= {"disaggregation/common/conn.py"}
        listed |= {"disaggregation/common/dcp_pack.py"}
    assert {row["file"] for row in evidence.readers_of(version)} == listed


@newest
def test_the_workspace_that_the_dispatcher_asks_for(version: str) -> None:
    asked = evidence.release(version)
    asked.apply(evidence.ROW)
    assert asked.workspace(8, *evidence.SHAPE) == workspace_bytes(8, 16384, *evidence.SHAPE)
    asked.apply({**evidence.ROW, "max_prefill_tokens": evidence.REMEDY})
    for kind in ("bf16", "nvfp4", "mxfp8"):
        asked_for = asked.workspace(8, *evidence.SHAPE, kind)
        assert asked_for == workspace_bytes(8, 5120, *evidence.SHAPE) == 1_177_928_064
    asked.apply(evidence.ROW, **{CAPACITY: 20000})
    assert asked.workspace(8, *evidence.SHAPE) == workspace_bytes(8, 20000, *evidence.SHAPE)


@newest
def test_start_up_takes_the_flag_and_refuses_the_variable_alone(version: str) -> None:
    answers = {(row["max_prefill_tokens"], row["variable"]): row["answer"] for row in _a2a(version)}
    refused = answers.pop((16384, 5120))
    assert "required=16384" in refused
    assert "capacity=5120" in refused
    assert set(answers.values()) == {"accepted"}
    assert len(answers) == 3


@newest
def test_a_decode_server_takes_the_variable_alone(version: str) -> None:
    asked = evidence.release(version)
    for mode, refused in (("prefill", True), ("decode", False)):
        asked.apply({**evidence.ROW, "disaggregation_mode": mode}, **{CAPACITY: 5120})
        assert ("required=16384" in asked.start(BUDGET)) == refused


def _a2a(version: str) -> list[dict[str, object]]:
    return [row for row in evidence.starts_of(version) if row["backend"] == "flashinfer"]


@newest
def test_start_up_makes_ep_size_tp_size_and_wants_as_many_attention_ranks(version: str) -> None:
    asked = evidence.release(version)
    asked.apply(evidence.ROW)
    assert (asked.start(TOPOLOGY), asked.settings.ep_size) == ("", 8)
    asked.apply({**evidence.ROW, "attn_dp_size": 4, "dp_size": 4})
    assert "equal to --tp-size" in asked.start(TOPOLOGY)
    asked.apply({**evidence.ROW, "chunked_prefill_size": -1})
    assert "requires chunked prefill" in asked.start(BUDGET)


@releases
def test_deepep_takes_a_variable_as_small_as_the_flag_allows(version: str) -> None:
    rows = [row for row in evidence.starts_of(version) if row["backend"] == "deepep_v2"]
    accepted = [(r["max_prefill_tokens"], r["variable"]) for r in rows if r["answer"] == "accepted"]
    assert accepted == [(5120, 5120)]
    assert len(rows) == 4


@releases
def test_which_release_sizes_the_workspace_by_the_number_and_sends_prefill(version: str) -> None:
    row = next(evidence.workspaces_of(version))
    tokens = 16384 if version >= "0.5.22" else 4096
    assert row["workspace_bytes"] == workspace_bytes(8, tokens, *evidence.SHAPE)
    assert row["eager_prefill"] == ("all-to-all" if version == "0.5.22" else "all-gather")
    asked = evidence.release(version)
    asked.apply({**evidence.ROW, "chunked_prefill_size": 8192})
    tokens = 16384 if version >= "0.5.22" else 8192
    assert asked.workspace(8, *evidence.SHAPE) == workspace_bytes(8, tokens, *evidence.SHAPE)


@newest
def test_the_remedy_admits_the_same_batches(version: str) -> None:
    """A chunk bounds every batch, so that a lower max_prefill_tokens above it changes none."""
    rng, released = draw.generator(901), Admission(sglang(version))
    for _ in range(300):
        chunk = int(rng.integers(1, 5000))
        prompts = [int(n) for n in 10 ** rng.uniform(0, 4.5, 6)]
        queue = Queue(
            prompts, int(rng.choice([1, 16, 64])), 16384, chunk, PLENTY, 64, ignore_eos=False
        )
        lean = queue._replace(max_prefill_tokens=-(-5 * chunk // 4))
        assert released.admit(lean) == released.admit(queue) == admission.ours(lean)


def test_the_table_is_walked_as_it_is_computed_in_one_piece() -> None:
    for ranks in (1, 3, 8, 31, 32, 33, 64):
        for tokens in (1, 2, 3, 4096, 5120, 16384):
            assert walk_the_table(ranks, tokens) == table_bytes(ranks, tokens)


def test_without_wheels_everything_is_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGERBUF_UPSTREAM", str(tmp_path))
    assert "all results are recorded" in evidence.sources()
    for table in (evidence.workspaces, evidence.starts, evidence.readers, evidence.comparisons):
        assert list(dict.fromkeys(table().release)) == list(evidence.RELEASES)
    assert (evidence.comparisons().differ == 0).all()
    assert set(evidence.comparisons().formula) == set(FORMULAS)


@pytest.mark.parametrize("version", ["0.5.23"], indirect=True)
def test_what_was_recorded_is_what_runs_now(version: str) -> None:
    for name, ask in (
        ("consumer_workspaces", evidence.workspaces_of),
        ("consumer_starts", evidence.starts_of),
        ("consumer_readers", evidence.readers_of),
    ):
        kept = evidence.recorded(name)
        now = [{k: str(v) for k, v in row.items()} for row in ask(version)]
        assert kept[kept.release == version].to_dict("records") == now
