"""Launches in files that declare commands: unit files, supervisor's, Dockerfiles, Makefiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from eagerbuf.read.launch import SURE, Launch, from_words, variables
from eagerbuf.read.text import pattern
from eagerbuf.read.words.held import Names, scalar
from eagerbuf.read.words.script import in_script
from eagerbuf.read.words.shell import commands

MAX_UNITS = 2**18  # characters of such a file

_SECTION = pattern(r"^\[[\w:@. -]{1,80}\][ \t]*$", re.MULTILINE)
_STARTS = pattern(r"^[ \t]*(?:ExecStart|command)[ \t]*=[ \t]*[-+@:!]?(.*)$", re.MULTILINE)
_SETS = pattern(
    r"^[ \t]*(?P<un>Unset)?[Ee]nvironment[ \t]*=(?P<rest>(?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
_DECLARED = pattern(r"\b(SGLANG_\w+)(?:=(\"[^\"\n]*\"|'[^'\n]*'|[^\s,\"']*))?")
_STAGE = pattern(r"^FROM[ \t]", re.MULTILINE)
_INSTRUCTION = pattern(
    r"^(?P<what>ENV|CMD|ENTRYPOINT)[ \t]+(?P<rest>(?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
_EXEC = pattern(r"^(?:CMD|ENTRYPOINT)[ \t]+\[", re.MULTILINE)
_TARGET = pattern(r"^[\w./%-]+[ \t]*:(?!=)[^\n]*\n(?:[ \t]*#[^\n]*\n)*\t", re.MULTILINE)
_MADE = pattern(
    r"^(?P<name>[A-Za-z_]\w*)[ \t]*(?P<how>[:+?]?=)[ \t]*(?P<value>[^\n#]*)", re.MULTILINE
)


def in_units(text: str) -> list[Launch] | None:
    """The launches of such a file; None where the text is none."""
    if len(text) > MAX_UNITS:
        return None
    if _TARGET.search(text):
        return list(_makefile(text))
    if _SECTION.search(text) and _STARTS.search(text):
        return list(_sections(text))
    if _EXEC.search(text) or (_STAGE.search(text) and _INSTRUCTION.search(text)):
        return list(_dockerfile(text))
    return None


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _sections(text: str) -> Iterator[Launch]:
    """A service of each section: its command, and the variables set beside it."""
    starts = [match.start() for match in _SECTION.finditer(text)] + [len(text)]
    for begin, end in pairwise(starts):
        env: dict[str, str] = {}
        for match in _SETS.finditer(text, begin, end):
            for name, value in _DECLARED.findall(match["rest"]):
                if match["un"]:
                    env.pop(name, None)
                else:
                    env[name] = value.strip("\"'")
        for match in _STARTS.finditer(text, begin, end):
            yield from _with(env, text[match.start(1) : end], _line(text, match.start()))


def _with(env: dict[str, str], script: str, line: int) -> list[Launch]:
    names: Names = {name: replace(scalar(value), exported=True) for name, value in env.items()}
    return in_script(script, names=names, line=line)


def _dockerfile(text: str) -> Iterator[Launch]:
    """What the last stage of an image runs, under its variables."""
    begin = max([match.start() for match in _STAGE.finditer(text)], default=0)
    env: dict[str, str] = {}
    runs: dict[str, tuple[str, int]] = {}
    for match in _INSTRUCTION.finditer(text, begin):
        if match["what"] == "ENV":
            rest = re.sub(r"^(\w+)[ \t]+(?=[^=\n]*$)", r"\1=", match["rest"])
            env |= dict(variables(f"{n}={v.strip(chr(34))}" for n, v in _DECLARED.findall(rest)))
        else:
            runs[match["what"]] = (match["rest"], _line(text, match.start()))
    words = [
        word for what in ("ENTRYPOINT", "CMD") if what in runs for word in _exec(runs[what][0])
    ]
    launch = from_words(words)
    if launch:
        line = min(line for _, line in runs.values())
        yield replace(launch, env={**env, **launch.env}, line=line, rank=SURE)
        return
    yield from _with(env, text[begin:], _line(text, begin))


def _exec(rest: str) -> list[str]:
    """The words of an instruction: a JSON list, or shell text."""
    if rest.lstrip().startswith("["):
        import json

        try:
            read = json.loads(rest)
        except (ValueError, RecursionError):
            return []
        return [str(item) for item in read] if isinstance(read, list) else []
    first = next(commands(rest), None)
    return [word.text for word in first.words] if first else []


def _makefile(text: str) -> Iterator[Launch]:
    """Each line of a recipe is a shell of its own; $(NAME) is a variable that is assigned once."""
    made: dict[str, str] = {}
    for match in _MADE.finditer(text):
        name, known = match["name"], match["name"] in made
        made[name] = "$()" if known or match["how"] in ("+=", "?=") else match["value"].strip()
    made = {name: value for name, value in made.items() if "$" not in value}
    lines = text.split("\n")
    position = 0
    while position < len(lines):
        end = position + 1
        while lines[end - 1].endswith("\\") and end < len(lines):
            end += 1
        if lines[position].startswith("\t"):
            script = "\n".join(lines[position:end]).lstrip("\t@-+")
            script = re.sub(r"\$\((\w+)\)", lambda m: made.get(m[1], m[0]), script)
            yield from in_script(script.replace("$$", "$"), line=position + 1)
        position = end
