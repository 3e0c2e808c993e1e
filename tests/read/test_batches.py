"""read_log: batch lines of every version, with tags and prefixes, broken and cut."""

from __future__ import annotations

import pandas as pd
import pytest

from eagerbuf.read import read_log
from tests.quickest import within
from tests.read.test_logs import DICT

V2024 = (
    "[16:43:29 TP0] Prefill batch. #new-seq: 4, #new-token: 8192, #cached-token: 291, "
    "cache hit rate: 2.76%, token usage: 0.04, #running-req: 1, #queue-req: 38\n"
    "[gpu=0] Decode batch. #running-req: 9, #token: 100, token usage: 0.00, "
    "gen throughput (token/s): 5.00, #queue-req: 0\n"
)
V0_5_10 = (
    "[2026-04-08 10:00:00 DP1 PP0 TP0] Prefill batch, #new-seq: 2, #new-token: 4096, "
    "#cached-token: 128, token usage: 0.10, #running-req: 3, #queue-req: 0, "
    "input throughput (token/s): 0.00, cuda graph: False\n"
)
V0_5_14 = (
    "[2026-06-27 10:00:00.123 PP0 ATTN_CP7 TP7] Prefill batch [12], #new-seq: 1, "
    "#new-token: 8192, #cached-token: 0, full token usage: 0.01, mamba usage: 0.02, "
    "#running-req: 0, #queue-req: 0, #pending-token: 0, #bootstrap-req: 0, #inflight-req: 1, "
    "cuda graph: False, input throughput (token/s): 0.00\n"
    "[2026-06-27 10:00:01 TP0 EP0] Decode batch [13], #running-req: 48, #full token: 100, "
    "full token usage: 0.00, accept len: 2.50, accept rate: 0.50, pre-allocated usage: 0.00, "
    "#prealloc-req: 0, cuda graph: True, gen throughput (token/s): 5.00, #queue-req: 0\n"
)
V0_5_23 = (
    "[2026-10-31 10:00:00 MOE_DP0 TP0] Prefill batch, #new-seq: 3, #new-token: 777, "
    "#cached-token: 5, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, "
    "#replay-token: 7, cuda graph: False, input throughput (token/s): 0.00\n"
)
LATER = V0_5_23.replace("#replay-token: 7, ", "")


def rows(text: str) -> list[tuple[object, ...]]:
    """kind, new_tokens, requests, cached_tokens, page_rounded; None for <NA>."""
    frame = read_log(text)[["kind", "new_tokens", "requests", "cached_tokens", "page_rounded"]]
    return [tuple(None if pd.isna(v) else v for v in row) for row in frame.itertuples(index=False)]


def test_lines_of_all_versions() -> None:
    assert rows(V2024 + V0_5_10 + V0_5_14 + V0_5_23) == [
        ("prefill", 8192, 4, 291, True),
        ("decode", None, 9, None, None),
        ("prefill", 4096, 2, 128, True),
        ("prefill", 8192, 1, 0, True),
        ("decode", None, 48, None, True),
        ("prefill", 777, 3, 5, False),
    ]


def test_times_and_tags() -> None:
    frame = read_log(V2024 + V0_5_10 + V0_5_14)
    assert list(frame["tags"]) == ["TP0", "gpu=0", "DP1 PP0 TP0", "PP0 ATTN_CP7 TP7", "TP0 EP0"]
    assert frame["time"].isna().tolist() == [True, True, False, False, False]
    assert frame["time"][3] == pd.Timestamp("2026-06-27 10:00:00.123")


def test_columns_and_their_types_even_without_rows() -> None:
    kinds = {
        "time": "datetime64[ns]",
        "tags": "object",
        "kind": "object",
        "new_tokens": "Int64",
        "requests": "Int64",
        "cached_tokens": "Int64",
        "page_rounded": "boolean",
    }
    for text in ("nothing here", V0_5_14, V2024[:20]):
        assert {name: str(kind) for name, kind in read_log(text).dtypes.items()} == kinds


@pytest.mark.parametrize("before", ["", "server_args={'model_path': 'm', 'tp_size': 8}\n"])
def test_after_0_5_20_a_line_alone_does_not_tell(before: str) -> None:
    assert pd.isna(read_log(before + LATER)["page_rounded"][0])


def test_a_dump_tells_whether_tokens_are_rounded() -> None:
    assert not read_log(DICT + "\n" + LATER)["page_rounded"][0]
    former = ", ".join(f"a{i}=1" for i in range(200))
    old = f"server_args=ServerArgs(model_path='m', {former}, tp_size=8, page_size=64)\n"
    assert read_log(old + LATER)["page_rounded"][0]


@pytest.mark.parametrize(
    ("release", "rounded"),
    [("0.5.14", True), ("0.5.19", True), ("0.5.20", False), ("0.5.23", False)],
)
def test_the_release_tells_it(release: str, rounded: bool) -> None:
    assert read_log(LATER, release=release)["page_rounded"].tolist() == [rounded]


@pytest.mark.parametrize("width", [31, 47, 60, 79, 80, 100, 120, 133])
def test_lines_that_a_terminal_broke(width: int) -> None:
    text = V0_5_10 + V0_5_14
    broken = "\n".join(
        line[i : i + width] for line in text.splitlines() for i in range(0, len(line), width)
    )
    assert rows(broken + "\n") == rows(text)


@pytest.mark.parametrize(
    "prefix",
    [
        "(Scheduler pid=1, ip=1.2.3.4) ",
        "2026-06-27T10:00:00Z stderr F ",
        "sglang-1  | ",
        "\x1b[33m",
    ],
)
def test_collectors(prefix: str) -> None:
    text = "".join(prefix + line for line in (V0_5_10 + V0_5_14).splitlines(keepends=True))
    assert rows(text) == rows(V0_5_10 + V0_5_14)
    assert list(read_log(text)["tags"]) == list(read_log(V0_5_10 + V0_5_14)["tags"])


def test_a_line_cut_before_its_numbers_is_left_out() -> None:
    line = V0_5_10.rstrip("\n")
    for at in range(1, len(line)):
        got = rows(line[:at])
        assert got in ([], rows(line)) or at < line.index(", token usage"), line[:at]
    assert rows(line[: line.index("#cached")]) == [("prefill", 4096, 2, None, True)]


def test_a_line_whose_middle_is_lost() -> None:
    text = "[2026-05-28 03:00:05 TP0] Prefill batch, #new-seq: 1, #new-token: 896, #cached-to"
    assert rows(text + "unning-req: 47, #queue-req: 71, #pending-token: 60816\n") == [
        ("prefill", 896, 1, None, True)
    ]


def test_other_lines_are_passed_over() -> None:
    noise = 'INFO:     127.0.0.1 - "POST /generate HTTP/1.1" 200 OK\nPrefill batch stuck?\n'
    assert rows(noise + V0_5_10 + noise) == rows(V0_5_10)


def test_a_10_mb_log_takes_at_most_two_seconds() -> None:
    noise = '[2026-10-31 10:00:00] INFO:     127.0.0.1:4444 - "POST /generate HTTP/1.1" 200 OK\n'
    text = V0_5_14 + LATER + noise
    text *= 10**7 // len(text)
    assert within(2.0, lambda: read_log(text))
    assert len(read_log(text)) == 3 * (10**7 // len(V0_5_14 + LATER + noise))


@pytest.mark.parametrize("text", ["", " \n", b"x", None])
def test_text_that_is_none(text: object) -> None:
    with pytest.raises(ValueError, match=r"^text: "):
        read_log(text)  # type: ignore[arg-type]


def test_the_last_start_up_is_told_in_the_frame() -> None:
    dump = "server_args=ServerArgs(model_path='m', chunked_prefill_size={})\n"
    old, new = dump.format(16384) + V0_5_14, dump.format(4096) + V0_5_10
    assert read_log(old + new).attrs == {"last_start_up": 2}
    assert read_log(old + old).attrs == read_log(V0_5_14).attrs == {"last_start_up": 0}
    assert len(read_log(old + new)) == 3
