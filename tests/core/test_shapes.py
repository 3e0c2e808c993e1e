"""Producers of shapes, MLP-sync padding and admission, worked by hand."""

import pytest

from eagerbuf import EngineConfig, admit, mlp_sync_pad, worst_shapes


def by_producer(config, release=None):
    return {shape.producer: shape for shape in worst_shapes(config, release)}


def test_padding_aligns_to_attention_tp_then_cp():
    pad = {"attn_tp_size": 4, "cp_align_size": 6}
    assert mlp_sync_pad([2047], attn_tp_size=8, cp_align_size=1, is_extend=False) == (
        "max_len",
        [2048],
    )
    # 5 -> 8 -> 12, then equal on both ranks: 2 x 24 >= 12 x 2
    assert mlp_sync_pad([5, 9], **pad, is_extend=False) == ("max_len", [12, 12])
    assert mlp_sync_pad([5, 13], **pad, is_extend=True) == ("sum_len", [12, 18])
    assert mlp_sync_pad([100, 0, 0], **pad, is_extend=False) == ("sum_len", [102, 0, 0])
    assert mlp_sync_pad([0], **pad, is_extend=True) == ("max_len", [0])
    with pytest.raises(ValueError, match="num_tokens"):
        mlp_sync_pad([], **pad, is_extend=True)
    with pytest.raises(ValueError, match="num_tokens"):
        mlp_sync_pad([-1], **pad, is_extend=True)


def test_shapes_of_the_documented_deployment():
    config = EngineConfig(12288, 128, tp_size=8, pp_size=4, enable_dynamic_chunking=True)
    shapes = by_producer(config, "0.5.14")
    tokens = {name: shape.num_tokens for name, shape in shapes.items()}
    assert tokens == {
        "prefill": 12288,
        "profiler_probe": 15360,
        "dynamic_chunk": 12288,
        "decode": 128,
        "autotune_dummy": 128,
        "benchmark": None,
    }
    assert shapes["profiler_probe"].bs == 1
    assert not shapes["autotune_dummy"].copied
    assert shapes["benchmark"].copied
    assert not shapes["benchmark"].in_scheduler


def test_static_chunks_send_no_probe():
    assert {"profiler_probe", "dynamic_chunk"}.isdisjoint(by_producer(EngineConfig(64, 4)))
    one_stage = EngineConfig(64, 4, enable_dynamic_chunking=True)
    assert "profiler_probe" not in by_producer(one_stage)


def test_the_probe_is_clipped_from_0_5_23():
    config = EngineConfig(4096, 8, pp_size=2, enable_dynamic_chunking=True, context_len=4096)
    assert by_producer(config, "0.5.22")["profiler_probe"].num_tokens == 5120
    assert by_producer(config, "0.5.23")["profiler_probe"].num_tokens == 4096


def test_the_extend_dummy_exists_from_0_5_18():
    config = EngineConfig(4096, 8)
    assert "autotune_extend" not in by_producer(config, "0.5.17")
    assert by_producer(config, "0.5.18")["autotune_extend"].num_tokens == 4096


def test_padded_decode_rows():
    plain = EngineConfig(8192, 125, tp_size=8, dp_size=2, enable_dp_attention=True)
    assert by_producer(plain)["decode"][1:3] == (128, 128)
    verify = EngineConfig(8192, 49, tp_size=8, moe_dense_tp_size=1, num_tokens_per_bs=4)
    assert by_producer(verify)["decode"][1:3] == (200, 50)
    aligned = EngineConfig(
        4096, 125, tp_size=8, dp_size=2, enable_dp_attention=True, num_tokens_per_bs=8
    )
    assert by_producer(aligned)["decode"][1:3] == (1000, 125)


def test_scattered_inputs_pad_extends_only():
    shapes = by_producer(EngineConfig(8100, 63, tp_size=8, attn_tp_input_scattered=True))
    assert shapes["prefill"].num_tokens == 8104
    assert shapes["decode"].num_tokens == 63


def config(chunk=100, **changes):
    return EngineConfig(**{"chunked_prefill_size": chunk, "max_running_requests": 10, **changes})


@pytest.mark.parametrize(
    ("prompts", "settings", "keywords", "taken"),
    [
        ([30, 40, 50], {}, {}, [30, 40, 30]),
        ([30, 70, 50], {}, {}, [30, 70]),
        ([500], {}, {}, [100]),
        ([500, 1], {}, {"carried": 40}, [40, 60]),
        ([5], {}, {"carried": 400}, [100]),
        ([30, 90], {}, {"mixed_decode": 5}, [30, 65]),
        ([30], {}, {"mixed_decode": 100}, []),
        ([30, 30], {}, {"chunk": 50}, [30, 20]),
        # pages of 16: 30 counts as 32, 40 as 48; 20 are left, one whole page of the 50
        ([30, 40, 50], {"page_size": 16}, {}, [30, 40, 16]),
        ([30, 50, 50], {"page_size": 64}, {}, [30]),  # 36 left: no whole page
        ([1] * 20, {}, {}, [1] * 10),  # requests run out
        ([1] * 20, {}, {"mixed_decode": 4}, [1] * 6),
        # whole prompts: the first always, more while they fit what is left, strictly
        ([900, 50], {"chunk": None, "max_prefill_tokens": 100}, {}, [900]),
        ([40, 50, 10], {"chunk": None, "max_prefill_tokens": 100}, {}, [40, 50]),
        ([40, 60], {"chunk": None, "max_prefill_tokens": 100}, {}, [40]),
        ([40, 50, 9], {"chunk": None, "max_prefill_tokens": 100}, {}, [40, 50, 9]),
        ([900, 1], {"chunk": 64, "admits_whole_prompts": True}, {}, [900, 1]),
        # ignore_eos without a radix cache looks at what is left only after adding
        (
            [99, 900, 1],
            {"chunk": None, "max_prefill_tokens": 100, "disable_radix_cache": True},
            {"ignore_eos": True},
            [99, 900],
        ),
        # the pool: a page more than the prompt must be left
        ([40, 58], {"chunk": None, "max_total_num_tokens": 100}, {}, [40]),
        ([40, 57], {"chunk": None, "max_total_num_tokens": 100}, {}, [40, 57]),
    ],
)
def test_admission(prompts, settings, keywords, taken):
    assert admit(prompts, config(**settings), **keywords) == taken


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"carried": -1}, "carried=-1"),
        ({"mixed_decode": -1}, "mixed_decode=-1"),
        ({"chunk": 0}, "chunk=0"),
    ],
)
def test_admission_refuses(keywords, words):
    with pytest.raises(ValueError, match=words):
        admit([1], config(), **keywords)


def test_admission_refuses_a_carried_request_without_chunking_and_empty_prompts():
    with pytest.raises(ValueError, match="carried=5"):
        admit([1], config(chunk=None), carried=5)
    with pytest.raises(ValueError, match="prompt of 0"):
        admit([0], config())
