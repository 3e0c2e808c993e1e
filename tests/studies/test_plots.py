"""Figures: titles that state what the data say, labelled ceilings, units, one overflow colour."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest

from eagerbuf import BufferSize, EngineConfig, check, plots, read_config
from eagerbuf.consumers.tables import workspace_table
from eagerbuf.model import find_model
from eagerbuf.plots.template import COLORS, INK
from eagerbuf.releases import releases
from eagerbuf.studies import curves, one_deployment

CONFIG = EngineConfig(12288, 128, tp_size=8, pp_size=4, enable_dynamic_chunking=True)
CEILINGS = {"pr28386": 12288, "pr28677": 16384}
ORANGE = COLORS["overflow"]
LIMITS = pd.DataFrame(
    [
        (name, rule, tokens, requests, BufferSize(requests, tokens).nbytes)
        for name in ("one", "two")
        for rule, tokens, requests in (
            ("pr28386", 100, 10),
            ("pr28677", 130, 12),
            ("pr28894", 9000, 12),
        )
    ],
    columns=["deployment", "rule", "max_num_tokens", "max_bs", "nbytes"],
)
BATCHES = pd.DataFrame(
    [("one", "prefill", 100, 1), ("one", "probe", 125, 1), ("two", "decode", 12, 12)],
    columns=["deployment", "kind", "num_tokens", "bs"],
)
EVENTS = pd.DataFrame({"rank": [0, 1, 0], "seconds": [0.1, 0.2, 2.5], "step": ["a", "b", "c"]})


def labels(figure):
    return [note.text for note in figure.layout.annotations]


def one_report(asked="main between #28386 and #28677"):
    report = check(CONFIG, asked)
    return drawn(report)


def drawn(report):
    shapes = one_deployment.shape_table(report)
    return plots.shapes_of_one(shapes, report.to_frame(), report.rule, report.verdict)


def figures():
    curve = curves.latency_curve(explore_model(), 640)
    return {
        "probes": plots.probes(curves.probe_table(CONFIG, 12288), CEILINGS),
        "timeline": plots.hang_timeline(EVENTS, "hang", 6.0),
        "fit": plots.latency_fit(curve, curve),
        "chunk": plots.predicted_chunk(
            curves.chunk_curve(explore_model(), CONFIG, [0.5, 0.75]), 12288, {"pr28677": 16384}
        ),
        "shapes": plots.shapes_and_ceilings(BATCHES, LIMITS),
        "bytes": plots.bytes_per_rule(LIMITS),
        "one": one_report(),
        "what if": plots.what_if(one_deployment.other_chunks(CONFIG, [2048, 4096])),
    }


def explore_model():
    from eagerbuf import ChunkSizePredictor

    return ChunkSizePredictor(a=1e-5, b=0.02, c=30.0)


FIGURES = figures()


@pytest.mark.parametrize("name", FIGURES)
def test_titles_are_findings_and_axes_have_units(name):
    layout = FIGURES[name].layout
    assert len(layout.title.text.split()) >= 5
    assert len(layout.title.text) <= 100
    units = ("tokens", "requests", "(s)", "(ms)", "megabytes", "rank", "probe")
    for axis in (layout.xaxis, layout.yaxis):
        categories = name in ("bytes", "one") and axis is layout.yaxis
        assert categories or any(unit in axis.title.text for unit in units), axis.title.text


@pytest.mark.parametrize("name", FIGURES)
def test_only_plain_numbers_and_colours_of_the_palette(name):
    shown = FIGURES[name].to_plotly_json()
    shown["layout"].pop("template", None)
    text = json.dumps(shown)  # fails for arrays, which would be base64 that nobody can review
    known = {*COLORS.values(), *INK.values(), "#E5E5E5", "#222222"}
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", text)) <= known


def test_probes_name_both_colours_and_every_ceiling():
    figure = FIGURES["probes"]
    assert figure.layout.title.text.startswith("26 of 128 probes overflow")
    assert list(figure.data[0].marker.color).count(ORANGE) == 26
    for label in ("pr28386: 12,288 tokens", "pr28677: 16,384 tokens", "26 overflow", "102 fit"):
        assert label in labels(figure)
    fitting = plots.probes(curves.probe_table(CONFIG, 16384), {"pr28677": 16384})
    assert "128 fit" in labels(fitting)
    assert not [text for text in labels(fitting) if "overflow" in text]


def test_a_timeline_says_how_it_ended_and_where_ranks_wait():
    hang, done, crash = (
        plots.hang_timeline(EVENTS, how, 6.0) for how in ("hang", "completed", "crashed")
    )
    assert "the last step of 2 ranks was at 2.5 s" in hang.layout.title.text
    assert "2 ranks went through every step in 2.5 s" in done.layout.title.text
    assert "Outcome crashed" in crash.layout.title.text
    assert [line.line.color for line in hang.data].count(ORANGE) == 2
    assert ORANGE not in [line.line.color for line in done.data]
    assert {"b", "c"} <= set(labels(hang))
    steps = ["probe 1 of 128", "dynamic chunking disabled", "broadcast"]
    failed = pd.DataFrame({"rank": [0, 0, 1], "seconds": [1.0, 1.5, 0.5], "step": steps})
    marked = plots.hang_timeline(failed, "hang", 6.0)
    assert "fails: probe 1 of 128" in labels(marked)
    assert [line.x for line in marked.data if line.marker.symbol == "x"] == [(1.5,)]


def test_what_a_button_shows_is_what_a_buffer_does_not_hold():
    figure = FIGURES["shapes"]
    deployments, rules = figure.layout.updatemenus
    assert [button.label for button in deployments.buttons] == ["one", "two"]
    for button in deployments.buttons:
        assert len(button.args[0]["visible"]) == len(figure.data)
    orange = {}
    for button in rules.buttons:
        values = button.args[0]
        assert {len(column) for column in values.values()} == {len(figure.data)}
        orange[button.label] = sum(c.count(1) for c in values["marker.color"] if type(c) is list)
    assert orange == {"against pr28386": 2, "against pr28677": 0, "against pr28894": 0}


def test_every_ceiling_is_named_beside_its_line():
    named = [text.strip() for trace in FIGURES["shapes"].data for text in trace.text or () if text]
    assert named[:3] == ["pr28386: 100", "pr28677: 130", "pr28894: 9,000 →"]


def test_bytes_are_told_in_the_title():
    # 48 bytes a token, 16 a request: 432,192 and at most 6,432
    assert FIGURES["bytes"].layout.title.text == (
        "The pool-sized rule pr28894 takes 0 to 0 MB, every other at most 0.0 MB"
    )


def test_one_deployment_to_scale():
    figure = one_report()
    assert figure.layout.title.text == "1 of 4 copied batch shapes overflows the buffer of pr28386"
    assert list(figure.data[0].marker.color).count(ORANGE) == 1
    assert "<b>pr28386: 12,288 tokens</b>" in labels(figure)
    fits = one_report("0.5.14")
    assert fits.layout.title.text == "All 4 copied batch shapes fit the buffer of pr28677"
    assert ORANGE not in fits.data[0].marker.color


def test_what_is_far_ends_at_the_edge():
    shapes = pd.DataFrame(
        {"producer": ["decode", "prefill", "benchmark"], "num_tokens": [8, 4096, 3_000_000]}
    ).assign(copied=True, in_scheduler=[True, True, False])
    rules = pd.DataFrame({"rule": ["pr28386", "pr28894"], "max_num_tokens": [4096, 3_000_000]})
    rules = rules.assign(at_least=False)
    figure = plots.shapes_of_one(shapes, rules, "pr28386", "fits")
    edge = figure.layout.xaxis.range[1]
    assert 4096 < edge < 6000
    assert list(figure.data[0].x) == [8, 4096, edge]
    assert figure.data[0].text[2] == "3,000,000 →"
    assert "pr28894: 3,000,000 tokens →" in labels(figure)
    assert len(figure.layout.shapes) == 1  # the far ceiling has no line
    none = plots.shapes_of_one(shapes, rules, None, "not-applicable")
    assert none.layout.title.text == "This release makes no static eager buffers"
    nothing = plots.shapes_of_one(shapes[:0], rules[:0], "tight", "fits")
    assert nothing.layout.xaxis.range[1] > 0


START = "python -m sglang.launch_server --model-path m --max-running-requests 128 "
WHOLE = "--chunked-prefill-size -1 --pp-size 4 --enable-dynamic-chunking "


@pytest.mark.parametrize(
    ("text", "release", "verdict", "title", "orange"),
    [
        (
            START + "--chunked-prefill-size 8192 --max-total-tokens 300000",
            "0.5.14",
            "fits",
            "All 2 copied batch shapes fit the buffer of pr28677",  # a benchmark is not counted
            0,
        ),
        (
            "python -m sglang.bench_one_batch --model-path m --batch-size 8 --input-len 4096 "
            "--chunked-prefill-size 8192 --max-running-requests 128",
            "0.5.14",
            "overflows",
            "Overflows, by requests or by a benchmark: all 2 copied batch shapes fit the buffer of "
            "pr28677",
            0,
        ),
        (
            START + "--chunked-prefill-size -1",  # the buffer is the pool, whatever its size
            "0.5.14",
            "fits",
            "All 2 copied batch shapes fit the buffer of pr28677",
            0,
        ),
        (
            START + "--tp 8 --chunked-prefill-size -1 --enable-attn-tp-input-scattered",
            "0.5.14",
            "unknown",
            "Not known: 1 of 2 copied batch shapes is sure to fit the buffer of pr28677",
            0,
        ),
        (
            START + WHOLE,
            "0.5.19",
            "hangs",
            "Start-up hangs: 1 of 2 copied batch shapes is sure to fit the buffer of pr28894",
            0,
        ),
        (
            START + "--tp 8 --chunked-prefill-size 8100 --enable-attn-tp-input-scattered",
            "0.5.19",
            "unknown",
            "Not known: 1 of 2 copied batch shapes is sure to fit the buffer of pr28894",
            0,
        ),
        (
            START + "--tp 8 --chunked-prefill-size 8100 --enable-attn-tp-input-scattered",
            "0.5.14",
            "overflows",
            "1 of 2 copied batch shapes overflows the buffer of pr28677",
            1,
        ),
        (
            "SGLANG_EAGER_INPUT_NO_COPY=1 " + START + "--chunked-prefill-size 8192",
            "0.5.14",
            "fits",
            "No batch is copied into the buffer of pr28677",
            0,
        ),
        (START + WHOLE, "0.5.12", "hangs", "This release makes no static eager buffers", 0),
    ],
)
def test_the_title_of_a_deployment_says_its_verdict(text, release, verdict, title, orange):
    report = check(read_config(text), release)
    figure = drawn(report)
    if report.rule is not None:
        assert report.verdict == verdict
        assert figure.layout.title.text == title
    else:
        assert figure.layout.title.text.startswith(title)
    assert list(figure.data[0].marker.color).count(ORANGE) == orange


def test_a_lower_bound_is_called_one():
    report = check(read_config(START + "--chunked-prefill-size 8192"), "0.5.19")
    assert any(text.startswith("<b>pr28894: at least") for text in labels(drawn(report)))
    frame = one_deployment.other_chunks(read_config(START + "--chunked-prefill-size 8192"), [4096])
    drawn_by_release = plots.what_if(frame)
    assert drawn_by_release.data[0].name == "buffer"  # main's small buffer needs no pool
    named = {
        step.label: step.args[0]["name"][0] for step in drawn_by_release.layout.sliders[0].steps
    }
    assert (named["0.5.14"], named["0.5.19"]) == ("buffer", "buffer (at least)")


def test_other_chunks_keep_what_a_text_says_beside_the_settings():
    chunks = [1024, 4096]
    documented = read_config(one_deployment.DOCUMENTED)
    assert set(one_deployment.other_chunks(documented, chunks).verdict) == {"fits", "overflows"}
    free = read_config(
        "SGLANG_EAGER_INPUT_NO_COPY=1 " + one_deployment.DOCUMENTED.split("\n", 1)[1]
    )
    frame = one_deployment.other_chunks(free, chunks)
    assert set(frame.verdict) == {"fits"}
    assert set(frame.largest) == {0}
    bench = read_config(
        "python -m sglang.bench_one_batch --model-path m --batch-size 8 --input-len 4096 "
        "--max-running-requests 128 --chunked-prefill-size 65536"
    )
    early = one_deployment.other_chunks(bench, chunks).query("release == '0.5.14'")
    assert early.verdict.tolist() == ["overflows", "overflows"]
    with pytest.raises(ValueError, match=r"max_running_requests, .*: not known"):
        one_deployment.other_chunks(
            read_config("python -m sglang.launch_server --model-path m --tp 2")
        )


def test_what_is_not_known_is_not_said_to_fit():
    whole = EngineConfig(4096, 8, admits_whole_prompts=True)
    every = one_deployment.other_chunks(whole, [1024, 4096])
    assert every.largest.isna().all()
    pool = [known.release for known in releases() if known.sizing_rule == "pr28894"]
    frame = every[~every.release.isin(pool)]  # a buffer as large as the pool holds every batch
    assert set(frame.verdict) == {"unknown"}
    assert set(every.verdict.drop(frame.index)) == {"fits"}
    figure = plots.what_if(frame)
    assert figure.layout.title.text == (
        f"Of none of {len(frame)} pairs of chunk and release is it known whether it fits"
    )
    assert list(figure.data[1].y) == [None, None]
    assert set(figure.data[1].marker.color) == {COLORS["neutral"]}
    some = pd.concat([frame, one_deployment.other_chunks(CONFIG, [2048])])
    assert plots.what_if(some).layout.title.text.endswith(f"; of {len(frame)} it is not known")


def test_the_slider_colours_what_goes_wrong():
    figure = FIGURES["what if"]
    names = [release.release for release in releases() if release.eager_runner]
    pairs = 2 * len(names)
    assert figure.layout.title.text.startswith(f"4 of {pairs} pairs of chunk and release overflow")
    steps = figure.layout.sliders[0].steps
    assert len(steps) == len(names)
    orange = [step.args[0]["marker.color"][1].count(ORANGE) for step in steps]
    wrong = {name: count for name, count in zip(names, orange, strict=True) if count}
    assert wrong == {names[0]: 2, "0.5.19": 2}  # main's small buffer; the radix cache of 0.5.19
    released = one_deployment.other_chunks(CONFIG, [2048])
    fitting = plots.what_if(released[released.verdict == "fits"])
    assert fitting.layout.title.text.startswith(f"None of {len(names) - 2} pairs")


def title(figure):
    return figure.layout.title.text


def test_the_title_names_the_buffers_that_the_shown_deployment_outgrows():
    least = LIMITS.assign(max_num_tokens=[100, 110, 9000] * 2)
    told = {
        "one: the buffer of pr28386 is outgrown, the others hold every batch": LIMITS,
        "one: the buffers of pr28386 and pr28677 are outgrown, the others hold every": least,
        "one: the buffer of pr28386 is outgrown": LIMITS[LIMITS.rule == "pr28386"],
        "one: every buffer holds every batch": LIMITS[LIMITS.rule == "pr28894"],
    }
    for words, ceilings in told.items():
        assert title(plots.shapes_and_ceilings(BATCHES, ceilings)).startswith(words)
    figure = plots.shapes_and_ceilings(BATCHES, LIMITS)
    titles = [button.args[1]["title.text"] for button in figure.layout.updatemenus[0].buttons]
    assert titles[1] == "two: the buffer of pr28386 is outgrown, the others hold every batch"


def test_a_chunk_below_the_rounding_unit_is_not_told_to_shrink():
    assert title(FIGURES["chunk"]).startswith("The predicted chunk only ever shrinks")
    small = replace(CONFIG, chunked_prefill_size=40)
    curve = curves.chunk_curve(explore_model(), small, [0.75])
    figure = plots.predicted_chunk(curve, 40, {})
    assert title(figure) == "The predicted chunk reaches 64 tokens, more than the chunk of 40"


def test_a_fifth_line_is_drawn():
    curve = curves.chunk_curve(explore_model(), CONFIG, [0.1, 0.3, 0.5, 0.75, 1.0])
    figure = plots.predicted_chunk(curve, 12288, {})
    assert len(figure.data) == 5
    assert "smoothing 1.0" in labels(figure)


def test_a_workspace_is_drawn_for_the_chunk_and_the_model_asked_for():
    models = [find_model(name) for name in ("DeepSeek-V3", "GLM-4.5")]
    table = workspace_table(models, [8, 16], [1024, 4096, 16384])
    figure = plots.workspace_by_ranks(table, "GLM-4.5", 4096)
    assert [line.name for line in figure.data] == ["released", "tight"] * 2
    assert [line.visible for line in figure.data] == [True, True, False, False]
    assert title(figure).startswith("GLM-4.5, chunk 4,096: ")
    assert title(figure).endswith("on each rank hold no token")
    whole = title(plots.workspace_by_ranks(table, "DeepSeek-V3", 16384))
    assert whole == "DeepSeek-V3, chunk 16,384: every token of the workspace can be used"


def test_a_search_tells_how_many_producers_reach_their_ceiling():
    bins = ["75-100 %", "ceiling", "over"]
    rows = [("prefill", 4, 2, 0), ("decode", 0, 3, 0), ("verify", 1, 0, 0)]

    def told(*chosen):
        shares = [(name, b, n) for name, *counts in chosen for b, n in zip(bins, counts, strict=1)]
        frame = pd.DataFrame(shares, columns=["producer", "bin", "batches"])
        return title(plots.reached_ceilings(frame))

    assert told(*rows[:2]) == "Every producer reaches its ceiling; none of 9 batches is over it"
    assert told(*rows).startswith("2 of 3 producers reach their ceiling; none of 10 batches is")
    assert told(("mixed", 0, 0, 1)).endswith("1 of 1 batches is over it")
    assert told(("mixed", 0, 0, 2)).endswith("2 of 2 batches are over it")
