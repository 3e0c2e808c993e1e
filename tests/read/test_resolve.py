"""What the engine makes of flags and logs, worked by hand from SGLang's resolution."""

from __future__ import annotations

from typing import Any

import pytest

from eagerbuf.read import Reading, read_config

SERVE = "python3 -m sglang.launch_server --model-path m "


def read(flags: str, release: str | None = "0.5.14", **options: Any) -> Reading:
    return read_config(SERVE + flags, release=release, **options)


def dump(fields: str, release: str = "0.5.14") -> Reading:
    return read_config(f"server_args=ServerArgs(model_path='m', {fields})", release=release)


@pytest.mark.parametrize(
    ("flags", "release", "ranks", "attention"),
    [
        ("--tp 8 --dp 8 --enable-dp-attention", "0.5.14", 8, True),
        ("--tp 8 --dp 8 --enable-dp-attention", "0.5.22", 8, True),
        ("--tp 8 --attn-dp-size 8", "0.5.22", 8, True),
        ("--tp 8 --attn-dp-size 8 --enable-dp-attention", "0.5.23", 8, True),
        ("--tp 8 --dp 1 --enable-dp-attention", "0.5.14", 1, False),
        ("--tp 8 --enable-dp-attention", "0.5.23", 1, False),
        ("--tp 8 --dp 8", "0.5.14", 8, False),
        ("--tp 8 --attn-dp-size 1", "0.5.22", 1, False),
        ("--tp 8 --dwdp-size 8", "0.5.17", 8, True),
    ],
)
def test_spellings_of_dp_attention(flags: str, release: str, ranks: int, attention: bool) -> None:
    got = read(flags + " --chunked-prefill-size 8192 --max-running-requests 1000", release).values
    assert (got["dp_size"], got["enable_dp_attention"]) == (ranks, attention)
    divisor = ranks if attention else 1
    assert got["chunked_prefill_size"] == 8192 // divisor
    assert got["max_running_requests"] == 1000 // divisor


def test_replicas_with_attention_dp_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--dp-size 2 with --attn-dp-size 4"):
        read("--tp 8 --dp 2 --attn-dp-size 4", "0.5.22")


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="tp_size=8: must be divisible"):
        read(
            "--tp 8 --dp 3 --enable-dp-attention --chunked-prefill-size 4096 "
            "--max-running-requests 9 --max-total-tokens 9k --context-length 9k"
        )


def test_chunk_off_stays_off_under_dp_attention() -> None:
    got = read("--tp 8 --dp 8 --enable-dp-attention --chunked-prefill-size -1").values
    assert got["chunked_prefill_size"] == -1


def test_a_dump_shows_the_chunk_divided_and_the_requests_not() -> None:
    fields = "tp_size=8, dp_size=8, enable_dp_attention=True, chunked_prefill_size=1024, "
    got = dump(fields + "max_running_requests=2048")
    assert got.values["chunked_prefill_size"] == 1024
    assert got.values["max_running_requests"] == 256
    assert got.sources["max_running_requests"] == "log"


def test_the_resolved_line_is_per_rank_and_beats_dump_and_command() -> None:
    text = (
        f"{SERVE} --tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size 4096 "
        "--max-running-requests 64\n"
        "[2026-07-01 10:00:00] server_args=ServerArgs(tp_size=8, dp_size=8, "
        "enable_dp_attention=True, chunked_prefill_size=2048, max_running_requests=512)\n"
        "[2026-07-01 10:01:00 DP0 TP0] max_total_num_tokens=100000, chunked_prefill_size=2048, "
        "max_prefill_tokens=16384, max_running_requests=60, context_len=4096\n"
    )
    got = read_config(text, release="0.5.14", context_len=9000)
    assert got.values["dp_size"] == 8
    assert got.values["chunked_prefill_size"] == 2048
    assert got.values["max_running_requests"] == 60
    assert got.values["max_total_num_tokens"] == 100_000
    assert (got.values["context_len"], got.sources["context_len"]) == (9000, "option")


@pytest.mark.parametrize(
    ("gib", "release", "chunk"),
    [
        (16, "0.5.19", 2048),
        (24, "0.5.19", 2048),
        (34.9, "0.5.14", 2048),
        (35, "0.5.14", 4096),
        (19.9, "0.5.20", 2048),
        (24, "0.5.20", 4096),
        (48, "0.5.23", 4096),
        (59.9, "0.5.14", 4096),
        (60, "0.5.14", 8192),
        (80, "0.5.23", 8192),
        (141, "0.5.14", 8192),
        (160, "0.5.14", 16384),
        (192, "0.5.23", 16384),
    ],
)
def test_default_chunk_by_gpu_memory(gib: float, release: str, chunk: int) -> None:
    got = read("", release, gpu_mem_gib=gib)
    assert (got.values["chunked_prefill_size"], got.sources["chunked_prefill_size"]) == (
        chunk,
        "default",
    )
    divided = read("--tp 8 --dp 8 --enable-dp-attention", release, gpu_mem_gib=gib)
    assert divided.values["chunked_prefill_size"] == chunk // 8


def test_without_the_gpu_the_chunk_is_unknown() -> None:
    got = read("--max-running-requests 4")
    assert got.values["chunked_prefill_size"] is None
    assert "chunked_prefill_size" in got.unknown
    assert got.config is None


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ("", 1),
        ("--speculative-num-draft-tokens 8", 1),
        ("--speculative-algorithm EAGLE", None),
        ("--speculative-algorithm NEXTN", None),
        ("--speculative-algorithm STANDALONE", 4),
        ("--speculative-algorithm ngram", 12),
        ("--speculative-algorithm NGRAM --speculative-num-draft-tokens 16", 16),
        ("--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
         "--speculative-num-draft-tokens 8", 4),
        ("--speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-eagle-topk 4 "
         "--speculative-num-draft-tokens 16", 16),
        ("--speculative-algorithm DFLASH", None),
        ("--speculative-algorithm DFLASH --speculative-dflash-block-size 16", 16),
        ("--speculative-algorithm DFLASH --speculative-num-draft-tokens 8", 8),
        ("--speculative-algorithm EAGLE --speculative-adaptive", 8),
        ("--speculative-algorithm EAGLE --speculative-adaptive --speculative-adaptive-config x",
         None),
        ("--speculative-algorithm EAGLE --speculative-adaptive --enable-two-batch-overlap "
         "--speculative-num-steps 2 --speculative-eagle-topk 1", 3),
        ("--tp 2 --dp 2 --enable-dp-attention --speculative-algorithm EAGLE --speculative-adaptive "
         "--speculative-num-steps 2 --speculative-eagle-topk 1", 3),
        ("--dllm-algorithm LowConfidence", None),
        ("--speculative-algorithm $A", None),
    ],
)  # fmt: skip
def test_tokens_of_a_request_in_one_verify_step(flags: str, tokens: int | None) -> None:
    got = read(flags)
    assert got.values["num_tokens_per_bs"] == tokens
    assert ("num_tokens_per_bs" in got.unknown) is (tokens is None)


def test_dspark_verifies_one_more_than_its_block() -> None:
    flags = "--speculative-algorithm DSPARK --speculative-dspark-block-size 7"
    assert read(flags, "0.5.16").values["num_tokens_per_bs"] == 8


@pytest.mark.parametrize(
    ("flags", "release", "requests"),
    [
        ("", "0.5.14", None),
        ("--max-total-tokens 1M", "0.5.14", None),
        # int(1,000,000 / 131,072 * 512) = 3906
        ("--max-total-tokens 1M --context-length 131072", "0.5.14", 3906),
        ("--max-total-tokens 1M --context-length 1024", "0.5.14", 4096),
        ("--max-total-tokens 100k --context-length 131072", "0.5.14", 2048),
        ("--max-total-tokens 1000 --context-length 131072", "0.5.14", 500),
        ("--max-running-requests 300 --max-total-tokens 100", "0.5.14", 50),
        ("--max-running-requests 300", "0.5.14", 300),
        ("--speculative-algorithm EAGLE", "0.5.14", 48),
        ("--speculative-algorithm NGRAM --max-running-requests 9", "0.5.14", 9),
        ("--tp 4 --dp 4 --enable-dp-attention --speculative-algorithm EAGLE", "0.5.14", 12),
        # the automatic number is per rank already
        ("--tp 4 --dp 4 --enable-dp-attention --max-total-tokens 1M --context-length 131072",
         "0.5.14", 3906),
        ("--tp 8 --dp 8 --enable-dp-attention --max-running-requests 4", "0.5.23", 1),
        ("--speculative-algorithm UNO", "0.5.23", None),
    ],
)  # fmt: skip
def test_running_requests(flags: str, release: str, requests: int | None) -> None:
    assert read(flags, release).values["max_running_requests"] == requests


def test_fewer_requests_than_ranks_are_none_at_all_before_0_5_23() -> None:
    told = "--max-running-requests 4: none is left for each of 8 attention DP ranks; give 8 or"
    with pytest.raises(ValueError, match=told):
        read(
            "--tp 8 --dp 8 --enable-dp-attention --max-running-requests 4 "
            "--chunked-prefill-size 8192"
        )
    fields = "tp_size=8, dp_size=8, enable_dp_attention=True, max_running_requests=4"
    with pytest.raises(ValueError, match="max_running_requests=4: none is left for each of 8"):
        dump(fields)


@pytest.mark.parametrize(
    ("flags", "release", "told"),
    [
        ("--max-running-requests -1", "0.5.19", "--max-running-requests -1: no request could"),
        ("--max-running-requests 0", "0.5.23", "--max-running-requests 0: no request could run"),
        ("--max-total-tokens 1 --max-running-requests 8", "0.5.14",
         "--max-total-tokens 1: a KV pool of 1 token holds no request; give 2 or more"),
        ("--max-total-tokens 1 --context-length 9", "0.5.23", "--max-total-tokens 1: a KV pool"),
        ("--max-total-tokens 10 --page-size 64", "0.5.19",
         "--max-total-tokens 10: the KV pool holds not one page of 64 tokens; give 64 or more"),
        ("--max-total-tokens 63 --attention-backend flashmla", "0.5.19", "not one page of 64"),
        ("--max-total-tokens -5", "0.5.19", "--max-total-tokens -5: the KV pool holds no token"),
    ],
)  # fmt: skip
def test_what_leaves_no_request_or_no_page_is_named_as_it_was_given(
    flags: str, release: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        read(flags, release)


def test_an_option_that_leaves_no_request_is_named_as_one() -> None:
    with pytest.raises(ValueError, match="max_total_num_tokens=1: a KV pool of 1 token holds no"):
        read("--max-total-tokens 900 --max-running-requests 8", max_total_num_tokens=1)


def test_the_pool_limit_is_in_whole_pages() -> None:
    got = read("--max-total-tokens 10000 --page-size 64")
    assert got.values["max_total_num_tokens"] == 9984
    assert any("limit" in note for note in got.notes)


@pytest.mark.parametrize(
    ("flags", "release", "page"),
    [
        ("", "0.5.14", 1),
        ("--page-size 32", "0.5.14", 32),
        ("--attention-backend flashmla", "0.5.14", 64),
        ("--decode-attention-backend cutlass_mla", "0.5.14", 128),
        ("--attention-backend trtllm_mla --page-size 32", "0.5.14", 32),
        ("--attention-backend trtllm_mla --page-size 16", "0.5.14", 64),
        ("--attention-backend trtllm_mha --page-size 128", "0.5.16", 64),
        ("--attention-backend trtllm_mha --page-size 128", "0.5.17", 128),
        ("--attention-backend fa3 --page-size 128", "0.5.14", 128),
        ("--attention-backend tokenspeed_mla", "0.5.14", 64),
        ("--decode-attention-backend tokenspeed_mla --page-size 32", "0.5.22", 32),
        ("--attention-backend cutedsl_mla --page-size 128", "0.5.23", 64),
        ("--prefill-attention-backend trtllm_mha", "0.5.14", 64),
        ("--prefill-attention-backend trtllm_mha --page-size 16", "0.5.23", 16),
        ("--prefill-attention-backend flashmla", "0.5.14", 1),
        ("--prefill-attention-backend hpc_ops --page-size 128", "0.5.20", 64),
        # one after the other: 128 of the first does not suit the second
        ("--attention-backend cutlass_mla --decode-attention-backend trtllm_mla", "0.5.14", 64),
    ],
)
def test_page_sizes_that_an_attention_backend_imposes(flags: str, release: str, page: int) -> None:
    assert read(flags, release).values["page_size"] == page


CP8 = "--tp 8 --attn-cp-size 8 --moe-dense-tp-size 1 "


@pytest.mark.parametrize(
    ("flags", "release", "zigzag"),
    [
        (CP8 + "--enable-prefill-cp --cp-strategy zigzag", "0.5.14", True),
        (CP8 + "--enable-prefill-cp --cp-strategy interleave", "0.5.23", False),
        (CP8 + "--enable-nsa-prefill-context-parallel", "0.5.12", False),
        (CP8 + "--enable-nsa-prefill-context-parallel --nsa-prefill-cp-mode in-seq-split",
         "0.5.12", True),
        (CP8 + "--enable-dsa-prefill-context-parallel --dsa-prefill-cp-mode round-robin-split",
         "0.5.14", False),
        (CP8 + "--enable-dsa-prefill-context-parallel --nsa-prefill-cp-mode in-seq-split",
         "0.5.14", True),
        (CP8 + "--enable-prefill-context-parallel", "0.5.14", True),
        (CP8, "0.5.14", False),
    ],
)  # fmt: skip
def test_names_of_context_parallelism_over_the_years(
    flags: str, release: str, zigzag: bool
) -> None:
    got = read(flags + " --chunked-prefill-size 4096 --max-running-requests 8", release)
    assert got.values["cp_zigzag"] is zigzag
    assert got.config is not None
    assert got.config.cp_align_size == (16 if zigzag else 8)
    assert got.config.attn_tp_size == 1


def test_cp_without_its_size_is_unknown_for_the_model_may_set_it() -> None:
    got = read("--tp 8 --enable-prefill-cp --cp-strategy zigzag --chunked-prefill-size 4096")
    assert {"attn_cp_size", "moe_dense_tp_size"} <= set(got.unknown)
    assert got.config is None
    logged = dump("tp_size=8, attn_cp_size=8, enable_prefill_cp=True, cp_strategy='zigzag'")
    assert logged.values["attn_cp_size"] == 8
    assert "moe_dense_tp_size" not in logged.unknown


def test_prefill_cp_wants_a_strategy() -> None:
    with pytest.raises(ValueError, match="--cp-strategy"):
        read("--tp 8 --attn-cp-size 8 --enable-prefill-cp")


@pytest.mark.parametrize(
    ("flags", "scattered"),
    [
        ("--tp 8", True),
        ("", False),
        ("--tp 8 --dp 8 --enable-dp-attention", False),
        ("--tp 8 --moe-a2a-backend deepep", False),
        ("--tp 8 --moe-dense-tp-size 1", False),
        ("--tp 8 --speculative-algorithm EAGLE3", False),
    ],
)
def test_where_inputs_are_scattered(flags: str, scattered: bool) -> None:
    got = read(flags + " --enable-attn-tp-input-scattered")
    assert got.values["attn_tp_input_scattered"] is scattered


def test_what_turns_mixed_chunks_the_radix_cache_and_chunking_off() -> None:
    mixed = "--enable-mixed-chunk --speculative-algorithm "
    assert read("--enable-mixed-chunk").values["enable_mixed_chunk"] is True
    assert read(mixed + "EAGLE").values["enable_mixed_chunk"] is False
    assert read(mixed + "EAGLE", "0.5.20").values["enable_mixed_chunk"] is True
    assert read(mixed + "NGRAM", "0.5.20").values["enable_mixed_chunk"] is False
    assert read("--disaggregation-mode decode").values["disable_radix_cache"] is True
    keep = "--disaggregation-mode decode --disaggregation-decode-enable-radix-cache"
    assert read(keep).values["disable_radix_cache"] is False
    scoring = read("--enable-mis --chunked-prefill-size 4096").values
    assert (scoring["chunked_prefill_size"], scoring["disable_radix_cache"]) == (-1, True)


@pytest.mark.parametrize(
    ("flags", "release", "off"),
    [
        ("--attention-backend dual_chunk_flash_attn", "0.5.14", True),
        ("--attention-backend dual_chunk_flash_attn --enable-mixed-chunk", "0.5.19", True),
        ("--enable-deterministic-inference --attention-backend flashinfer", "0.5.14", True),
        ("--enable-deterministic-inference --attention-backend fa3", "0.5.14", False),
        ("--enable-deterministic-inference --attention-backend fa4", "0.5.14", True),
        ("--enable-deterministic-inference --attention-backend fa4", "0.5.20", False),
        ("--enable-deterministic-inference", "0.5.14", None),
        ("--enable-deterministic-inference --disable-radix-cache", "0.5.14", True),
        ("--attention-backend fa3", "0.5.14", False),
    ],
)
def test_attention_backends_that_turn_the_radix_cache_off(
    flags: str, release: str, off: bool | None
) -> None:
    got = read(flags, release).values
    assert got["disable_radix_cache"] is off
    assert got["enable_mixed_chunk"] is False


def test_a_multimodal_model_on_the_transformers_backend() -> None:
    assert read("").values["admits_whole_prompts"] is False
    unsure = read("--model-impl transformers --chunked-prefill-size 4096")
    assert "admits_whole_prompts" in unsure.unknown
    warned = read_config(
        "[2026-07-01 10:00:00 TP0] Chunked prefill is disabled for multimodal models with the "
        "Transformers backend to avoid partial multimodal chunk mismatches.\n"
        "[2026-07-01 10:00:00 TP0] max_total_num_tokens=10000, chunked_prefill_size=8192, "
        "max_prefill_tokens=16384, max_running_requests=60, context_len=4096\n",
        release="0.5.14",
    )
    assert warned.values["admits_whole_prompts"] is True


def test_options_beat_everything_and_are_checked() -> None:
    got = read("--tp 8 --chunked-prefill-size 4096", tp_size=4, max_running_requests=7)
    assert (got.values["tp_size"], got.sources["tp_size"]) == (4, "option")
    assert got.sources["chunked_prefill_size"] == "flag"
    assert read("--tp 8", tp_size=None).values["tp_size"] == 8
    with pytest.raises(ValueError, match="no field of EngineConfig"):
        read("--tp 8", chunk=3)
    with pytest.raises(ValueError, match="max_running_requests=0"):
        read("--tp 8", max_running_requests=0)


@pytest.mark.parametrize("memory", [0, -1, float("nan"), float("inf"), "80", True, 10**9])
def test_gpu_memory_must_be_one(memory: Any) -> None:
    with pytest.raises(ValueError, match="gpu_mem_gib"):
        read("", gpu_mem_gib=memory)


def test_an_option_for_the_pool_gives_the_default_requests() -> None:
    got = read("--chunked-prefill-size 4096", max_total_num_tokens=10**6, context_len=131072)
    assert got.values["max_running_requests"] == 3906
    assert got.sources["max_running_requests"] == "default"


def test_what_does_not_matter_is_not_called_unknown() -> None:
    assert read("--chunked-prefill-size 4096 --max-running-requests 8").unknown == ()
    later = read("--chunked-prefill-size 4096 --max-running-requests 8", "0.5.15")
    assert later.unknown == ("max_total_num_tokens",)
    off = read("--chunked-prefill-size -1 --max-running-requests 8")
    assert off.unknown == ("max_total_num_tokens", "context_len")
