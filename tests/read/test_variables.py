"""Words of a command that stand for others nobody wrote down: what they may set is not known."""

from __future__ import annotations

import pytest

from eagerbuf import check, read_config
from eagerbuf.cli import main
from eagerbuf.read.flags import parse

SERVER = "python -m sglang.launch_server --model-path x"
FULL = f"{SERVER} --tp 8 --chunked-prefill-size 4096 --max-running-requests 64"
BARE = [
    "$ARGS",
    "${EXTRA}",
    "${EXTRA:-}",
    '"${EXTRA[@]}"',
    '"$@"',
    "$*",
    "$1",
    "$(cat flags)",
    "`cat flags`",
    "{{ .Values.extraArgs }}",
    "$A$B",
    "${PP:+--pp-size ${PP}}",
    "$$ARGS",
    "@ARGS@",
    "!ARGS!",
    "$env:ARGS",
    "<other args>",
    "...",
    "\u2026",
]


@pytest.mark.parametrize("word", BARE)
@pytest.mark.parametrize("before", ["", " --trust-remote-code", " --enable-mixed-chunk", " --tp 4"])
def test_a_bare_variable_may_set_anything(word: str, before: str) -> None:
    got = read_config(f"{SERVER}{before} {word} --page-size 64")
    assert check(got).verdict == "unknown"
    assert got.values["pp_size"] is None
    assert got.values["page_size"] == 64
    assert got.unread[0].startswith(word.strip('"') + ": not expanded")


def test_the_command_says_so_and_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--command", f"{SERVER} $ARGS"]) == 3
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("UNKNOWN")
    assert second.startswith("note: $ARGS: not expanded")


@pytest.mark.parametrize(
    "value", ["--port $PORT", "--model-path $(pwd)", "--tp $TP", "--lora-paths ${LORA}"]
)
def test_a_variable_that_is_a_value_leaves_the_rest_known(value: str) -> None:
    got = read_config(f"{FULL} {value}")
    assert not any("not expanded" in note for note in got.notes)
    assert got.values["pp_size"] == 1
    assert check(got).verdict == "fits"


@pytest.mark.parametrize("word", ["$HOME/x", "x$A", "$A:5000", "--port=$PORT", "$", "a"])
def test_words_that_are_no_variable_alone(word: str) -> None:
    assert not parse([word], "0.5.14", strict=False).partial


def test_after_the_values_of_a_list_it_stands_on_its_own() -> None:
    argv = ["--batch-size", "4", "--input-len", "1024", "$@"]
    found = parse(argv, "0.5.14", bench=True)
    assert found.partial
    assert found.bench is None  # the variable may set it once more


def test_python_lists_and_other_nodes() -> None:
    listed = '["python", "-m", "sglang.launch_server", "--tp", "8", "--port", str(port), *extra]'
    got = read_config(listed)
    assert got.unread == read_config(f"{SERVER} $*extra").unread
    pair = read_config(f"{FULL}\n{FULL} $ARGS\n")
    assert [note.split(":")[0] for note in pair.unread] == ["$ARGS"]
    assert check(pair).verdict == "unknown"


def test_a_log_that_shows_every_field_decides() -> None:
    log = "server_args=ServerArgs(model_path='x', tp_size=8, chunked_prefill_size=4096)"
    got = read_config(f"{SERVER} $ARGS\n[2026-06-30 10:00:00] {log}")
    assert got.values["pp_size"] == 1
    assert got.unread == ()


@pytest.mark.parametrize(
    "words",
    [
        "[--pp-size 4]",
        "{% if pp %}--pp-size 4{% endif %}",
        "{%- if pp -%} --pp-size 4 {%- else %} --pp-size 2 {% endif %}",
        "{{- if .pp }} --pp-size {{ .pp }} {{- end }}",
    ],
)
def test_what_may_be_missing_is_not_known(words: str) -> None:
    got = read_config(f"{FULL} {words} --page-size 64")
    assert check(got).verdict == "unknown"
    assert got.values["pp_size"] is None
    assert got.values["page_size"] == 64
    note = "--pp-size: may be set or not, so its value is not known"
    assert note in got.unread


@pytest.mark.parametrize(
    "words",
    [
        "[--trust-remote-code] [--port 1]",
        "{% if x %}--trust-remote-code{% endif %}",
        "--port {% if x %}1{% else %}2{% endif %}",
    ],
)
def test_what_may_be_missing_and_sizes_nothing_leaves_the_rest_known(words: str) -> None:
    got = read_config(f"{FULL} {words}")
    assert (check(got).verdict, got.unread) == ("fits", ())
