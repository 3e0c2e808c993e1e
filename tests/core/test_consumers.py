"""What else the number sizes: each formula against values worked by hand, and the finding."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerbuf import EngineConfig, check, read_config
from eagerbuf._frames import config_columns
from eagerbuf.consumers import others
from eagerbuf.consumers.known import CONSUMERS
from eagerbuf.consumers.tables import consumer_table, price, workspace_table
from eagerbuf.consumers.tokens import needed_tokens, reserved_tokens, wasted_tokens
from eagerbuf.consumers.workspace import (
    payload_bytes,
    table_bytes,
    workspace_bytes,
    workspace_tokens,
)
from eagerbuf.diagnose.findings.workspace import known_model
from eagerbuf.model import find_model
from eagerbuf.releases import releases

LAUNCH = (
    "python -m sglang.launch_server --model-path {model} --tp 8 --dp 8 --enable-dp-attention "
    "--pp-size 4 "
    "--enable-dynamic-chunking --chunked-prefill-size 32768 --max-running-requests 1024 "
    "--moe-a2a-backend flashinfer"
)
V3 = LAUNCH.format(model="deepseek-ai/DeepSeek-V3-0324")
PROBING = EngineConfig(4096, 128, pp_size=4, enable_dynamic_chunking=True)
CAPACITY = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"


def wasted(text, release="0.5.22"):
    found = check(read_config(text, release=release), release).findings
    return next((f for f in found if f.code == "wasted-term"), None)


def test_the_number_as_released_and_as_needed():
    assert (reserved_tokens(PROBING), needed_tokens(PROBING)) == (16384, 5120)
    assert wasted_tokens(PROBING) == 11264
    odd = replace(PROBING, chunked_prefill_size=4097)
    assert needed_tokens(odd) == 5122  # 1.25 * 4097 = 5121.25
    for still in (
        replace(PROBING, enable_dynamic_chunking=False),
        replace(PROBING, pp_size=1),
        replace(PROBING, max_prefill_tokens=5120),
        replace(PROBING, chunked_prefill_size=None),
    ):
        assert wasted_tokens(still) == 0
    assert needed_tokens(replace(PROBING, chunked_prefill_size=-1)) == 0


@given(st.integers(1, 40_000), st.integers(0, 40_000), st.booleans(), st.integers(1, 4))
def test_the_remedy_leaves_what_is_needed(chunk, limit, dynamic, stages):
    config = EngineConfig(
        chunk, 8, max_prefill_tokens=limit, pp_size=stages, enable_dynamic_chunking=dynamic
    )
    needed = needed_tokens(config)
    assert reserved_tokens(replace(config, max_prefill_tokens=needed)) == needed
    assert wasted_tokens(config) >= 0
    assert needed >= chunk


def test_columns_give_what_single_configurations_give():
    frame = pd.DataFrame(
        {
            "chunked_prefill_size": [4096, 4096, 13000, 64],
            "max_running_requests": [128] * 4,
            "pp_size": [4, 1, 4, 2],
            "enable_dynamic_chunking": [True, True, True, False],
        }
    )
    assert list(needed_tokens(config_columns(frame))) == [5120, 4096, 16250, 64]
    assert list(wasted_tokens(config_columns(frame))) == [11264, 0, 134, 0]


def test_the_workspace_by_hand():
    assert payload_bytes(7168, 8) == 2 * 7168 + 8 * 8 + 2 * 7168 == 28_736
    # 72 bytes of counters -> 128, flags 32 -> 128 twice, 22 * 4 * 5120 twice (whole lines)
    assert table_bytes(8, 5120) == 128 + 2 * 128 + 2 * 450_560
    assert workspace_bytes(8, 5120, 7168, 8) == 8 * 5120 * 28_736 + 901_504
    assert workspace_bytes(8, 16384, 7168, 8) == 3_766_484_992 + 2_883_968
    # one rank, one token, hidden 3, top_k 1: 14 bytes out, 6 back, each padded to a line
    assert workspace_bytes(1, 1, 3, 1) == 128 + 2 * 128 + 2 * 128 + 128 + 128
    assert [workspace_tokens(n) for n in (1, 4096, 5120)] == [4096, 4096, 5120]
    assert workspace_tokens(5120, configured=64) == 64


@given(st.integers(1, 64), st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 22))
def test_the_workspace_is_its_payload_and_little_more(ranks, tokens, hidden, top_k):
    size = workspace_bytes(ranks, tokens, hidden, top_k)
    payload = ranks * tokens * payload_bytes(hidden, top_k)
    assert size % 128 == 0
    assert payload + 176 * tokens < size < payload + 176 * tokens + 8 * 128 + 16 * ranks
    column = workspace_bytes(np.array([ranks, ranks]), np.array([tokens, 1]), hidden, top_k)
    assert column.tolist() == [size, workspace_bytes(ranks, 1, hidden, top_k)]


def test_the_other_consumers_by_hand():
    # SGLang's own note: 61 MLA layers x 576 x 2 bytes, 32,768 tokens: 2.14 GiB, 8.58 for 4 queues
    kv = 61 * 576 * 2
    assert round(others.dcp_pack_bytes(32768, kv, queues=1) / 2**30, 2) == 2.14
    assert round(others.dcp_pack_bytes(32768, kv) / 2**30, 2) == 8.58
    assert others.dcp_pack_bytes(5, 10, dcp_size=4, queues=1) == 4 * 2 * 10
    assert others.dcp_pack_bytes(5, 10, dcp_size=4, queues=1, page_size=16) == 4 * 4 * 10
    assert [others.deepep_v2_tokens(5121, ranks) for ranks in (1, 8)] == [5121, 641]
    rows = {"max_prefill_tokens": 5120, "decode_tokens": 512}
    assert others.dsv4_counter_bytes(16384, num_heads=16, **rows) == 4 * 16384 * 16
    assert others.dsv4_counter_bytes(1, num_heads=16, **rows) == 4 * 5120 * 16
    assert others.dsv4_counter_bytes(1, max_prefill_tokens=0, num_heads=1) == 4 * 152
    assert others.mha_output_bytes(5120, num_heads=8, head_dim=128) == 5120 * 1024
    assert others.mha_output_bytes(8, num_heads=8, head_dim=128, decode_tokens=9) == 9 * 1024
    assert others.cutlass_tuned_tokens(1024, 4) == 4096
    assert others.cutlass_tuned_tokens(16384) == others.cutlass_tuned_tokens(1280, 8) == 8192


def test_every_consumer_names_a_known_release_and_comes_in_order():
    order = [release.release for release in releases()]
    since = [order.index(consumer.since) for consumer in CONSUMERS]
    assert since == sorted(since)
    assert consumer_table().name.is_unique
    assert set(consumer_table().kind) == {"allocates", "checks", "tunes"}


def test_the_table_over_models_ranks_and_chunks():
    table = workspace_table([find_model("DeepSeek-V3")], [8, 16], [1024, 4096, 16384])
    assert table.tight_tokens.tolist() == [4096, 5120, 20480] * 2
    assert table.released_tokens.tolist() == [16384, 16384, 20480] * 2
    assert table.saved_bytes.iloc[1] == 2_591_440_896
    assert (table.saved_bytes == table.released_bytes - table.tight_bytes).all()
    assert table.saved_bytes.iloc[[2, 5]].tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"Llama-3\.1-8B.*no experts"):
        workspace_table([find_model("Llama-3.1-8B")], [8], [4096])
    with pytest.raises(ValueError, match=r"ep_size=16: Mixtral-8x7B takes at most 8 ranks"):
        workspace_table([find_model("Mixtral-8x7B")], [8, 16], [4096])
    with pytest.raises(ValueError, match=r"ep_size=128: DeepSeek-V3 takes at most 64 ranks"):
        workspace_table([find_model("DeepSeek-V3")], [128], [4096])


def test_what_one_deployment_pays():
    config = replace(PROBING, tp_size=8, dp_size=8, enable_dp_attention=True)
    rows = price(config, find_model("DeepSeek-V3"), num_heads=128, head_dim=128)
    saved = rows.set_index("consumer").saved_bytes
    assert saved["FlashInfer all-to-all workspace"] == 2_591_440_896
    assert saved["DCP pack buffers"] == 4 * 11264 * 15 * 576 * 2  # 15 of 61 layers on a stage
    assert saved["TRT-LLM MHA output"] == 11264 * 128 * 128
    assert saved["DSV4 TRT-LLM attention"] == 4 * 11264 * 128
    lean = price(replace(config, max_prefill_tokens=5120), find_model("DeepSeek-V3"), **HEADS)
    assert lean.saved_bytes.sum() == 0


@pytest.mark.parametrize("chunk", [None, -1, 0])
def test_with_chunking_off_other_settings_take_the_place_of_the_number(chunk):
    off = replace(PROBING, chunked_prefill_size=chunk, max_total_num_tokens=5000)
    with pytest.raises(ValueError, match=rf"chunked_prefill_size={chunk}: chunking is off"):
        price(off, find_model("DeepSeek-V3"), **HEADS)
    with pytest.raises(ValueError, match="chunked_prefill_size=0: chunking is off"):
        workspace_table([find_model("DeepSeek-V3")], [8], [4096, 0])


HEADS = {"num_heads": 128, "head_dim": 128}


def test_the_finding_tells_the_bytes_of_a_known_model():
    found = wasted(V3)
    assert "2,591,440,896 bytes of the FlashInfer all-to-all workspace" in found.message
    assert "ep_size 8, DeepSeek-V3" in found.message
    assert found.remedy == "--max-prefill-tokens 5120"
    assert "all-to-all" not in getattr(wasted(V3, "0.5.21"), "message", "")
    assert wasted(f"{V3} --max-prefill-tokens 5120") is None
    assert wasted(V3.replace("flashinfer", "deepep")) is None


def test_the_finding_tells_the_payload_where_the_model_is_not_known():
    found = wasted(LAUNCH.format(model="someone/else"))
    assert "8 x 11,264 tokens of 4 x hidden_size + 8 x top_k bytes" in found.message
    assert "(2,591,440,896 bytes for DeepSeek-V3)" in found.message


def test_the_floor_of_4096_tokens_is_never_saved():
    small = V3.replace("32768", "8192")  # 1024 a rank: probes of 1280, a workspace of 4096
    assert f"{8 * 12288 * 28_736 + 176 * 12288:,} bytes" in wasted(small).message
    assert wasted(f"{small} --max-prefill-tokens 4096") is None


def test_a_capacity_by_variable_is_told_as_start_up_takes_it():
    refused = wasted(f"{CAPACITY}=5120 {V3}")
    told = f"start-up refuses {CAPACITY}=5120, it asks for 16384 except on a PD decode server"
    assert told in refused.message
    assert refused.remedy == "--max-prefill-tokens 5120"
    large = wasted(f"{CAPACITY}=20000 {V3}")
    assert f"{8 * 14880 * 28_736 + 176 * 14880:,} bytes" in large.message
    assert large.remedy == f"--max-prefill-tokens 5120 and {CAPACITY}=5120, or unset"
    assert wasted(f"{CAPACITY}=many {V3}").message == wasted(V3).message


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("deepseek-ai/DeepSeek-V3", "DeepSeek-V3"),
        ("/models/DeepSeek-V2-Lite-Chat/", "DeepSeek-V2-Lite"),
        ("hub/models--Qwen--Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B"),
        ("zai-org/GLM-4.5-Air-FP8", "GLM-4.5-Air"),
        ("deepseek-ai/DeepSeek-V3.1", None),
        ("zai-org/GLM-4.5V", None),
        ("meta-llama/Llama-3.1-8B", None),
        ("$MODEL", None),
        (None, None),
    ],
)
def test_a_model_is_known_by_its_own_name_or_with_a_suffix(path, name):
    found = known_model(path)
    assert (found.name if found else None) == name


def test_the_model_is_read_from_commands_files_and_logs():
    launch = "python -m sglang.launch_server --tp 8 "
    for text, name in (
        (launch + "--model a/b", "a/b"),
        (launch + "--model-path=a/b", "a/b"),
        (launch + "--model a/b --model-path c", "c"),
        (launch, None),
        ("server_args=ServerArgs(model_path='x/Y', tp_size=8, chunked_prefill_size=4096)", "x/Y"),
        ('{"model_path": "x/Y", "tp_size": 8, "page_size": 1}', "x/Y"),
        ("tp-size: 8\nmodel-path: x/Y\n", "x/Y"),
    ):
        assert read_config(text).model == name, text


def test_the_capacity_that_deepep_v2_must_be_given_is_told_too():
    """Chunk 4096 a rank: 16,384 tokens reserved, 5,120 needed; two ranks share a DP rank's."""
    text = V3.replace("flashinfer", "deepep_v2").replace("--dp 8", "--dp 4")
    text = text.replace("32768", "16384")
    variable = "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK must allow wasted"
    assert f"11264 of the 16384 tokens that {variable}" in wasted(text, "0.5.19").message
    assert f"5632 of the 8192 tokens that {variable}" in wasted(text, "0.5.22").message
    assert wasted(f"{text} --max-prefill-tokens 5120", "0.5.22") is None
    assert "DEEPEP" not in getattr(wasted(text, "0.5.17"), "message", "")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--attention-backend trtllm_mha", "from 0.5.21 max_prefill_tokens also sizes TRT-LLM MHA"),
        ("--moe-runner-backend=flashinfer_cutlass", "from 0.5.23 max_prefill_tokens also sizes"),
        (
            "--dsv4-attn-backend trtllm",
            "from 0.5.20 max_prefill_tokens also sizes DSV4 TRT-LLM attention",
        ),
        (
            "--disaggregation-mode prefill",
            "from 0.5.19 max_prefill_tokens also sizes DCP pack buffers",
        ),
    ],
)
def test_a_command_that_turns_another_consumer_on_is_told(more, said):
    found = [note for note in read_config(f"{V3} {more}", release="0.5.23").notes if said in note]
    assert len(found) == 1
    still = f"{V3} {more}".replace("--enable-dynamic-chunking", "")
    assert not any("also sizes" in note for note in read_config(still, release="0.5.23").notes)
    assert not any("also sizes" in note for note in read_config(V3, release="0.5.23").notes)
    extend = read_config(f"SGLANG_FLASHINFER_AUTOTUNE_EXTEND=true {V3}", release="0.5.23").notes
    assert any("also sizes extend autotune" in note for note in extend)
