"""The sizing before and after the pull request, as notebook 03 shows it."""

from __future__ import annotations

from hypothesis import given

from eagerbuf.config import EngineConfig
from eagerbuf.sizing import buffer_size
from eagerbuf.studies.pull_request import SideBySide, after, before, unchanged_grid
from tests.core.test_properties import configs


@given(configs())
def test_what_is_shown_is_what_the_rules_compute(config: EngineConfig) -> None:
    for shown, rule in ((before, "pr28386"), (after, "pr28677")):
        if config.chunking or config.max_total_num_tokens:
            size = buffer_size(config, rule)
            assert shown(config) == (size.max_bs, size.max_num_tokens)


def test_both_sides_are_short_and_show_no_linter_marks() -> None:
    text = repr(SideBySide())
    assert "noqa" not in text
    assert text.count("\n") < 40
    assert max(map(len, text.splitlines())) <= 60
    assert "<th>before (#28386)</th>" in SideBySide()._repr_html_()


def test_the_grid_notices_a_change() -> None:
    grid = unchanged_grid()
    assert not grid.differs.any()
    assert grid.enable_dp_attention.any()
    assert (grid.chunked_prefill_size < 0).any()
    odd = EngineConfig(2730, 100, tp_size=12, dp_size=3, enable_dp_attention=True)
    assert before(odd) != after(odd)
