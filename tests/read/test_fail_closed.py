"""Fail closed: a text that is spoilt never turns into fits, and a wrapped one says the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import check, read_servers

DATA = Path(__file__).parents[1] / "data"
CASES = [
    json.loads(line)
    for name in ("cases.jsonl", "cases2.jsonl")
    for line in (DATA / name).read_text("utf-8").splitlines()
]
SPOILS = [
    "zzz",
    "--zzz",
    "--pp-szie 2",
    "$ZZZ",
    '"$@"',
    "${ZZZ:-}",
    "'",
    '"',
    "`",
    "# x",
    "\n",
    "\n\n",
    "\n# x\n",
    "\\",
    "```",
    "> ",
    "|",
    ";",
    "(",
    ")",
    "- ",
    ": ",
]
DROPS = ("ends the command", "the last one counts", "is passed over")
OPEN = ("hangs", "overflows", "unknown", "error")


def judged(case: dict[str, Any], text: str) -> tuple[str, tuple[str, ...]]:
    """The verdict of a text under a case's release and options, and the notes on it."""
    pairs = zip(case["args"][::2], case["args"][1::2], strict=True)
    options = {flag.removeprefix("--").replace("-", "_"): int(value) for flag, value in pairs}
    try:
        readings = read_servers(text, release=case["release"], **options)
        report = check(readings, release=case["release"])
    except ValueError:
        return "error", ()
    notes = [note for reading in readings for note in reading.notes]
    return report.verdict, tuple(notes)


VERDICTS = {case["id"]: judged(case, case["text"])[0] for case in CASES}
COMMANDS = [c for c in CASES if c["kind"] in ("command", "script", "bench") and c["text"].strip()]
SHAKY = [case for case in CASES if VERDICTS[case["id"]] in OPEN and case["text"].strip()]


def dropped_by_a_shell(case: dict[str, Any], spoil: str, notes: tuple[str, ...]) -> bool:
    """Whether a shell itself would not see what the spoil hides: it ends or comments a command."""
    if any(word in note for note in notes for word in DROPS):
        return True
    if spoil.strip()[:1] == "#":
        return True  # in every form the rest of the line is a comment
    ends = spoil.strip(" ")[:1] in ("#", "\n", "|", ";", "(", ")", ">") or spoil == "\\"
    return ends and ("launch_server" in case["text"] or case["kind"] in ("command", "bench"))


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(SHAKY), st.sampled_from(SPOILS), st.integers(0, 10**6))
def test_a_spoilt_text_never_turns_into_fits(case: dict[str, Any], spoil: str, place: int) -> None:
    text = case["text"]
    blanks = [i for i, sign in enumerate(text) if sign in " \n"] or [0]
    at = blanks[place % len(blanks)]
    verdict, notes = judged(case, f"{text[:at]} {spoil} {text[at:]}")
    if verdict == "fits":
        assert dropped_by_a_shell(case, spoil, notes), (case["id"], at, spoil)


WRAPS: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "quoted twice": lambda text: "\n".join(f">> {line}" for line in text.split("\n")),
    "fenced": lambda text: f"Here's what I ran:\n\n```bash\n{text}\n```\n\nIt's not what I want.",
    "fenced and quoted": lambda text: "\n".join(f"> {x}" for x in f"```\n{text}\n```".split("\n")),
    "tilde fence": lambda text: f"~~~\n{text}\n~~~\n",
    "indented": lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
    "windows lines": lambda text: text.replace("\n", "\r\n"),
    "coloured": lambda text: f"\x1b[32m{text}\x1b[0m",
    "pod": lambda text: "\n".join(f"[pod/a-0/main] {line}" for line in text.split("\n")),
    "stamped": lambda text: "\n".join(f"2026-06-30T10:00:00Z {x}" for x in text.split("\n")),
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case["id"])
def test_a_wrapped_command_says_the_same(case: dict[str, Any], wrap: str) -> None:
    assert judged(case, WRAPS[wrap](case["text"]))[0] == VERDICTS[case["id"]]


def prompted(text: str, first: str, second: str) -> str:
    """As a terminal shows it: a prompt before each command, another one before what goes on."""
    lines = text.strip().split("\n")
    goes_on = [False, *(line.rstrip().endswith("\\") for line in lines)]
    return "\n".join(
        (second if on else first) + line for line, on in zip(lines, goes_on, strict=False)
    )


@pytest.mark.parametrize(("first", "second"), [("$ ", "> "), ("me@host:~$ ", "> "), ("% ", "")])
@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case["id"])
def test_a_command_behind_prompts_says_the_same(
    case: dict[str, Any], first: str, second: str
) -> None:
    if case["text"].lstrip().startswith((">", "user@")):
        return
    assert judged(case, prompted(case["text"], first, second))[0] == VERDICTS[case["id"]]


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case["id"])
def test_an_unknown_variable_leaves_nothing_to_fit(case: dict[str, Any]) -> None:
    source = random.Random(case["id"])
    flags = [i for i in range(len(case["text"])) if case["text"].startswith(" --", i)]
    for at in source.sample(flags, min(4, len(flags))):
        verdict, notes = judged(case, case["text"][:at] + " $NOT_IN_THE_TEXT" + case["text"][at:])
        cut = any("ends the command" in note for note in notes)
        assert verdict in OPEN or verdict == "not-applicable" or cut
