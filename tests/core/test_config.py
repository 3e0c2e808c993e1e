"""EngineConfig: what follows from the settings, and what is refused."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from eagerbuf import EngineConfig
from eagerbuf.config import Unchecked, check_layout, given


def config(**changes):
    return EngineConfig(**{"chunked_prefill_size": 8192, "max_running_requests": 64, **changes})


def test_attention_tp_is_what_dp_attention_and_cp_leave_over():
    assert config(tp_size=8).attn_tp_size == 8
    assert config(tp_size=8, dp_size=2, enable_dp_attention=True).attn_tp_size == 4
    assert config(tp_size=8, dp_size=2).attn_tp_size == 8  # replicas divide nothing
    both = config(tp_size=16, dp_size=2, enable_dp_attention=True, attn_cp_size=4)
    assert both.attn_tp_size == 2


def test_zigzag_doubles_the_cp_alignment():
    assert config(tp_size=8, attn_cp_size=8).cp_align_size == 8
    assert config(tp_size=8, attn_cp_size=8, cp_zigzag=True).cp_align_size == 16
    assert config(tp_size=8).cp_align_size == 1


@pytest.mark.parametrize(
    ("changes", "required"),
    [
        ({}, False),
        ({"tp_size": 4, "dp_size": 2, "enable_dp_attention": True}, True),
        ({"moe_a2a_backend": "deepep"}, True),
        ({"moe_a2a_backend": "pplx"}, True),
        ({"moe_dense_tp_size": 1}, True),
        ({"moe_dense_tp_size": 1, "moe_a2a_backend": "deepep"}, True),
        ({"moe_dense_tp_size": 1, "tp_size": 2, "dp_size": 2, "enable_dp_attention": True}, True),
        ({"moe_dense_tp_size": 1, "disable_attn_tp_gather": True}, False),
        ({"moe_a2a_backend": "deepep", "disable_attn_tp_gather": True}, False),
        (
            {
                "tp_size": 2,
                "dp_size": 2,
                "enable_dp_attention": True,
                "disable_attn_tp_gather": True,
            },
            True,
        ),
        ({"dp_size": 2}, False),
    ],
)
def test_mlp_sync(changes, required):
    assert config(**changes).require_mlp_sync is required


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_running_requests": 0}, ["max_running_requests=0", "at least 1"]),
        ({"max_running_requests": None}, ["max_running_requests=None", "whole number"]),
        ({"pp_size": 0}, ["pp_size=0"]),
        ({"tp_size": -8}, ["tp_size=-8"]),
        ({"page_size": 0}, ["page_size=0"]),
        ({"max_prefill_tokens": -1}, ["max_prefill_tokens=-1"]),
        ({"max_total_num_tokens": 0}, ["max_total_num_tokens=0"]),
        ({"context_len": -5}, ["context_len=-5"]),
        ({"chunked_prefill_size": 2.5}, ["chunked_prefill_size=2.5", "whole number or None"]),
        ({"chunked_prefill_size": True}, ["chunked_prefill_size=True"]),
        ({"enable_dp_attention": "yes"}, ["enable_dp_attention='yes'", "True or False"]),
        ({"moe_a2a_backend": None}, ["moe_a2a_backend=None"]),
        ({"moe_a2a_backend": 8}, ["moe_a2a_backend=8"]),
        ({"moe_a2a_backend": ""}, ["moe_a2a_backend=''"]),
        ({"tp_size": 8, "attn_cp_size": 3}, ["tp_size=8", "divisible", "3"]),
        (
            {"tp_size": 8, "dp_size": 3, "enable_dp_attention": True},
            ["tp_size=8", "dp_size 3", "attn_cp_size 1"],
        ),
        ({"max_running_requests": 2**40 + 1}, ["max_running_requests", "at most 1099511627776"]),
        ({"chunked_prefill_size": -(2**40) - 1}, ["chunked_prefill_size=-1099511627777"]),
    ],
)
def test_refused_by_name_value_and_rule(changes, words):
    with pytest.raises(ValueError, match="=") as error:
        config(**changes)
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


def test_the_largest_number_is_taken():
    widest = config(chunked_prefill_size=-(2**40), max_total_num_tokens=2**40)
    assert (widest.chunk, widest.max_total_num_tokens) == (0, 1_099_511_627_776)


def test_what_is_not_said_is_one_rank_with_everything_off():
    least = config()
    assert (least.max_prefill_tokens, least.page_size, least.num_tokens_per_bs) == (16384, 1, 1)
    assert (least.tp_size, least.pp_size, least.dp_size, least.attn_cp_size) == (1, 1, 1, 1)
    assert (least.max_total_num_tokens, least.context_len, least.moe_dense_tp_size) == (None,) * 3
    assert least.moe_a2a_backend == "none"
    off = """cp_zigzag enable_dp_attention enable_dynamic_chunking enable_mixed_chunk
        disable_radix_cache disable_attn_tp_gather attn_tp_input_scattered admits_whole_prompts"""
    assert [getattr(least, name) for name in off.split()] == [False] * 8
    assert given(None) == 0


def test_it_shows_what_was_set():
    assert repr(config()) == "EngineConfig(chunked_prefill_size=8192, max_running_requests=64)"
    above, below = {"tp_size": 4, "cp_zigzag": True}, {"max_prefill_tokens": 4096}
    for changes in (above, below, {"moe_a2a_backend": "deepep"}, {"moe_dense_tp_size": 1}):
        words = "".join(f", {name}={value!r}" for name, value in changes.items())
        assert repr(config(**changes))[:-1].endswith(f"max_running_requests=64{words}")
    assert repr(config(max_prefill_tokens=16384 * 1)) == repr(config())
    assert repr(EngineConfig(None, 8)) == (
        "EngineConfig(chunked_prefill_size=None, max_running_requests=8)"
    )


def test_a_column_that_does_not_divide_is_told_with_its_row():
    known = {"enable_dp_attention": True, "attn_cp_size": 2}
    with pytest.raises(
        ValueError, match=r"tp_size=8: .* 6 = dp_size 3 .* attn_cp_size 2 \(row 1\)"
    ):
        check_layout(Unchecked(tp_size=8, dp_size=np.array([2, 3, 5]), **known))
    with pytest.raises(
        ValueError, match=r"tp_size=6: .* 4 = dp_size 2 .* attn_cp_size 2 \(row 2\)"
    ):
        check_layout(Unchecked(tp_size=np.array([4, 8, 6]), dp_size=2, **known))


def test_replicas_are_fine_at_any_tp():
    assert config(tp_size=1, dp_size=7).attn_tp_size == 1


def test_frozen_and_plain():
    frozen = config(max_running_requests=np.int64(7))
    assert type(frozen.max_running_requests) is int
    with pytest.raises(FrozenInstanceError):
        frozen.tp_size = 2


@pytest.mark.parametrize("size", [None, 0, -1])
def test_chunking_off(size):
    assert config(chunked_prefill_size=size).chunk == 0


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, eagerbuf; from eagerbuf import EngineConfig, buffer_size, check\n"
        "heavy = {'torch', 'pandas', 'plotly', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_all_there():
    import eagerbuf

    for name in eagerbuf.__all__:
        assert getattr(eagerbuf, name) is not None
    from eagerbuf import model  # a module of nearly that name hides no function

    assert callable(eagerbuf.check)
    assert eagerbuf.models is model.models
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = eagerbuf.no_such_name
