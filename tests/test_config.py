"""EngineConfig: what follows from the settings, and what is refused."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from eagerbuf import EngineConfig


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
        ({"moe_dense_tp_size": 1}, True),
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
        ({"tp_size": 8, "attn_cp_size": 3}, ["tp_size=8", "divisible", "3"]),
        (
            {"tp_size": 8, "dp_size": 3, "enable_dp_attention": True},
            ["tp_size=8", "dp_size 3", "attn_cp_size 1"],
        ),
        ({"max_running_requests": 10**15}, ["max_running_requests", "at most"]),
    ],
)
def test_refused_by_name_value_and_rule(changes, words):
    with pytest.raises(ValueError, match="=") as error:
        config(**changes)
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


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
    assert callable(eagerbuf.check)
    assert callable(eagerbuf.replay)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = eagerbuf.no_such_name
