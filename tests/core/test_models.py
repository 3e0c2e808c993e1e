"""The table of models and the KV bytes of a token, against arithmetic by hand."""

import pytest

from eagerbuf.model import SCHEMA, find_model, models
from tests.core.shipped import DATA


def test_there_are_models_of_every_kind_each_with_a_source():
    assert len(models()) >= 12
    assert {model.attention for model in models()} == {"gqa", "mla"}
    assert {model.other_layers for model in models()} == {None, "sliding", "linear"}
    assert all(model.source.startswith("https://github.com/") for model in models())
    assert sum(model.num_experts > 0 for model in models()) >= 8


@pytest.mark.parametrize(
    ("name", "tp", "expected"),
    [
        ("DeepSeek-V3", 1, 61 * (512 + 64) * 2),
        ("DeepSeek-V3", 16, 70_272),  # MLA: every rank holds the whole latent
        ("Llama-3.1-8B", 1, 2 * 32 * 8 * 128 * 2),
        ("Llama-3.1-8B", 4, 32_768),
        ("Llama-3.1-8B", 16, 16_384),  # eight heads on sixteen ranks: one on each
        ("Qwen3-235B-A22B", 4, 2 * 94 * 1 * 128 * 2),
        ("Qwen3-Next-80B-A3B", 8, 2 * 12 * 1 * 256 * 2),  # every fourth layer of 48
        ("gpt-oss-120b", 1, 2 * 18 * 8 * 64 * 2 * 1.8),  # 18 full layers, 18 at 0.8
    ],
)
def test_bytes_worked_by_hand(name, tp, expected):
    assert find_model(name).kv_bytes_per_token(tp) == pytest.approx(expected, rel=1e-12)


def test_pipeline_stages_split_the_layers():
    model = find_model("DeepSeek-V3")
    assert [len(model.stage(4, rank)) for rank in range(4)] == [15, 15, 15, 16]
    assert model.kv_bytes_per_token(8, 4) == 15 * 1152
    assert model.kv_bytes_per_token(8, 4, 3) == 16 * 1152
    for any_model in models():
        layers = [layer for rank in range(7) for layer in any_model.stage(7, rank)]
        assert layers == list(range(any_model.layers))


def test_a_stage_may_hold_no_token_or_only_a_window():
    assert find_model("Qwen3-Next-80B-A3B").kv_bytes_per_token(1, 48, 0) == 0
    # without a full layer the pool counts window tokens, one for one
    assert find_model("gpt-oss-120b").kv_bytes_per_token(1, 36, 0) == 2 * 8 * 64 * 2


def test_another_dtype_and_another_window():
    model = find_model("gpt-oss-120b")
    assert model.kv_bytes_per_token(dtype_bytes=1) == model.kv_bytes_per_token() / 2
    assert model.kv_bytes_per_token(sliding_ratio=0.0) == 18 * 2 * 8 * 64 * 2
    assert model.kv_bytes_per_token(sliding_ratio=1.0) == 36 * 2 * 8 * 64 * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tp": 0}, "tp=0"),
        ({"pp_size": 33}, "pp_size=33.*32 layers"),
        ({"pp_size": 0}, "pp_size=0"),
        ({"pp_size": 4, "pp_rank": 4}, "pp_rank=4.*0 to 3"),
        ({"pp_rank": -1}, "pp_rank=-1"),
    ],
)
def test_impossible_ranks_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        find_model("Llama-3.1-8B").kv_bytes_per_token(**arguments)


def test_an_unknown_model_is_named():
    with pytest.raises(ValueError, match=r"model='Llama-9'.*DeepSeek-V3"):
        find_model("Llama-9")


def test_the_readme_of_the_data_explains_every_column():
    text = (DATA / "README.md").read_text(encoding="utf-8")
    section = text.split("## models.csv")[1].split("\n## ")[0]
    assert all(f"`{column}`" in section for column in SCHEMA)
