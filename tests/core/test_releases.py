"""The release table and its loader."""

import pytest

from eagerbuf import find_release
from eagerbuf.releases import newest_release, releases


def test_the_facts_of_each_stretch():
    assert find_release("0.5.13").sizing_rule is None
    assert find_release("v0.5.14").sizing_rule == "pr28677"
    assert find_release("0.5.15.post1").sizing_rule == "pr28894"
    assert not find_release("0.5.19").profile_failure_broadcast
    assert find_release("0.5.20").profile_failure_broadcast
    assert not find_release("0.5.22").probe_clipped_to_context
    assert find_release(None) is newest_release()
    assert newest_release() is releases()[-1]
    assert len(releases()) >= 18


def test_older_releases_have_no_eager_runner():
    assert not find_release("0.4.9").eager_runner


@pytest.mark.parametrize("name", ["0.5.99", "latest", "", "1", "0.5.14; rm -rf /"])
def test_unknown_releases_are_named(name):
    with pytest.raises(ValueError, match=r"release=.*0\.5\.23"):
        find_release(name)
