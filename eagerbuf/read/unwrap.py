"""What people wrap a paste in, taken off: quote marks, prompts, fences, collectors' prefixes.

Line numbers stay: what is taken off leaves its newline.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from eagerbuf.read.options import begins_option, is_option
from eagerbuf.read.text import COLLECTOR, RECORD, pattern, starts_message
from eagerbuf.read.words.shell import flags_and_values

MAX_SCRIPT = 2**20  # characters in which broken lines, prompts and quote marks are looked for
FULL_LINE = 60  # a line at least this long may have been broken by a terminal

_QUOTED = pattern(r"^[ \t]{0,8}>", re.MULTILINE)
_MARKS = pattern(r"[ \t]{0,8}(?:>[ ]?)+")
_MARK = pattern(r"[ \t]{0,8}>[ ]?")
_PROMPT = pattern(
    r"(?:[ \t]*(?:\([\w.-]+\)[ ])?\[?[\w.-]+@[\w.-]+(?:[: ][^\]$#%>\n]{0,80})?\]?[ ]?[$#%>][ ]?"
    r"|PS[ ][A-Za-z]:[^>\n]{0,120}>[ ]?|[A-Z]:\\[^>\n]{0,120}>[ ]?|[$%\u276f\u279c\u03bb][ ]+"
    r"|\+{1,4}[ ](?=[A-Za-z_/.])|>>>[ ]|In[ ]\[\d+\]:[ ]|\[[\w.@ :~/-]{1,80}\][$#][ ])",
)
_FENCE = pattern(r"[ \t]*(`{3,}|~{3,})[ \t]*[\w+.-]*(?:[ \t][^`:\n]*)?$")
_CODE = pattern(r"--|^[ \t]*[\w-]+:(?:[ \t]|$)", re.MULTILINE)  # before a fence that is not closed
_STARTS_COMMAND = pattern(
    r"[$>|\[(#]|[A-Z_][A-Z0-9_]*=|(?:[\w./-]*/)?(?:python[\d.]*|docker|podman|sglang|export|env|sudo"
    r"|nohup|curl|wget|echo|bash|sh|cd|ssh|srun|ray|torchrun|mpirun|vllm|pip|uv|git|kubectl|helm)\b"
)
_COMMENTED = pattern(r"[ \t]*#+[ \t]?")


class Block(NamedTuple):
    """A part of a text that may hold commands: where it begins, and whose it is."""

    text: str
    line: int = 1
    name: str = ""
    prose: bool = False  # beside fenced code


@dataclass(frozen=True)
class Unwrapped:
    """The text without its wrapping, the parts that may hold commands, the logs of services."""

    text: str
    blocks: tuple[Block, ...]
    services: dict[str, str]


def unwrap(text: str) -> Unwrapped:
    """The text without quote marks, prompts, fences and collectors' prefixes."""
    text, services = _collected(_unquoted(text))
    text, services = _unquoted(text), {name: _unquoted(of) for name, of in services.items()}
    parts = services if len(services) > 1 else {"": text}
    blocks = [
        Block(_unprompted(rejoined(block.text)), block.line, name, block.prose)
        for name, part in parts.items()
        for block in _fenced(part)
    ]
    return Unwrapped(text, tuple(blocks), services)


def _unquoted(text: str) -> str:
    """Without the marks of quoted replies, and of a shell's second prompt."""
    if len(text) > MAX_SCRIPT or not _QUOTED.search(text):
        return text
    lines = text.split("\n")
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and _MARK.match(lines[end]):
            end += 1
        if end > start:
            lines[start:end] = _without_marks(lines[start:end], lines[start - 1] if start else "")
        start = max(end, start + 1)
    return "\n".join(lines)


def _without_marks(run: list[str], before: str) -> list[str]:
    """Behind a backslash a mark is the shell's prompt if flags follow, else a redirection."""
    if run[0].startswith(">>> "):
        return run
    if not before.rstrip().endswith("\\"):
        return [_MARKS.sub("", line, count=1) for line in run]
    bare = [_MARK.sub("", line, count=1) for line in run]
    return bare if any(line.lstrip()[:1] in ("-", "#", "") for line in bare) else run


def _collected(text: str) -> tuple[str, dict[str, str]]:
    """Without what collectors put before each line; with the text of each pod or service."""
    if not re.search(f"(?m)^(?:{COLLECTOR.pattern})", text, re.VERBOSE):
        return text, {}
    lines = text.split("\n")
    found = [COLLECTOR.match(line) for line in lines]
    named = Counter(match["compose"] for match in found if match and match["compose"])
    bare: list[str] = []
    of_each: dict[str, list[str]] = {}
    name = ""
    for line, match in zip(lines, found, strict=True):
        if match and match["compose"] and named[match["compose"]] < 2:
            match = match if starts_message(line[match.end() :]) else None
        rest = line[match.end() :] if match else line
        if match:
            name = match["pod"] or match["compose"] or ""
        bare.append(rest)
        of_each.setdefault(name, []).append(rest)
    services = {name: "\n".join(part) for name, part in of_each.items() if name or "".join(part)}
    return "\n".join(bare), services


def _fenced(text: str) -> list[Block]:
    """The parts in fences, and what is beside them; all of it where no fence is closed."""
    if ("```" not in text and "~~~" not in text) or len(text) > MAX_SCRIPT:
        return [Block(text)]
    lines = text.split("\n")
    blocks: list[Block] = []
    beside = list(lines)
    opening, mark = -1, ""
    for i, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if opening < 0:
            opening, mark = i, match[1]
        elif match[1].startswith(mark):
            blocks.append(Block("\n".join(lines[opening + 1 : i]), opening + 2))
            beside[opening : i + 1] = [""] * (i + 1 - opening)
            opening = -1
    if opening >= 0 and not blocks and not _CODE.search("\n".join(lines[:opening])):
        return [Block("\n".join(["", *lines[opening + 1 :]]), opening + 1)]
    return [*blocks, Block("\n".join(beside), prose=True)] if blocks else [Block(text)]


def _unprompted(text: str) -> str:
    """Without the prompts of shells and of Python."""
    lines = text.split("\n")
    in_python = False
    for i, line in enumerate(lines):
        match = _PROMPT.match(line)
        in_python = bool(match and match[0] == ">>> ") or (in_python and line[:3] == "...")
        if match:
            lines[i] = line[match.end() :]
        elif in_python:
            lines[i] = line[4:]
    return "\n".join(lines)


def uncommented(text: str) -> str:
    """The text of the comments that its lines are; "#" may be root's prompt."""
    lines = text.split("\n")
    return "\n".join(
        _COMMENTED.sub("", line, count=1) if line.lstrip()[:1] == "#" else "" for line in lines
    )


def rejoined(text: str) -> str:
    """Commands whose lines a terminal broke, put together again."""
    if "--" not in text or len(text) > MAX_SCRIPT:
        return text
    lines: list[str] = []
    taken = 0
    for line in text.split("\n"):
        glue = _glue(lines[-1], line) if lines and "--" in lines[-1] else None
        if glue is None:
            if not line.lstrip().startswith("-"):  # flags go on
                lines += [""] * taken
                taken = 0
            lines.append(line)
        else:
            lines[-1] += glue + line
            taken += 1
    return "\n".join(lines + [""] * taken)


def _glue(before: str, line: str) -> str | None:
    """What stood where a terminal broke a line, "" or a blank; None if it did not."""
    last = re.split(r"\s", before[-200:])[-1]
    first = re.split(r"[\s=]", line[:200], maxsplit=1)[0]
    if not first or RECORD.match(line):
        return None
    begun = last.startswith("-") and (last in ("-", "--") or not is_option(last))
    if begun and is_option(last + first):
        return ""
    if len(before.rsplit("\n", 1)[-1]) < FULL_LINE or before.rstrip().endswith("\\"):
        return None
    if _STARTS_COMMAND.match(line.lstrip()) or line.lstrip().startswith("--"):
        return None
    if not (line.strip().isdigit() and last[-1:].isdigit()) and not flags_and_values(line):
        return None
    flag = is_option(last) or (begins_option(last) and not begins_option(last + first))
    return " " if flag or before[-1:] == " " else ""
