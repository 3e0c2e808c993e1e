"""Findings and verdicts, each with its numbers, its remedy and its opposite."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from eagerbuf import EngineConfig, check, read_config
from eagerbuf.releases import newest_release

DYNAMIC = EngineConfig(12288, 128, tp_size=8, pp_size=4, enable_dynamic_chunking=True)


def codes(report, rule=None):
    findings = report.rules[rule].findings if rule else report.findings
    return [finding.code for finding in findings]


def finding(report, code, rule=None):
    findings = report.rules[rule].findings if rule else report.findings
    return next(f for f in findings if f.code == code)


def test_the_documented_deployment():
    report = check(DYNAMIC, "0.5.14")
    assert (report.verdict, report.rule, report.release) == ("fits", "pr28677", "0.5.14")
    assert report.rules["pr28386"].verdict == "overflows"
    over = finding(report, "token-overflow", "pr28386")
    assert "probe of 15360 tokens, buffer of 12288" in over.message
    assert "3072 tokens too many" in over.message
    assert "0.5.14" in over.remedy
    assert "SGLANG_EAGER_INPUT_NO_COPY=1" in over.remedy
    hang = finding(report, "profile-hang")
    assert hang.severity == "warning"
    assert "0.5.20" in hang.remedy
    assert finding(report, "profile-hang", "pr28386").severity == "error"
    newest = newest_release().release
    held = f"fits in 0.5.14 to 0.5.18, hangs in 0.5.19, fits in 0.5.20 to {newest}"
    assert report.affected == held
    without = check(replace(DYNAMIC, disable_radix_cache=True), "0.5.14")
    assert without.affected == f"fits in 0.5.14 to {newest}"


def test_one_release_cannot_release_a_probe_to_its_radix_cache():
    report = check(DYNAMIC, "0.5.19")
    assert report.verdict == "hangs"
    assert codes(report)[:2] == ["profile-fails", "profile-hang"]
    fails = finding(report, "profile-fails")
    assert "KeyError: None" in fails.message
    for way_out in ("--disable-radix-cache", "0.5.20", "drop --enable-dynamic-chunking"):
        assert way_out in fails.remedy
    assert finding(report, "profile-hang").severity == "error"
    for change in ({"disable_radix_cache": True}, {"enable_dynamic_chunking": False}):
        assert check(replace(DYNAMIC, **change), "0.5.19").verdict == "fits"
    assert {check(DYNAMIC, release).verdict for release in ("0.5.18", "0.5.20")} == {"fits"}


def test_later_releases_tell_everyone_unless_one_tp_rank_fails_alone():
    one_rank = replace(DYNAMIC, tp_size=1)
    assert "profile-hang" not in codes(check(one_rank, "0.5.20"))
    assert "profile-hang" in codes(check(one_rank, "0.5.20"), "pr28386")
    several = check(replace(DYNAMIC, tp_size=2), newest_release().release)
    alone = finding(several, "profile-hang")
    assert (several.verdict, alone.severity) == ("fits", "info")
    assert "fails alone" in alone.message


def test_chunking_off_with_dynamic_chunking_hangs_for_certain():
    config = EngineConfig(
        -1, 32, pp_size=2, enable_dynamic_chunking=True, max_total_num_tokens=200_000
    )
    old = check(config, "0.5.19")
    assert old.verdict == "hangs"
    assert codes(old)[:2] == ["profile-fails", "profile-hang"]
    newest = newest_release().release
    assert old.affected == f"hangs in 0.5.14 to 0.5.19, fits in 0.5.20 to {newest}"
    new = check(config, "0.5.20")
    assert (new.verdict, "profile-fails" in codes(new)) == ("fits", True)
    one_stage = EngineConfig(-1, 32, enable_dynamic_chunking=True, max_total_num_tokens=200_000)
    assert codes(check(one_stage, "0.5.19"))[:1] != ["profile-fails"]


def test_padded_batches_against_unpadded_buffers():
    config = EngineConfig(8192, 125, tp_size=8, dp_size=2, enable_dp_attention=True)
    report = check(config, "0.5.14")
    over = finding(report, "batch-overflow", "pr28386")
    assert "128 requests, buffer of 125" in over.message
    assert "multiple of attn_tp_size 4" in over.message
    assert "--max-running-requests 256" in over.remedy  # for both DP ranks
    assert finding(report, "autotune-misshape", "pr28386").severity == "warning"
    assert codes(report) == []


@pytest.mark.parametrize("requests", [124, 128])
def test_aligned_requests_raise_no_alarm(requests):
    config = EngineConfig(8192, requests, tp_size=8, dp_size=2, enable_dp_attention=True)
    assert codes(check(config, "0.5.14"), "pr28386") == []


def test_odd_requests_without_mlp_sync_raise_no_alarm():
    assert codes(check(EngineConfig(8192, 3319, tp_size=8), "0.5.14"), "pr28386") == []


def test_scattered_inputs_overflow_every_released_chunk_rule():
    config = EngineConfig(8100, 64, tp_size=8, attn_tp_input_scattered=True)
    report = check(config, "0.5.14")
    assert report.verdict == "overflows"
    assert "8104 tokens, buffer of 8100" in finding(report, "token-overflow").message
    assert "--chunked-prefill-size 8096" in finding(report, "token-overflow").remedy
    assert report.rules["tight"].verdict == "fits"


def test_whole_prompts_overflow_the_chunk():
    config = EngineConfig(
        4096, 8, admits_whole_prompts=True, context_len=20_001, max_total_num_tokens=50_000
    )
    assert check(config, "0.5.14").verdict == "overflows"
    assert check(config, "0.5.15").verdict == "fits"
    assert "0.5.15" in finding(check(config, "0.5.14"), "token-overflow").remedy


def test_probes_past_the_context():
    config = EngineConfig(4096, 8, pp_size=2, enable_dynamic_chunking=True, context_len=4096)
    past = finding(check(config, "0.5.22"), "probe-past-context")
    assert "5120 tokens" in past.message
    assert "1024 tokens past" in past.message
    assert "--chunked-prefill-size 3276" in past.remedy
    assert "probe-past-context" not in codes(check(config, "0.5.23"))
    fits = EngineConfig(3276, 8, pp_size=2, enable_dynamic_chunking=True, context_len=4096)
    assert "probe-past-context" not in codes(check(fits, "0.5.22"))


def test_over_allocation_in_bytes():
    config = EngineConfig(8192, 4096, max_total_num_tokens=665_690)
    info = finding(check(config, "0.5.15"), "over-allocated")
    assert info.severity == "info"
    assert f"{48 * (665_690 - 8192):,} bytes" in info.message
    small = EngineConfig(8192, 64, max_total_num_tokens=4 * 8192 - 1)
    assert codes(check(small, "0.5.15")) == []


def test_the_wasted_term_names_the_flag_that_saves_it():
    wasted = finding(check(DYNAMIC, "0.5.14"), "wasted-term")
    assert wasted.remedy == "--max-prefill-tokens 15360"
    lean = EngineConfig(
        12288, 128, max_prefill_tokens=15360, pp_size=4, enable_dynamic_chunking=True
    )
    assert "wasted-term" not in codes(check(lean, "0.5.14"))
    pool = EngineConfig(
        12288, 128, pp_size=4, enable_dynamic_chunking=True, max_total_num_tokens=10**6
    )
    assert "wasted-term" not in codes(check(pool, "0.5.15"))


def test_no_eager_runner():
    report = check(DYNAMIC, "0.5.13")
    assert (report.verdict, report.rule) == ("not-applicable", None)
    assert codes(report) == ["no-eager-runner", "profile-hang"]  # start-up can hang all the same
    assert codes(check(EngineConfig(4096, 8), "0.5.10")) == ["no-eager-runner"]


def test_without_the_copy_nothing_overflows():
    text = (
        "SGLANG_EAGER_INPUT_NO_COPY=1 python -m sglang.launch_server --model m --tp 8 "
        "--enable-attn-tp-input-scattered --chunked-prefill-size 8100 --max-running-requests 64"
    )
    report = check(read_config(text, release="0.5.14"))
    assert report.verdict == "fits"
    assert not any(shape.copied for shape in report.shapes)
    with_copy = read_config(text.split(" ", 1)[1], release="0.5.14")
    assert check(with_copy).verdict == "overflows"


def test_unknown_values_decide_nothing_they_could_change():
    launch = "python -m sglang.launch_server --model m "
    off = check(read_config(launch + "--chunked-prefill-size -1 --max-running-requests 64"))
    assert (off.verdict, off.unknown) == ("fits", ())  # the buffer is the pool
    scattered = read_config(
        launch + "--chunked-prefill-size -1 --tp 8 --enable-attn-tp-input-scattered "
        "--max-running-requests 64"
    )
    open_pool = check(scattered)
    assert (open_pool.verdict, open_pool.unknown) == ("unknown", ("max_total_num_tokens",))
    no_requests = check(read_config(launch + "--chunked-prefill-size 4096", release="0.5.14"))
    assert (no_requests.verdict, no_requests.unknown) == ("fits", ("max_running_requests",))
    assert no_requests.rules["pr28677"].bound.max_bs is None
    assert no_requests.rules["pr28677"].bound.at_least
    sync = read_config(
        launch + "--chunked-prefill-size 4096 --tp 8 --moe-a2a-backend deepep", release="0.5.14"
    )
    assert check(sync).rules["pr28386"].verdict == "unknown"
    assert check(sync).verdict == "fits"


def test_a_static_chunk_fits_whatever_it_is():
    launch = "python -m sglang.launch_server --model m"
    report = check(read_config(f"{launch} --tp 2", release="0.5.14"))
    assert report.verdict == "fits"
    assert pd.isna(report.to_frame().set_index("rule").loc["pr28677", "max_num_tokens"])
    assert check(read_config(launch, release="0.5.14")).verdict == "unknown"  # no flag that sizes
    assert "chunked_prefill_size" in report.unknown
    assert report.rules["pr28677"].bound.max_num_tokens == 0


def test_a_benchmark_bypasses_the_scheduler():
    text = "python -m sglang.bench_one_batch --model m --batch-size 2 8 --input-len 256 1024 "
    reading = read_config(
        text + "--chunked-prefill-size 4096", release="0.5.14", max_running_requests=64
    )
    over = finding(check(reading), "bench-bypass")
    assert "8 x 1024 = 8192 tokens" in over.message
    assert "buffer of 4096" in over.message
    assert "at most 512 input tokens at batch 8" in over.remedy
    large = read_config(
        text + "--chunked-prefill-size 4096 --max-total-tokens 8192",
        release="0.5.15",
        max_running_requests=64,
    )
    assert check(large).verdict == "fits"


def test_the_report_is_plain_data():
    report = check(DYNAMIC, "0.5.14")
    data = json.loads(json.dumps(report.to_dict()))
    assert set(data) >= {
        "config",
        "unknown",
        "sources",
        "release",
        "rule",
        "verdict",
        "findings",
        "shapes",
        "rules",
    }
    assert data["config"]["attn_tp_size"] == 8
    assert set(data["rules"]["tight"]) == {
        "max_bs",
        "max_num_tokens",
        "nbytes",
        "at_least",
        "verdict",
        "findings",
    }
    assert set(data["findings"][0]) == {"code", "severity", "producer", "message", "remedy"}
    assert set(data["shapes"][0]) == {"producer", "num_tokens", "bs", "copied"}
    assert report.to_frame().rule.tolist() == ["pr28386", "pr28677", "pr28894", "tight"]
    assert "<table>" in report._repr_html_()


def test_unknown_release():
    with pytest.raises(ValueError, match=r"release='9\.9\.9'"):
        check(DYNAMIC, "9.9.9")
