"""The autotune room: buckets, the dummy's shape, and the consequences run for real. About 10 s."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent, indent

import pandas as pd
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eagerbuf import EngineConfig
from eagerbuf.plots import autotune as plots
from eagerbuf.repro import autotune as room
from eagerbuf.repro.autotune import collective_rank, collectives, cpu_tactics, regret, tactics

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FINE = (512, 768, 1024, 1280, 1536, 1792, 2048)
COARSE = (2560, 3072, 3584, 4096)


def config(requests: int, **fields: object) -> EngineConfig:
    """Attention TP over four ranks, DP attention over two."""
    known = {"tp_size": 8, "dp_size": 2, "enable_dp_attention": True}
    return EngineConfig(8192, requests, **{**known, **fields})  # type: ignore[arg-type]


def test_the_two_bucket_functions_need_the_standard_library_only() -> None:
    code = (
        "import sys, eagerbuf\n"
        "assert eagerbuf.hybrid_bucket(2047, 2048) == 2048\n"
        "assert eagerbuf.hybrid_buckets(2) == (1, 2)\n"
        "from eagerbuf.repro.autotune import *\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'plotly'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("most", "buckets"),
    [
        (1, (1,)),
        (3, (1, 2, 3)),
        (256, POWERS),
        (300, (*POWERS, 300)),
        (512, (*POWERS, 512)),
        (2047, (*POWERS, *FINE[:-1], 2047)),
        (2048, (*POWERS, *FINE)),
        (2052, (*POWERS, *FINE, 2052)),
        (4096, (*POWERS, *FINE, *COARSE)),
        (5000, (*POWERS, *FINE, *COARSE, 5000)),
        (16384, (*POWERS, *FINE, *COARSE, 8192, 16384)),
        (0, (0,)),
        (-10_000, (-10_000,)),
    ],
)
def test_buckets(most: int, buckets: tuple[int, ...]) -> None:
    assert room.hybrid_buckets(most) == buckets


@pytest.mark.parametrize(
    ("x", "most", "bucket"),
    [
        (0, 2048, 1),
        (-7, 2048, 1),
        (0, 0, 1),  # x <= 0 is looked at before the maximum
        (1, 0, 0),
        (2048, 2048, 2048),
        (9999, 2048, 2048),
        (2047, 2048, 2048),
        (150, 200, 256),  # up to 256 the maximum does not cap
        (257, 300, 300),  # beyond, it does
        (257, 4096, 512),
        (1500, 2048, 1536),
        (2049, 4096, 2560),
        (2052, 4096, 2560),
        (4097, 5000, 5000),
        (4097, 16384, 8192),
    ],
)
def test_bucket_of_a_live_count(x: int, most: int, bucket: int) -> None:
    assert room.hybrid_bucket(x, most) == bucket


@given(st.integers(0, 20), st.integers(1, 2**20))
def test_in_sglangs_ranges_a_count_maps_to_the_next_tuned_bucket(k: int, x: int) -> None:
    buckets = room.hybrid_buckets(2**k)
    expected = min((b for b in buckets if b >= x), default=2**k)
    assert room.hybrid_bucket(x, 2**k) == expected


def test_the_case_of_the_pull_request() -> None:
    shapes = room.decode_shapes(config(2047))
    assert (shapes.dummy_bs, shapes.dummy_tokens) == (2047, 2047)
    assert (shapes.live_bs, shapes.live_tokens) == (2048, 2048)
    assert shapes.misshaped
    assert shapes.short_by == 1
    assert not shapes.tuned_set_differs  # 2047 and 2048 both ask for 2048
    assert "live_tokens" in shapes._repr_html_()


@pytest.mark.parametrize(
    ("requests", "fields", "dummy", "live", "misshaped", "differs"),
    [
        # alignment 12: six attention-TP ranks and CP over two, zigzag, 2 * 2 = 4: 2052 is next
        (2048, {"tp_size": 24, "attn_cp_size": 2, "cp_zigzag": True}, 2048, 2052, True, True),
        (2048, {}, 2048, 2048, False, False),
        # 125 * 8 = 1000 is aligned to 8; 49 * 4 = 196 is not
        (125, {"tp_size": 16, "num_tokens_per_bs": 8}, 1000, 1000, False, False),
        (49, {"tp_size": 16, "num_tokens_per_bs": 4}, 196, 200, True, False),
        # neither DP attention nor an all-to-all: nothing pads
        (2047, {"enable_dp_attention": False}, 2047, 2047, False, False),
    ],
)
def test_dummy_and_live_shape(
    requests: int,
    fields: dict[str, object],
    dummy: int,
    live: int,
    misshaped: bool,
    differs: bool,
) -> None:
    shapes = room.decode_shapes(config(requests, **fields))
    assert (shapes.dummy_tokens, shapes.live_tokens) == (dummy, live)
    assert (shapes.misshaped, shapes.tuned_set_differs) == (misshaped, differs)


def test_with_speculation_the_new_dummy_is_aligned_but_larger_than_the_live_batch() -> None:
    shapes = room.decode_shapes(config(125, tp_size=16, num_tokens_per_bs=8), "pr28677")
    assert (shapes.dummy_bs, shapes.dummy_tokens) == (128, 1024)
    assert (shapes.live_bs, shapes.live_tokens) == (125, 1000)
    assert not shapes.misshaped


def test_table_agrees_with_single_configurations() -> None:
    table = room.misshape_table(
        (1, 49, 2047), (1, 4, 6), (1, 2), num_tokens_per_bs=4, rule="pr28677"
    )
    assert len(table) == 18
    for row in table.to_dict("records"):
        cp = row["attn_cp_size"]
        one = config(
            row["max_running_requests"],
            tp_size=2 * row["attn_tp_size"] * cp,
            attn_cp_size=cp,
            cp_zigzag=cp > 1,
            num_tokens_per_bs=4,
        )
        shapes = room.decode_shapes(one, "pr28677")
        for name in ("dummy_bs", "dummy_tokens", "live_bs", "live_tokens", "short_by"):
            assert row[name] == getattr(shapes, name), (row, name)
        assert row["misshaped"] == shapes.misshaped
        assert row["tuned_set_differs"] == shapes.tuned_set_differs


def test_rarity_against_a_count_of_its_own() -> None:
    found = room.rarity(room.misshape_table(range(1, 300), range(2, 20))).set_index("alignment")
    for alignment, row in found.iterrows():
        padded = {n: n + -n % alignment for n in range(1, 300)}
        differing = [n for n, live in padded.items() if any(n <= 2**k < live for k in range(12))]
        assert row.pairs == 299
        assert row.misshaped == sum(n != live for n, live in padded.items())
        assert row.tuned_set_differs == len(differing)
        assert row.power_of_two == (alignment in (2, 4, 8, 16))
        ends = (min(differing), max(differing)) if differing else (pd.NA, pd.NA)
        assert (row.smallest, row.largest) == ends


def test_power_of_two_alignments_differ_only_up_to_half_the_alignment() -> None:
    found = room.rarity(room.misshape_table(range(1, 4097), (2, 8, 64)))
    assert found.tuned_set_differs.tolist() == [1, 4, 32]
    assert found.largest.tolist() == [1, 4, 32]


def test_sets_differ_exactly_where_the_live_bucket_was_not_tuned() -> None:
    for row in room.misshape_table(range(1, 2100), (8, 12)).itertuples():
        bucket = room.hybrid_bucket(row.live_tokens, row.live_tuned_to)
        untuned = bucket not in room.hybrid_buckets(row.dummy_tuned_to)
        assert untuned == row.tuned_set_differs, row


def test_the_full_batch_does_not_fit_the_old_buffer_and_fits_the_new() -> None:
    loads = room.load_decode(config(2047), (1, 2044, 2045, 2047))
    old, new = loads[loads.rule == "pr28386"], loads[loads.rule == "pr28677"]
    assert old.loaded.tolist() == [True, True, False, False]
    assert new.loaded.all()
    assert old.bs.tolist() == [4, 2044, 2048, 2048]
    assert "2048 requests" in old.error.iloc[-1]
    assert "2047 requests" in old.error.iloc[-1]


def test_more_requests_than_the_scheduler_runs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"running_requests=2048.*max_running_requests=2047"):
        room.load_decode(config(2047), [2048])


def test_real_ranks_refuse_the_unaligned_count_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    table = room.run_collectives([63, 64, 63], 2, device="cpu")
    assert len(table) == 8
    assert table.groupby("num_tokens").done.agg(list).to_dict() == {63: [False] * 4, 64: [True] * 4}
    refused = table[~table.done]
    assert (refused.error.str.len() > 20).all()
    assert not refused.error.str.contains(r"\[rank|/").any()  # no time stamps, no paths
    assert sorted(table.part_tokens.unique()) == [31, 32]
    assert not list(tmp_path.iterdir())
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_a_run_is_limited_in_time() -> None:
    with pytest.raises(RuntimeError, match=r"limit_s=0\.1 seconds"):
        room.run_collectives([64], 2, device="cpu", limit_s=0.1)
    assert not psutil.Process().children()


def a_program(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Have the ranks run a collective_rank whose `run_case` is `body`."""
    (folder / "other_rank.py").write_text(
        "import os, sys\n"
        "from eagerbuf.repro.autotune import collective_rank\n"
        "plain = collective_rank.run_case\n"
        f"def run_case(name, batch, rank, ranks):\n{indent(dedent(body), '    ')}\n"
        "    return plain(name, batch, rank, ranks)\n"
        "collective_rank.run_case = run_case\n"
        "collective_rank.main(sys.argv[1])\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(collectives, "PROGRAM", "other_rank")


def test_a_rank_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "PROGRAM", "eagerbuf.no_such_room")
    with pytest.raises(RuntimeError, match="No module named"):
        room.run_collectives([64], 2, device="cpu")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("raise ArithmeticError('as told')", "a rank failed: ArithmeticError: as told"),
        ("os._exit(70)", "it said nothing"),
        ("os.kill(os.getpid(), 9)", "it said nothing"),
    ],
)
def test_the_end_of_one_rank_ends_the_run(
    end: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_program(monkeypatch, tmp_path, f"if rank == 1: {end}")
    with pytest.raises(RuntimeError, match=message):
        room.run_collectives([64], 2, device="cpu")
    assert not psutil.Process().children()


@pytest.mark.parametrize("who", ["True", "rank == 1"], ids=["all ranks", "one, others wait for it"])
def test_a_collective_that_ends_the_process_is_refused(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As gloo up to torch 2.6 does; what was asked for after it runs in new processes."""
    line = "[rank0]:[F1130 09:22:39.38 X.cpp:19] Check failed: 4 == 3 \n"
    end = f"if len(batch) == 3 and {who}: os.write(2, {line.encode()!r}); os.abort()"
    a_program(monkeypatch, tmp_path, end)
    table = room.run_collectives([4, 3, 6], 2, device="cpu")
    assert table.num_tokens.tolist() == [3] * 4 + [4] * 4 + [6] * 4
    assert table.done.tolist() == [False] * 4 + [True] * 8
    refused = table[table.num_tokens == 3]
    assert set(refused.error) == {"Check failed: 4 == 3"}
    assert sorted(refused.part_tokens) == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([64], 0), "ranks=0"),
        (([64], 17), "ranks=17"),
        (([0], 2), "num_tokens=0"),
        (([], 2), "num_tokens is empty"),
        (([64], 2, "tpu"), "device='tpu'"),
    ],
)
def test_collectives_check_their_arguments(arguments: tuple[object, ...], message: str) -> None:
    counts, count, *device = arguments
    with pytest.raises(ValueError, match=message):
        room.run_collectives(counts, count, device=device[0] if device else "cpu")  # type: ignore[arg-type]


def test_a_collective_with_a_wrong_result_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_gather_into_tensor", lambda out, _: out.zero_())
    with pytest.raises(ArithmeticError, match="all_gather_into_tensor of 4 tokens"):
        collective_rank.run_case("all_gather_into_tensor", torch.ones(4, 2), 0, 2)


@pytest.mark.parametrize("name", cpu_tactics.TACTICS)
@pytest.mark.parametrize(
    ("tokens", "experts", "top_k"), [(1, 4, 1), (1, 9, 9), (5, 16, 2), (40, 3, 2)]
)
def test_every_tactic_gives_the_same_product(
    name: str, tokens: int, experts: int, top_k: int
) -> None:
    layer = room.MoeLayer(hidden=12, inter=7, experts=experts, top_k=top_k, dtype="float32")
    x, w, ids, gate = layer.inputs(tokens, "cpu")
    expected = torch.einsum("th,tkhi,tk->ti", x.double(), w[ids].double(), gate.double())
    got = cpu_tactics.TACTICS[name](x, w, ids, gate)
    assert got.shape == (tokens, 7)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(tactics.reference(x, w, ids, gate), expected)


SMALL = room.MoeLayer(hidden=8, inter=8, experts=4, top_k=2, dtype="float32")


def test_timings_are_whole_rounds_of_every_tactic() -> None:
    threads = torch.get_num_threads()
    timings = room.time_tactics([3, 1, 3], device="cpu", layer=SMALL, budget_s=0.0)
    assert torch.get_num_threads() == threads
    assert timings.rounds.groupby(["num_tokens", "tactic"]).size().tolist() == [7] * 10
    assert (timings.rounds.ms > 0).all()
    assert 0 < timings.worst_error < 1e-5
    summary = timings.summary()
    assert len(summary) == 10
    assert (summary.low_ms <= summary.median_ms).all()
    assert (summary.median_ms <= summary.high_ms).all()


def test_a_wrong_tactic_is_found_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"nothing": lambda x, w, *_: torch.zeros(len(x), w.shape[2])}
    monkeypatch.setattr(cpu_tactics, "TACTICS", wrong)
    with pytest.raises(ArithmeticError, match="tactic 'nothing' at 5 tokens"):
        room.time_tactics([5], device="cpu", layer=SMALL)


def test_time_tactics_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="num_tokens=0"):
        room.time_tactics([0], device="cpu")
    with pytest.raises(ValueError, match="device='tpu'"):
        room.time_tactics([1], device="tpu")


def rounds(times: dict[int, dict[str, list[float]]]) -> pd.DataFrame:
    """The rounds of `time_tactics` from lists of milliseconds."""
    rows = [
        {"num_tokens": count, "tactic": tactic, "round": number, "ms": ms}
        for count, by_tactic in times.items()
        for tactic, measured in by_tactic.items()
        for number, ms in enumerate(measured)
    ]
    return pd.DataFrame(rows)


def test_regret_by_hand() -> None:
    cases = room.misshape_table([4], [8])  # dummy 4, live 8
    assert room.counts_to_time(cases) == [4, 8]
    measured = {
        4: {"a": [1.0, 1.0, 9.0], "b": [2.0, 2.0, 2.0]},  # a is kept: its median is 1
        8: {"a": [3.0, 3.0, 3.0], "b": [2.0, 2.0, 2.0]},  # b is best: a costs half as much again
    }
    found = room.regrets(cases, rounds(measured)).iloc[0]
    assert (found.dummy_bucket, found.kept, found.best) == (4, "a", "b")
    assert (found.kept_ms, found.best_ms) == (3.0, 2.0)
    assert found.regret_percent == pytest.approx(50)
    assert found.low_percent == pytest.approx(50)
    assert found.told_apart


def test_a_regret_within_the_noise_is_not_told_apart() -> None:
    measured = {
        4: {"a": [1.0] * 7, "b": [2.0] * 7},
        8: {"a": [1.0, 9.0, 1.1, 9.0, 1.1, 9.0, 2.1], "b": [2.0, 1.0, 9.0, 1.0, 9.0, 1.0, 2.0]},
    }
    found = room.regrets(room.misshape_table([4], [8]), rounds(measured)).iloc[0]
    assert (found.kept, found.best) == ("a", "b")
    assert found.regret_percent == pytest.approx(5)
    assert found.low_percent < 0 < found.high_percent
    assert not found.told_apart


def test_no_regret_where_the_bucket_is_the_live_count() -> None:
    cases = room.misshape_table([2047], [8])
    assert room.counts_to_time(cases) == [2048]
    found = room.regrets(cases, rounds({2048: {"a": [2.0, 1.0], "b": [3.0, 3.0]}})).iloc[0]
    assert (found.regret_percent, found.kept) == (0, "a")


def test_regret_needs_every_count() -> None:
    with pytest.raises(ValueError, match="num_tokens=8: was not timed"):
        room.regrets(room.misshape_table([4], [8]), rounds({4: {"a": [1.0]}}))


def test_dummy_buckets() -> None:
    assert [regret.dummy_bucket(n) for n in (4, 2047, 1500, 2052)] == [4, 2048, 1536, 2560]


def test_the_triton_kernel_under_its_interpreter(triton_env: dict[str, str]) -> None:
    code = (
        "from eagerbuf.repro.autotune import MoeLayer, tactics, triton_tactics as tiles\n"
        "for sizes in ((64, 64, 4, 2), (96, 80, 5, 3), (70, 200, 3, 1)):\n"
        "    layer = MoeLayer(*sizes, 'float32')\n"
        "    inputs = layer.inputs(33, 'cpu')\n"
        "    expected = tactics.reference(*inputs)\n"
        "    for tile in tiles.TILES:\n"
        "        got = tiles.prepare(tile, *inputs)()\n"
        "        assert (got - expected).abs().max() < 1e-5 * expected.abs().max(), (sizes, tile)\n"
    )
    env = triton_env | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=120)


@pytest.mark.parametrize(
    ("rules", "title"),
    [
        (("pr28677",), "None of 2 loads raise under pr28677"),
        (("pr28386",), "1 of 2 loads raise under pr28386 (from 2,047 running requests on)"),
        (
            ("pr28386", "pr28677", "tight"),
            "1 of 2 loads raise under pr28386 (from 2,047 running requests on), none under "
            "pr28677, none under tight",
        ),
    ],
)
def test_a_load_is_drawn_for_any_number_of_rules(rules: tuple[str, ...], title: str) -> None:
    figure = plots.peak_load(room.load_decode(config(2047), (2044, 2047), rules=rules))
    assert figure.layout.title.text == title
    named = [note.text.split(":")[0] for note in figure.layout.annotations]
    assert [name for name in named if name != "the copy raises"] == [*rules]


def test_figures_hold_plain_numbers() -> None:
    near = room.misshape_table(range(2041, 2050), (8, 12))
    loads = room.load_decode(config(2047), range(2040, 2048))
    calls = pd.DataFrame(
        {
            "num_tokens": [3, 4],
            "collective": ["reduce_scatter_tensor"] * 2,
            "rank": [0, 0],
            "done": [False, True],
            "error": ["no", ""],
        }
    )
    figures = [
        plots.misalignment(near),
        plots.collectives(calls),
        plots.peak_load(loads),
        plots.rarity(room.rarity(near)),
    ]
    for figure in figures:
        assert "bdata" not in figure.to_json()  # arrays would be base64 that nobody can review
    titles = [figure.layout.title.text for figure in figures]
    # 8 and 12: 2041 to 2047 and 2049 are unaligned to 8; all but 2052 and 2040 to 12
    assert titles[0].startswith("17 of 18 dummies are mis-shaped, 8 tune")
    assert titles[1] == "At 3 tokens every call is refused, at 4 tokens none is"
    assert titles[2] == (
        "3 of 8 loads raise under pr28386 (from 2,045 running requests on), none under pr28677"
    )
    assert titles[3] == "With power-of-two alignments 0 of 9 pairs tune another bucket set"
