"""The release table and its loader."""

import pytest

from eagerbuf import find_release
from eagerbuf._data import data_path
from eagerbuf.releases import load_releases, newest_release, releases


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


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("release,newest", "version,newest", "line 1: columns"),
        ("0.5.14,2026-06-26,yes,pr28677", "0.5.14,2026-06-26,yes,pr1", "line 9: sizing_rule='pr1'"),
        ("0.5.14,2026-06-26,yes", "0.5.14,2026-06-26,no", "line 9: a release has a sizing_rule"),
        ("0.5.14,2026-06-26,yes", "0.5.14,2026-06-26,maybe", "line 9: eager_runner='maybe'"),
        ("0.5.14,2026-06-26", "0.5.14,June", "line 9.*YYYY"),
        ("0.5.14,2026-06-26,yes,pr28677,no", "0.5.14,2026-06-26,yes", "line 9: must have 8 fields"),
    ],
)
def test_a_damaged_file_is_named_by_line_and_reason(tmp_path, old, new, words):
    text = data_path("releases.csv").read_text(encoding="utf-8")
    assert old in text
    damaged = tmp_path / "releases.csv"
    damaged.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=f"releases.csv, {words}"):
        load_releases(damaged)
