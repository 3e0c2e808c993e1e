"""The controls of notebooks 03 and 05 without a browser: what a change does, and how soon."""

from __future__ import annotations

import time
from typing import Any

import pytest

from eagerbuf.config import EngineConfig
from eagerbuf.diagnose.verdict import check
from eagerbuf.read import read_config
from eagerbuf.studies.controls import NUMBERS, controls
from eagerbuf.studies.one_deployment import DOCUMENTED
from eagerbuf.studies.panel import WIDGETS, Panel
from eagerbuf.studies.sizes_html import binding

CONFIG = EngineConfig(12288, 128, tp_size=8, pp_size=4, enable_dynamic_chunking=True)

# the others matter only with chunking off, or together
SEEN = {*NUMBERS} - {"context_len", "attn_cp_size", "tp_size", "dp_size"}


def fields(box: Any) -> dict[str, Any]:
    """Every control by its label."""
    inside = [child for part in box.children for child in getattr(part, "children", ())]
    return {control.description: control for control in inside if hasattr(control, "description")}


def shown(box: Any) -> str:
    return " ".join(part.value for part in box.children if type(part).__name__ == "HTML")


def test_every_control_changes_what_is_shown() -> None:
    panel = Panel(CONFIG, "0.5.14")
    others = {"page_size": 13000, "attn_cp_size": 2, "dp_size": 2, "tp_size": 16, "pp_size": 1}
    others |= {"max_total_num_tokens": 100_000, "context_len": 2000}
    for name, label in NUMBERS.items():
        tried = Panel(CONFIG, "0.5.14")
        before = shown(box := controls(tried))
        fields(box)[label].value = others.get(name, 100)
        assert tried.value(name) == others.get(name, 100)
        if name in SEEN:
            assert shown(box) != before, name
    box = controls(panel)
    fields(box)["attention DP ranks"].value = 2
    assert panel.value("enable_dp_attention") is True


def test_a_change_is_shown_within_a_tenth_of_a_second() -> None:
    box = controls(Panel(CONFIG, "0.5.14", "0.5.19"))
    chunk, times = fields(box)["chunk (tokens)"], []
    for tokens in range(1000, 8000, 1000):
        start = time.perf_counter()
        chunk.value = tokens
        times.append(time.perf_counter() - start)
        assert f"profiler_probe, {5 * tokens // 4:,}" in shown(box)
    assert min(times) < 0.1


def test_a_value_that_makes_no_sense_is_told_and_the_last_sizes_stay() -> None:
    box = controls(Panel(CONFIG, "0.5.14"))
    before = box.children[-1].value
    fields(box)["attention CP"].value = 3
    assert "tp_size=8: must be divisible" in shown(box)
    assert box.children[-1].value == before
    fields(box)["attention CP"].value = 2
    assert "must be divisible" not in shown(box)


def test_the_verdict_and_the_binding_sources_are_those_of_check() -> None:
    panel = Panel(read_config(DOCUMENTED), "0.5.14")
    report = check(panel.deployment, "0.5.14")
    assert f"<b>{report.verdict.upper()}: SGLang 0.5.14, rule pr28677</b>" in panel.html()
    assert binding(report).startswith("Most tokens: profiler_probe, 15,360.")
    panel.change("chunked_prefill_size", 0)
    assert panel.value("chunked_prefill_size") is None
    assert "HANGS" in panel.html()


def test_stored_is_html_and_shown_are_controls() -> None:
    bundle = Panel(CONFIG, "0.5.14")._repr_mimebundle_()
    assert set(bundle) == {WIDGETS, "text/html", "text/plain"}
    assert "make lab" in bundle["text/html"]
    assert "model_id" in bundle[WIDGETS]


def test_a_text_takes_the_place_of_the_source_and_cannot_break_out() -> None:
    panel = Panel(CONFIG, "0.5.14", own=True)
    panel.read("python -m sglang.launch_server --tp 2 --chunked-prefill-size 1000")
    assert panel.value("chunked_prefill_size") == 1000
    panel.read("sglang serve --chunked-prefill-size <script> --tp 2")
    assert "<script>" not in panel.html()


def test_a_replay_needs_the_pool_and_says_so() -> None:
    panel = Panel(CONFIG, "0.5.14", own=True)
    with pytest.raises(ValueError, match="max_total_num_tokens=None"):
        panel.replayed("azure-2023-conversation", 20)
    panel.change("max_total_num_tokens", 200_000)
    assert "<td>tight</td>" in panel.replayed("azure-2023-conversation", 20)
