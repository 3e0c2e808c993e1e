"""What is recorded of SGLang's own engine: it follows from the faults, and `check` says the same.

The slow tests run every recorded run again.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from eagerbuf import check, find_release, read_config
from eagerbuf.engine.recorded import STUDIES, RecordedRun, recorded_runs, runs_table
from tests.engine import record

pytestmark = pytest.mark.xdist_group("engine")
MATRIX = recorded_runs("matrix")
# A failed profile is told, but its probe's KV slots are never returned: PP0's next idle check
# raises "pool memory leak detected!" (ran: 0.5.20; 0.5.23 returns them in a finally).
LEAKING = ("0.5.20", "0.5.21", "0.5.22")
OVERFLOW = "The size of tensor a (512) must match the size of tensor b (640)"


def named(run: RecordedRun) -> str:
    cache = "radix cache " + ("on" if run.radix_cache else "off")
    return f"{run.study}, {run.release}, {run.rule or 'as released'}, {cache}"


def checked(run: RecordedRun) -> tuple[str, list[str]]:
    """The verdict of `check` on the same flags, under the rule that the run had."""
    words = " ".join(run.flags)
    command = f"python -m sglang.launch_server --model-path m --max-total-tokens 65536 {words}"
    report = check(read_config(command, release=run.release), release=run.release)
    held = report.rules[run.rule] if run.rule else report
    return held.verdict, [finding.code for finding in held.findings]


def test_no_run_is_recorded_twice_or_other_than_it_is_asked_for() -> None:
    rows = [record.key(row) for row in record.kept()]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= {record.key(row) for row in record.asked()}


@pytest.mark.parametrize("run", MATRIX, ids=named)
def test_a_recorded_outcome_follows_from_the_faults(run: RecordedRun) -> None:
    follows_from_the_faults(run)


def follows_from_the_faults(run: RecordedRun) -> None:
    known = find_release(run.release)
    unreleased = known.radix_cache_fails_profile and run.radix_cache
    fails = run.rule == "pr28386" or unreleased
    if fails and known.profile_failure_broadcast and run.release in LEAKING:
        assert run.outcome == "crashed"
        return
    assert run.outcome == ("hang" if fails and not known.profile_failure_broadcast else "completed")
    if run.rule == "pr28386":
        assert OVERFLOW in (run.failure or "")
        assert run.max_num_tokens == 512
    elif unreleased:
        assert "Failed to profile prefill latency: None" in (run.failure or "")
    else:  # on a busy machine the fit may find no quadratic term
        assert run.failure is None or "coefficient a=" in run.failure
    if run.outcome == "hang":
        assert "event_loop_pp" in run.blocked_in["PP0"]
        assert "broadcast_object_list < profile_and_init_predictor" in run.blocked_in["PP1"]


@pytest.mark.parametrize("run", MATRIX, ids=named)
def test_check_says_of_the_same_flags_what_the_engine_did(run: RecordedRun) -> None:
    verdict, codes = checked(run)
    if run.rule == "pr28386":
        assert verdict == "overflows"
        assert run.outcome == "completed" or "profile-hang" in codes
    else:
        assert verdict == {"hang": "hangs", "completed": "fits"}[run.outcome]


@pytest.mark.parametrize("run", recorded_runs("one rank alone"), ids=named)
def test_one_tp_rank_that_fails_alone_hangs_releases_that_tell(run: RecordedRun) -> None:
    assert find_release(run.release).profile_failure_broadcast
    assert run.outcome == "hang"
    assert "injected: rank 1 alone" in (run.failure or "")
    assert len(run.blocked_in) == 4
    assert "all_reduce" in run.blocked_in["PP0 TP0"]


@pytest.mark.parametrize("run", recorded_runs("agreement"), ids=named)
def test_an_agreement_of_the_tp_ranks_mends_it(run: RecordedRun) -> None:
    assert run.outcome == "completed"
    assert re.search("injected: rank 1 alone|another TP rank", run.failure or "")


def test_the_table_has_every_study_and_a_line_for_each_run() -> None:
    frame = runs_table()
    assert len(frame) == len(recorded_runs())
    assert set(frame.study) <= set(STUDIES)
    assert frame.versions.str.match(r"Python 3\.\d+\.\d+, torch \d\S+, transformers \d").all()
    assert frame.date.str.match(r"\d{4}-\d\d-\d\d$").all()


def test_a_study_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="study='matrx': give one of documented, "):
        recorded_runs("matrx")


ASKED = list(record.asked())
LIVE = [r for r in ASKED if r["study"] == "matrix" and r["release"] == "0.5.19" and not r["rule"]]


def asked_name(row: dict[str, Any]) -> str:
    cache = "off" if "--disable-radix-cache" in row["flags"] else "on"
    return f"{row['study']}, {row['release']}, {row['rule'] or 'as released'}, radix cache {cache}"


@pytest.mark.parametrize("row", LIVE, ids=asked_name)
def test_0_5_19_hangs_with_its_radix_cache_and_starts_without(needs, row: dict[str, Any]) -> None:
    ends_as_it_must(needs, row)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ASKED if row not in LIVE], ids=asked_name)
def test_every_run_ends_as_it_must(needs, row: dict[str, Any]) -> None:
    ends_as_it_must(needs, row)


def ends_as_it_must(needs, row: dict[str, Any]) -> None:
    """As recorded; a cell of the matrix as the faults of its release say, recorded or not."""
    needs(row["release"])
    now = record.run(row)
    if row["study"] == "matrix":
        follows_from_the_faults(RecordedRun(**now))
    for before in record.kept():
        if record.key(before) == record.key(row):
            assert now["outcome"] == before["outcome"]
            if now["outcome"] != "completed":
                assert now["failure"] == before["failure"]
