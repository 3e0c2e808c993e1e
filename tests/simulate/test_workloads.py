"""Trace files in every format, good and malformed, and samples from the stored quantiles."""

import contextlib
import dataclasses
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import load_requests, sample_requests
from eagerbuf.simulate import traces
from eagerbuf.simulate.workloads import QUANTILES, _workloads, workload_names

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOONCAKE = '{"timestamp": 3000, "input_length": 7, "output_length": 2, "hash_ids": [0, 14]}\n'
OURS = "workload,arrival_s,prompt_tokens,output_tokens\n"


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def loaded(tmp_path, text):
    """The rows of a trace as tuples (prompt, output, arrival)."""
    frame = load_requests(written(tmp_path, text))
    assert list(frame.columns) == ["prompt_tokens", "output_tokens", "arrival_s"]
    assert [kind.kind for kind in frame.dtypes] == ["i", "i", "f"]
    return list(frame.itertuples(index=False, name=None))


# Trace formats


def test_azure_times_count_from_the_earliest(tmp_path):
    rows = (
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
        "2023-11-16 18:15:46.5805900,91,16\n"  # earlier than the first
    )
    expected = [(374, 44, 0.1), (396, 109, 4.414579), (91, 16, 0.0)]
    assert loaded(tmp_path, AZURE + rows) == expected


def test_azure_time_zones_and_missing_fractions(tmp_path):
    rows = "2024-05-10 00:00:00+00:00,5,1\n2024-05-10T02:00:01.25+02:00,6,1\n"
    assert loaded(tmp_path, AZURE + rows) == [(5, 1, 0.0), (6, 1, 1.25)]
    rows = "2023-12-31 23:59:59.9,5,1\n2024-01-01T00:00:00Z,6,1\n"
    assert loaded(tmp_path, AZURE + rows) == [(5, 1, 0.0), (6, 1, 0.1)]


def test_mooncake_times_are_milliseconds(tmp_path):
    text = MOONCAKE + "\n" + MOONCAKE.replace("3000", "5999.5").replace("7", "8")
    assert loaded(tmp_path, text) == [(7, 2, 3.0), (8, 2, 5.9995)]


def test_our_own_columns_in_any_order(tmp_path):
    assert loaded(tmp_path, OURS + "chat,0.500,3,4\r\ncode,0,1,0\r\n") == [(3, 4, 0.5), (1, 0, 0.0)]
    assert loaded(tmp_path, "output_tokens,prompt_tokens\n4,3\n") == [(3, 4, 0.0)]
    assert loaded(tmp_path, "\ufeffprompt_tokens,output_tokens\n3,4\n\n") == [(3, 4, 0.0)]
    # what pandas writes for less than a tenth of a millisecond
    assert loaded(tmp_path, OURS + "chat,5e-05,3,4\n") == [(3, 4, 0.00005)]


def test_blank_lines_before_the_first_row(tmp_path):
    assert loaded(tmp_path, "\n \n" + MOONCAKE) == loaded(tmp_path, MOONCAKE)
    assert loaded(tmp_path, "\r\n\nprompt_tokens,output_tokens\n3,4\n") == [(3, 4, 0.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a request trace .empty"),
        ("\n", "line 1: not a request trace"),
        ("\n \n", "line 1: not a request trace .nothing but blanks"),
        ("\n\na,b\n1,2\n", "line 3: not a request trace .columns 'a,b'"),
        ("\n" + AZURE + "yesterday,1,1\n", "line 3: TIMESTAMP='yesterday'"),
        ("\n" + MOONCAKE.replace("7", "0"), "line 2: input_length=0"),
        (
            AZURE + "2026-11-16 18:15:46,1,1\n1900-01-01 18:15:46,1,1\n",
            "line 3: TIMESTAMP='1900-01-01 18:15:46' must be within 1000000000 s of the first",
        ),
        (OURS + "chat,1e10,1,1\n", "arrival_s=10000000000.0 must be .* <= 1000000000 s"),
        (MOONCAKE.replace("3000", "2000000000000"), "timestamp=2.* <= 1000000000000 ms"),
        (AZURE, "no request in it"),
        ("a,b\n1,2\n", "line 1: not a request trace .columns 'a,b'"),
        ("prompt_tokens\n1\n", "line 1: not a request trace"),
        ("prompt_tokens,output_tokens,output_tokens\n1,1,1\n", "line 1: not a request trace"),
        ("prompt_tokens,output_tokens,more\n1,1,1\n", "line 1: not a request trace"),
        ("TIMESTAMP,ContextTokens\n", "line 1: not a request trace"),
        ("[1, 2]\n", "line 1: not a request trace"),
        ("# A notebook\n\nwith text\n", "line 1: not a request trace"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
        (AZURE + "2023-11-16 18:15:46,374\n", "line 2: 2 fields, the header has 3"),
        (AZURE + "2023-11-16 18:15:46,374,1,9\n", "line 2: 4 fields"),
        (AZURE + "2023-11-16 18:15:46,1,1\nyesterday,1,1\n", "line 3: TIMESTAMP='yesterday'"),
        (AZURE + "2023-02-30 18:15:46,1,1\n", "line 2: TIMESTAMP"),
        (AZURE + "2023-11-16 25:15:46,1,1\n", "line 2: TIMESTAMP"),
        (AZURE + "2023-11-16 18:15:46,0,1\n", "line 2: ContextTokens=0 must be .* >= 1"),
        (AZURE + "2023-11-16 18:15:46,1,-1\n", "line 2: GeneratedTokens=-1 must be .* >= 0"),
        (AZURE + "2023-11-16 18:15:46,1.5,1\n", "line 2: ContextTokens=1.5"),
        (AZURE + "2023-11-16 18:15:46,,1\n", "line 2: ContextTokens=''"),
        (AZURE + '2023-11-16 18:15:46,"1\n', "line 2: not valid CSV"),
        (OURS + "chat,nan,1,1\n", "line 2: arrival_s='nan'"),
        (OURS + "chat,-1,1,1\n", "line 2: arrival_s=-1"),
        (OURS + "chat,1e999,1,1\n", "line 2: arrival_s"),
        (OURS + "chat,0,1_000,1\n", "line 2: prompt_tokens='1_000'"),
        (OURS + "chat,0,٣,1\n", "line 2: prompt_tokens"),
        (OURS + "chat,0,99999999999,1\n", "line 2: prompt_tokens=99999999999"),
        (OURS + "chat,0," + "9" * 5000 + ",1\n", "line 2: prompt_tokens='999"),
        (MOONCAKE + '{"timestamp": 1\n', "line 2: not valid JSON"),
        (MOONCAKE + "[1]\n", "line 2: not a trace row"),
        (MOONCAKE.replace("output_length", "other"), "line 1: not a trace row"),
        ('{"model": "m", "messages": []}\n', "line 1: not a trace row, needs timestamp"),
        (MOONCAKE.replace("7", "true"), "line 1: input_length=True"),
        (MOONCAKE.replace("7", "7.0"), "line 1: input_length=7.0"),
        (MOONCAKE.replace("7", '"7"'), "line 1: input_length='7'"),
        (MOONCAKE.replace("7", "1" * 4000), "line 1: input_length=1111"),
        (MOONCAKE.replace("7", "1" * 9000), "line 1: not valid JSON"),
        (MOONCAKE.replace("3000", "NaN"), "line 1: timestamp=nan"),
        (MOONCAKE.replace("3000", "Infinity"), "line 1: timestamp=inf"),
        (MOONCAKE.replace("3000", "true"), "line 1: timestamp=True"),
        (MOONCAKE.replace("3000", "1" * 4000), "line 1: timestamp=1111"),
        (MOONCAKE.replace("[0, 14]", "[" * 100_000), "line 1: not valid JSON"),
    ],
)
def test_a_malformed_trace_is_one_line_with_file_line_and_reason(tmp_path, text, words):
    with pytest.raises(ValueError, match=rf"^trace\.csv.*{words}") as error:
        load_requests(written(tmp_path, text))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 320


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_requests(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="not a regular file"):
        load_requests(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match="not a regular file"):
        load_requests(tmp_path / "pipe.csv")


def test_sizes_are_bounded(tmp_path, monkeypatch):
    path = written(tmp_path, AZURE + "2023-11-16 18:15:46,1,1\n" * 3)
    monkeypatch.setattr(traces, "MAX_REQUESTS", 2)
    with pytest.raises(ValueError, match="over 2 requests"):
        load_requests(path)
    monkeypatch.setattr(traces, "MAX_LINE", 39)
    with pytest.raises(ValueError, match="line 1: over 39 characters"):
        load_requests(path)
    monkeypatch.setattr(traces, "MAX_BYTES", 50)
    with pytest.raises(ValueError, match="over 50 bytes"):
        load_requests(path)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=120), st.sampled_from([b"", AZURE.encode(), b"{", OURS.encode()]))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content, start):
    path = written(tmp_path_factory.mktemp("any"), start + content)
    with contextlib.suppress(ValueError):
        frame = load_requests(path)
        assert (frame["prompt_tokens"] >= 1).all()
        assert (frame["arrival_s"] >= 0).all()


TOKENS = st.integers(1, 2**31 - 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(TOKENS, TOKENS, st.integers(0, 10**9)), min_size=1, max_size=20))
def test_our_columns_survive_a_round_trip(tmp_path_factory, rows):
    frame = pd.DataFrame(rows, columns=["prompt_tokens", "output_tokens", "arrival_s"])
    frame["arrival_s"] = frame["arrival_s"] / 1000
    path = tmp_path_factory.mktemp("trip") / "trace.csv"
    frame.to_csv(path, index=False)
    pd.testing.assert_frame_equal(load_requests(path), frame)


# Samples from the stored quantiles


def test_the_four_workloads_are_there():
    assert workload_names() == (
        "azure-2023-conversation",
        "azure-2023-code",
        "mooncake-conversation",
        "mooncake-synthetic",
    )


@pytest.mark.parametrize("workload", workload_names())
def test_samples_follow_the_quantiles_and_the_rate(workload):
    source = _workloads()[workload]
    frame = sample_requests(workload, 20_000, seed=7)
    for column, stored in (
        ("prompt_tokens", source.prompt_tokens),
        ("output_tokens", source.output_tokens),
    ):
        assert frame[column].between(stored[0], stored[-1]).all()
        # the share of samples at or under the stored quantile q is q, within 5 standard errors
        for position in (10, 50, 100, 150, 190):
            share = (frame[column] <= stored[position]).mean()
            below = (frame[column] < stored[position]).mean()
            q, error = QUANTILES[position], 5 * 0.5 / 20_000**0.5
            assert below - error <= q <= share + error
    gaps = np.diff(frame["arrival_s"], prepend=0.0)
    assert (gaps >= 0).all()
    mean = source.duration_s / source.requests
    assert gaps.mean() == pytest.approx(mean, rel=5 / 20_000**0.5)
    assert gaps.std() == pytest.approx(mean, rel=0.1)  # exponential: as large as the mean


def test_lengths_are_interpolated_between_quantiles(monkeypatch):
    # two tokens a quantile step of 0.005 are 400 over the whole: every length of a uniform one
    real = _workloads()["azure-2023-code"]
    steep = {"one": dataclasses.replace(real, prompt_tokens=tuple(range(1000, 1402, 2)))}
    monkeypatch.setattr("eagerbuf.simulate.workloads._workloads", lambda: steep)
    prompts = sample_requests("one", 40_000)["prompt_tokens"]
    assert prompts.nunique() == 401
    assert prompts.between(1101, 1299).mean() == pytest.approx(199 / 400, abs=0.0125)


def test_a_seed_gives_the_same_requests_and_fewer_are_the_first():
    long, short = sample_requests("azure-2023-code", 500), sample_requests("azure-2023-code", 20)
    pd.testing.assert_frame_equal(long.head(20), short)
    pd.testing.assert_frame_equal(long, sample_requests("azure-2023-code", 500, seed=0))
    assert not long.equals(sample_requests("azure-2023-code", 500, seed=1))
    assert list(long.columns) == ["prompt_tokens", "output_tokens", "arrival_s"]
    assert long.dtypes.astype(str).tolist() == ["int64", "int64", "float64"]


@pytest.mark.parametrize(
    ("workload", "n", "words"),
    [
        ("azure", 5, "workload='azure': unknown, give one of azure-2023-conversation"),
        ("azure-2023-code", 0, "n=0: give 1 to"),
        ("azure-2023-code", -3, "n=-3"),
        ("azure-2023-code", 10**9, "n=1000000000"),
    ],
)
def test_what_cannot_be_sampled_is_named(workload, n, words):
    with pytest.raises(ValueError, match=words):
        sample_requests(workload, n)
