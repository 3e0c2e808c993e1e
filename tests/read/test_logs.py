"""Start-up logs: dumps and resolved values, cut, broken and collected in any way."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from eagerbuf import check
from eagerbuf.read import read_config, read_servers
from eagerbuf.read.flags import UNREAD
from eagerbuf.read.options import field_names
from eagerbuf.read.startup import startup
from eagerbuf.read.unwrap import unwrap

SET: dict[str, Any] = {
    "tp_size": 8,
    "pp_size": 2,
    "dp_size": 4,
    "attn_cp_size": 1,
    "page_size": 64,
    "moe_dense_tp_size": 1,
    "chunked_prefill_size": 8192,
    "max_running_requests": 250,
    "max_prefill_tokens": 16384,
    "context_length": 32768,
    "enable_dp_attention": True,
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 8,
    "model_impl": "auto",
    "disaggregation_mode": "null",
    "moe_a2a_backend": "none",
    # strings and containers that look like fields
    "json_model_override_args": '{"tp_size": 99, \'x\': "it\'s, (nested)"}',
    "served_model_name": "a 'quoted' max_running_requests=7, b",
    "model_path": "/data/models/DeepSeek-V3",
    "lora_paths": {"tp_size": 5, "a": [1, 2]},
    "cuda_graph_bs": [1, 2, 4],
}
FIELDS = {
    name: SET.get(name, False) for name in ["model_path", *sorted(field_names() - {"config"})]
}
STAMP = "[2026-06-30 10:00:00] server_args="
REPR = STAMP + "ServerArgs(" + ", ".join(f"{n}={v!r}" for n, v in FIELDS.items()) + ")"
DICT = STAMP + repr(FIELDS)
LINE = (
    "[2026-06-30 10:00:01 TP0] max_total_num_tokens=1061980, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests=3319, context_len=163840, "
    "available_gpu_mem=13.50 GB"
)
RESOLVED = {
    "max_total_num_tokens": 1061980,
    "chunked_prefill_size": 8192,
    "max_prefill_tokens": 16384,
    "max_running_requests": 3319,
    "context_len": 163840,
}


def broken(text: str, width: int) -> str:
    return "\n".join(text[i : i + width] for i in range(0, len(text), width))


def dumped(text: str) -> tuple[Mapping[str, Any], bool] | None:
    dump = startup(text).dump
    return None if dump is None else (dump.values, dump.complete)


def never_wrong(text: str) -> int:
    """Assert that no field is read otherwise than it was printed; how many were read."""
    found = dumped(text)
    for name, value in found[0].items() if found else ():
        assert value is UNREAD or value == FIELDS[name], (name, value, text[:60], text[-60:])
    return len(found[0]) if found else 0


@pytest.mark.parametrize("text", [REPR, DICT], ids=["repr", "dict"])
def test_a_whole_dump(text: str) -> None:
    found = dumped(text)
    assert found is not None
    values, complete = found
    assert complete
    assert {n: v for n, v in values.items() if v is not False and v is not UNREAD} == {
        name: value for name, value in SET.items() if name in values
    }
    assert {"tp_size", "max_running_requests", "enable_dynamic_chunking"} <= set(values)


@pytest.mark.parametrize("text", [REPR, DICT], ids=["repr", "dict"])
def test_a_dump_cut_anywhere_is_never_misread(text: str) -> None:
    read = 0
    for at in range(0, len(text), 211):
        for mark in ("", "...", "\u2026"):
            read += never_wrong(mark + text[at:])
            read += never_wrong(text[:at] + mark)
    assert read > 2_000


def test_pieces_of_a_dump_are_never_misread() -> None:
    source = random.Random(7)
    for _ in range(100):
        text = source.choice((REPR, DICT))
        start = source.randrange(len(text))
        piece = source.choice(("", "...")) + text[start : start + source.randrange(40, 6000)]
        never_wrong(piece)
        never_wrong(broken(piece, source.randrange(60, 140)))


@pytest.mark.parametrize("width", [37, 60, 79, 80, 100, 119, 120, 133, 200, 237])
@pytest.mark.parametrize("text", [REPR, DICT], ids=["repr", "dict"])
def test_a_dump_that_a_terminal_broke(text: str, width: int) -> None:
    assert dumped(broken(text, width)) == dumped(text)


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-06-30T10:00:00.123456789Z stdout P ",
        "2026-06-30T10:00:00+02:00 ",
        "2026-06-30 10:00:00,123 ",
        "(SGLangEngine pid=12, ip=1.2.3.4) ",
        "sglang-server-1  | ",
        "[pod/sglang-0/main] ",
        "Jun 30 10:00:00 host python3[123]: ",
    ],
)
def test_a_dump_that_a_collector_split(prefix: str) -> None:
    after = "\n" + prefix + "[2026-06-30 10:00:01] tp_size=99, page_size=99, x"
    split = "\n".join(prefix + piece for piece in broken(REPR, 1024).split("\n"))
    assert dumped(unwrap(split + after).text) == dumped(REPR)
    line = "\n".join(prefix + piece for piece in broken(LINE, 60).split("\n"))
    found = startup(unwrap(line + after).text).line
    assert found is not None
    assert found.values == RESOLVED


def test_a_dump_in_json() -> None:
    text = (
        '{"model_path": "m", "tp_size": 8, "enable_dp_attention": true, "page_size": null, "x": {}}'
    )
    found = dumped(text)
    assert found == ({"tp_size": 8, "enable_dp_attention": True, "page_size": None}, True)
    pretty = json.dumps({"server_args": json.loads(text)}, indent=2)
    assert dumped(pretty) == found


def test_an_abbreviated_dump_is_not_complete() -> None:
    got = read_config("server_args=ServerArgs(model_path='m', ..., tp_size=8, ...)")
    assert got.values["tp_size"] == 8
    assert {"pp_size", "chunked_prefill_size", "num_tokens_per_bs"} <= set(got.unknown)
    assert got.config is None
    assert any("cut" in note for note in got.notes)


def test_what_a_cut_dump_lacks_comes_from_the_command() -> None:
    text = (
        "sglang serve --model-path m --tp 4 --pp-size 2 --max-running-requests 9\n"
        "...prefill_size=4096, max_prefill_tokens=16384, page_size=256, tp_size=8, attn"
    )
    got = read_config(text, release="0.5.14")
    assert (got.values["tp_size"], got.sources["tp_size"]) == (8, "log")
    assert (got.values["pp_size"], got.sources["pp_size"]) == (2, "flag")
    assert got.values["page_size"] == 256
    assert "chunked_prefill_size" in got.unknown
    assert got.values["max_running_requests"] == 9


def test_the_first_field_of_a_cut_dump_counts_only_if_its_name_is_whole() -> None:
    # "tp_size" may be the end of moe_dense_tp_size, "max_prefill_tokens" of nothing
    assert dumped("tp_size=8, pp_size=2, page_size=64, x=1, y=2") == (
        {"pp_size": 2, "page_size": 64},
        False,
    )
    found = dumped("max_prefill_tokens=16384, pp_size=2, page_size=64, x=1")
    assert found is not None
    assert found[0]["max_prefill_tokens"] == 16384


def test_values_of_a_wrong_kind_are_not_taken() -> None:
    text = "server_args=ServerArgs(tp_size='8', page_size=1.5, dp_size=[2], enable_dp_attention=1)"
    got = read_config(text, release="0.5.14")
    assert {"tp_size", "dp_size", "enable_dp_attention"} <= set(got.unknown)


@pytest.mark.parametrize("width", [*range(30, 131), 173])
def test_a_resolved_line_that_a_terminal_broke(width: int) -> None:
    text = broken(LINE, width) + "\n[2026-06-30 10:00:02 TP0] next, max_x=3"
    found = startup(text).line
    assert found is not None
    assert found.values == RESOLVED


@pytest.mark.parametrize(
    "after", ["", "\n", "\n42 items", "\n2026-06-30 10:00:02 next", "\nINFO: x"]
)
def test_what_follows_a_resolved_line_does_not_join_it(after: str) -> None:
    for text in (LINE, LINE[: LINE.index(", available")]):
        found = startup(text + after).line
        assert found is not None
        assert found.values == RESOLVED


def test_a_resolved_line_cut_at_either_end() -> None:
    for at in range(LINE.index("max_total"), len(LINE)):
        for text in ("..." + LINE[at:], LINE[:at] + "...", LINE[at:]):
            line = startup(text).line
            assert line is None or line.values.items() <= RESOLVED.items(), text


@pytest.mark.parametrize(
    ("line", "chunk"),
    [
        (
            "max_total_num_tokens=9, chunked_prefill_size=-1, max_prefill_tokens=8, context_len=5",
            -1,
        ),
        ("max_total_num_tokens=9, chunked_prefill_size=None, context_len=5", -1),
        ("max_total_num_tokens=9, max_prefill_tokens=8, context_len=5", None),
    ],
)
def test_chunking_off_and_versions_that_do_not_show_it(line: str, chunk: int | None) -> None:
    got = read_config("[gpu=0] " + line, release="0.5.14", gpu_mem_gib=80)
    assert got.values["chunked_prefill_size"] == chunk
    assert got.values["max_total_num_tokens"] == 9


@pytest.mark.parametrize(
    ("tags", "unknown"),
    [
        ("", ()),
        (" TP0", ()),
        (" PP0 TP0", ("pp_size", "enable_dynamic_chunking")),
        (" DP0 TP0", ("tp_size", "dp_size", "enable_dp_attention")),
        (" PP0 ATTN_CP7 TP7", ("tp_size", "pp_size", "attn_cp_size", "enable_dynamic_chunking")),
        (" TP0 EP0", ("tp_size", "moe_a2a_backend")),
    ],
)
def test_rank_tags_tell_which_defaults_cannot_be_right(tags: str, unknown: tuple[str, ...]) -> None:
    text = LINE.replace(" TP0", tags)
    got = read_config(text, release="0.5.14")
    assert set(unknown) <= set(got.unknown)
    assert bool(unknown) is bool(got.unknown)
    assert {name: got.values[name] for name in RESOLVED} == RESOLVED


def test_speculation_shows_in_batch_lines() -> None:
    decode = (
        "\n[2026-06-30 10:00:02 TP0] Decode batch, #running-req: 1, #token: 5, token usage: 0.00, "
        "accept len: 2.00, accept rate: 0.50, cuda graph: True\n"
    )
    assert read_config(LINE, release="0.5.14").values["num_tokens_per_bs"] == 1
    assert "num_tokens_per_bs" in read_config(LINE + decode, release="0.5.14").unknown


def test_the_last_start_up_counts() -> None:
    old = "server_args=ServerArgs(tp_size=1, chunked_prefill_size=512)\n" + LINE
    new = "\nserver_args=ServerArgs(tp_size=2, chunked_prefill_size=1024)\n"
    got = read_config(old + new, release="0.5.14")
    assert (got.values["tp_size"], got.values["chunked_prefill_size"]) == (2, 1024)
    assert got.values["max_total_num_tokens"] is None
    again = read_config(old + new + LINE.replace("=8192", "=1024"), release="0.5.14")
    assert (again.values["chunked_prefill_size"], again.values["max_running_requests"]) == (
        1024,
        3319,
    )
    assert any("2 start-ups" in note for note in again.notes)


def test_nodes_that_print_the_same_are_one_start_up() -> None:
    text = f"{REPR}\n{LINE}\n{REPR}\n"
    got = read_config(text, release="0.5.14")
    assert got.values["max_total_num_tokens"] == 1061980


def test_a_kubernetes_list_above_a_log() -> None:
    listed = "args:\n- --tp-size\n- '4'\n- --pp-size\n- '2'\n\n"
    got = read_config(listed + LINE, release="0.5.14")
    assert (got.values["tp_size"], got.values["max_running_requests"]) == (4, 3319)


def test_ranks_that_differ_are_remarked_on() -> None:
    got = read_config(LINE + "\n" + LINE.replace("1061980", "1061979"), release="0.5.14")
    assert got.values["max_total_num_tokens"] == 1061979
    assert any("differ" in note for note in got.notes)


def test_a_whole_log_decides_over_commands_that_differ() -> None:
    text = "sglang serve --tp 2 --model-path m\nsglang serve --tp 4 --model-path m\n" + REPR
    assert read_config(text, release="0.5.14").values["tp_size"] == 8


def test_colours_and_windows_lines() -> None:
    coloured = "\x1b[36m(EngineCore pid=1)\x1b[0m " + LINE.replace(
        "max_prefill", "\x1b[1mmax_prefill"
    )
    found = read_config(coloured.replace(", ", ", ") + "\r\n", release="0.5.14")
    assert found.values["max_running_requests"] == 3319


SERVE = "python -m sglang.launch_server --model-path m --max-running-requests 128 "
OLD_LINE = LINE[LINE.index("max_total") :].replace("=8192", "=-1")
OLD_FIELDS = "chunked_prefill_size=4096, max_prefill_tokens=8192, tp_size=4, pp_size=2, x=1"


@pytest.mark.parametrize("fields", [OLD_LINE, OLD_FIELDS, f"hung with {OLD_FIELDS}"])
@pytest.mark.parametrize(
    "text",
    [
        "# old log: {}\n" + SERVE + "--tp 8 --chunked-prefill-size 8192",
        "  #{}\n" + SERVE + "--tp 8 --chunked-prefill-size 8192",
        "[pod/a/b] # {}\n[pod/a/b] " + SERVE + "--tp 8 --chunked-prefill-size 8192",
        SERVE + "--tp 8 --chunked-prefill-size 8192 # before: {}\n",
        "args:\n- --tp=8\n# {}\n- --chunked-prefill-size=8192\n- --max-running-requests=128\n",
        "It printed {}\n" + SERVE + "--tp 8 --chunked-prefill-size 8192",
        SERVE + "--tp 8 --chunked-prefill-size 8192\n\nOn Monday, it hung (as before) with: {}",
    ],
)
def test_remarks_beside_a_command_are_no_log(text: str, fields: str) -> None:
    got = read_config(text.format(fields), release="0.5.14")
    values = {name: got.values[name] for name in ("tp_size", "pp_size", "chunked_prefill_size")}
    assert values == {"tp_size": 8, "pp_size": 1, "chunked_prefill_size": 8192}
    assert (got.values["max_prefill_tokens"], got.values["max_running_requests"]) == (16384, 128)
    assert "log" not in got.sources.values()
    assert any("prose" in note for note in got.notes) is ("#" not in text)


def test_a_failure_in_a_comment_is_not_the_commands() -> None:
    said = "# Failed to profile prefill latency: boom. Dynamic chunking will be disabled.\n"
    assert read_config(said + SERVE, release="0.5.14").profile is None


def test_a_log_below_a_command_is_one_whatever_stands_before_its_lines() -> None:
    for before in ("", "  ", "[pod/a/b] ", "host python3[1]: ", "> ", "`", "main | "):
        text = "# ours\n" + SERVE + "--chunked-prefill-size 512\n" + before + LINE
        got = read_config(text, release="0.5.14")
        assert {name: got.values[name] for name in RESOLVED} == RESOLVED, before
    for text in ("# " + LINE, "It printed " + OLD_LINE):  # nothing else tells anything
        assert read_config(text, release="0.5.14").values["max_total_num_tokens"] == 1061980


def logged(pipelines: int, chunk: int, before: str = "") -> str:
    """A server's dump behind what a collector put before it."""
    dynamic = pipelines > 1
    return (
        f"{before}[2026-06-30 10:00:00] server_args=ServerArgs(model_path='m', tp_size=8, "
        f"pp_size={pipelines}, chunked_prefill_size={chunk}, max_running_requests=128, "
        f"enable_dynamic_chunking={dynamic})\n"
    )


@pytest.mark.parametrize(("a", "b"), [("[pod/a-0/x] ", "[pod/b-0/x] "), ("a-1  | ", "b-1  | ")])
def test_two_services_in_one_log_are_two_servers(a: str, b: str) -> None:
    both = logged(1, -1, a) + logged(2, 8192, b)
    line_a, line_b = a + LINE.replace("=8192", "=-1") + "\n", b + LINE + "\n"
    first, last = read_servers(both + line_a, release="0.5.14")
    assert (last.values["pp_size"], last.values["chunked_prefill_size"]) == (2, 8192)
    assert last.values["max_total_num_tokens"] is None
    assert first.values["max_total_num_tokens"] == 1061980
    assert (first.name, last.name) == (a.strip(" []|"), b.strip(" []|"))
    for lines in (line_a + line_b, line_b + line_a):
        _, last = read_servers(both + lines, release="0.5.14")
        got = last.values
        assert (got["chunked_prefill_size"], got["max_total_num_tokens"]) == (8192, 1061980)


@pytest.mark.parametrize("chunk", [-1, 4096])
def test_a_line_with_another_chunk_than_the_dump_is_not_combined_with_it(chunk: int) -> None:
    line = LINE.replace("=8192", f"={chunk}")
    got = read_config(logged(1, -1 if chunk > 0 else 512) + logged(2, 8192) + line)
    assert "chunked_prefill_size" in got.unknown
    assert got.values["max_total_num_tokens"] is None
    assert any(f"8192, its resolved values {chunk}: these are not of one" in n for n in got.notes)
    assert check(got, release="0.5.14").verdict == "unknown"
    joined = read_config(logged(2, 8192) + line + "\n" + LINE + "\n" + line)
    assert joined.values["max_total_num_tokens"] == 1061980


def test_a_model_that_turns_chunking_off_after_the_dump() -> None:
    off = "[2026-06-30 10:00:00 TP0] Automatically turn off --chunked-prefill-size as it is not\n"
    got = read_config(logged(1, 8192) + off + LINE.replace("=8192", "=-1"), release="0.5.14")
    assert (got.values["chunked_prefill_size"], got.values["max_total_num_tokens"]) == (-1, 1061980)


GIVEN = 'model_path="m", tp_size=8, dp_size=8, enable_dp_attention=True, chunked_prefill_size=8192'


@pytest.mark.parametrize(
    "code",
    [
        f"args = ServerArgs({GIVEN})",
        f"args: ServerArgs = ServerArgs(\n    {GIVEN},\n)",
        f"args=ServerArgs({GIVEN})",
        f"server_args = ServerArgs({GIVEN})",
        f"server_args = sglang.srt.server_args.ServerArgs({GIVEN})",
        f"launch_server(ServerArgs({GIVEN}))",
        f"launch_server(\n    server_args=ServerArgs(\n        {GIVEN}\n    )\n)",
        f"run(1, server_args = ServerArgs({GIVEN}))",
        f"return ServerArgs({GIVEN})",
        f"args = ServerArgs(host=get('x'), {GIVEN}, max_running_requests=64, page_size=1)",
    ],
)
def test_server_args_in_python_code_are_what_is_given_and_no_dump(code: str) -> None:
    got = read_config(f"from sglang.srt.server_args import ServerArgs\n{code}\n", release="0.5.14")
    assert (got.values["chunked_prefill_size"], got.sources["chunked_prefill_size"]) == (
        1024,
        "flag",
    )


@pytest.mark.parametrize("before", ["", "[10:00:00] ", "server_args=", "x: ", "INFO\nserver_args="])
def test_server_args_that_a_log_prints_are_resolved_already(before: str) -> None:
    got = read_config(f"{before}ServerArgs({GIVEN.replace('8192', '1024')})", release="0.5.14")
    assert got.values["chunked_prefill_size"] == 1024


def test_an_answer_to_server_info_shows_the_pool_too() -> None:
    answer = json.dumps({"model_path": "m", "tp_size": 8, "chunked_prefill_size": 8192, "a": [{}]})
    shown = answer[:-1] + ', "max_total_num_tokens": 665690, "internal_states": [{"x": 1}]}'
    for text in (shown, shown.replace(": ", ":").replace(", ", ","), f"$ curl x\n{shown}\n"):
        got = read_config(text, release="0.5.15")
        assert got.values["max_total_num_tokens"] == 665690
        assert got.sources["max_total_num_tokens"] == "log"
    assert read_config(answer, release="0.5.15").values["max_total_num_tokens"] is None


@pytest.mark.parametrize(
    ("chunk", "verdict"),
    [("$CHUNK", "unknown"), ("{{ .chunk }}", "unknown"), ("8192", "fits"), (None, "fits")],
)
def test_a_chunk_that_is_not_understood_may_be_off(chunk: str | None, verdict: str) -> None:
    flags = "" if chunk is None else f"--chunked-prefill-size {chunk}"
    got = read_config(SERVE + "--tp 8 --pp-size 2 --enable-dynamic-chunking " + flags)
    assert check(got, release="0.5.14").verdict == verdict


@pytest.mark.parametrize(
    ("flags", "chunk", "told"),
    [
        ("--chunked-prefill-size 8192", 8192, False),
        ("--chunked-prefill-size 8192", -1, True),
        ("--chunked-prefill-size 8192", 4096, True),
        ("--chunked-prefill-size -1", -1, False),
        ("--chunked-prefill-size 8192 --tp 8 --dp 8 --enable-dp-attention", 1024, False),
        ("", 4096, False),
    ],
)
def test_a_log_that_is_not_the_commands_is_remarked_on(flags: str, chunk: int, told: bool) -> None:
    got = read_config(SERVE + flags + "\n" + LINE.replace("=8192", f"={chunk}"), release="0.5.14")
    assert got.values["chunked_prefill_size"] == chunk
    assert any("the log counts" in note for note in got.notes) is told


KEYWORDS = (
    "{'model_path': 'm', 'tp_size': 8, 'dp_size': 8, 'enable_dp_attention': True, "
    "'chunked_prefill_size': 8192, 'max_running_requests': 64, 'page_size': 1}"
)


@pytest.mark.parametrize("code", [f"kw = {KEYWORDS}\ne = Engine(**kw)", f"Engine(**{KEYWORDS})"])
def test_a_dict_that_code_unpacks_is_no_dump(code: str) -> None:
    got = read_config(code, release="0.5.14")
    assert "log" not in got.sources.values()
    assert got.values["chunked_prefill_size"] is None


def test_a_dict_that_a_log_prints_is_one() -> None:
    for before in ("", "[10:00:00] ", "x: ", "info=", "config = "):
        got = read_config(before + KEYWORDS.replace("8192", "1024"), release="0.5.14")
        assert got.values["chunked_prefill_size"] == 1024
