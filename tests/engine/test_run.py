"""SGLang itself: started, watched, ended. Real engines of released wheels on this machine."""

import pytest

from eagerbuf import run_engine

# two engines at a time would keep each other from starting in time
pytestmark = pytest.mark.xdist_group("engine")
QUICK = ("--pp-size", "2", "--enable-dynamic-chunking", "--chunked-prefill-size", "256")
QUICK += ("--max-running-requests", "16")


def test_a_buffer_of_one_chunk_hangs_the_release_at_its_profile(needs):
    needs("0.5.14")
    report = run_engine("0.5.14", flags=QUICK, rule="pr28386")
    assert report.outcome == "hang"
    assert "The size of tensor a (256) must match the size of tensor b (320)" in report.failure
    assert list(report.ranks["tag"]) == ["PP0", "PP1"]
    assert "event_loop_pp" in report.stacks["PP0"]
    assert "broadcast < broadcast_object_list" in report.ranks["blocked_in"][1]
    assert not [line for line in "\n".join(report.stacks.values()).splitlines() if '"/' in line]


def test_the_release_itself_profiles_and_serves(needs):
    needs("0.5.14")
    report = run_engine("0.5.14", flags=QUICK, requests=3)
    assert report.outcome == "completed"
    assert len(report.samples) == 128
    assert report.samples["num_tokens"][0] == 320
    if report.failure is None:  # on a busy machine the fit may find no quadratic term
        assert list(report.model["tag"]) == ["PP0", "PP1"]
    else:
        assert "coefficient a=" in report.failure
    assert report.steps[-1] == "served 3 requests"
