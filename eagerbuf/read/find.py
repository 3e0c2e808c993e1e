"""The launches in an unwrapped text: which form each part has, and which of them count."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from eagerbuf.read.launch import BARE, HOLDS_PROGRAM, SURE, TOLD, Launch
from eagerbuf.read.others import refuse_other_engine
from eagerbuf.read.text import pattern, places
from eagerbuf.read.unwrap import Block, uncommented
from eagerbuf.read.words.script import in_script
from eagerbuf.read.words.shell import MAX_WORDS

MAX_SEARCHED = 2**18  # characters in which releases and other engines are looked for
MAX_CODE = 2**18  # characters around flags and programs that are read as commands
MAX_LINES = 4096  # that are looked at in a text that is longer

_INLINE = pattern(r"`([^`\n]+)`")
_TELLS = pattern(
    r"launch_server|one_batch|offline_throughput|sglang|--[a-z]|Engine\(|Runtime\(|ServerArgs\("
    r"|^[ \t]*[\"']?(?:tp_size|model_path|chunked_prefill_size|[a-z]+(?:-[a-z]+)+)[\"']?[ \t]*:",
    re.MULTILINE,
)
_PYTHON = pattern(
    r"\b(?:Engine|Runtime|ServerArgs)\(|[\"'](?:--[a-z]|-m[\"']|sglang)|sglang|os\.sy"
)
_WARNING = pattern(
    r"^[^\n]*UserWarning: [^\n]*(?:\n[ \t]+[^\n]*)*|^[ \t]*Example: sglang serve[^\n]*"
    r"|^[ \t]*File \"[^\n]*\n[^\n]*|^[ \t]*(?:usage|Usage): [^\n]*",
    re.MULTILINE,
)
_OTHER = re.compile(r"[ \t]-m[ \t]+[\"']?(sglang\.[\w.]{1,100})")


@dataclass
class Sources:
    """The launches of a text, and the files that it writes, by their last names."""

    launches: list[Launch] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)


def find(blocks: tuple[Block, ...], *, log: bool) -> Sources:
    """The launches that count: commands first, then what is only told of, then bare flags.

    `log`: the text shows a start-up, so YAML in it is an accident.
    """
    found = Sources()
    every = [
        replace(launch, name=launch.name or block.name)
        for block in blocks
        for launch in _of_block(block, found.files, log)
    ]
    code = {block.name for block in blocks if not block.prose}
    found.launches = _that_count(every)
    if not found.launches and code:
        found.launches = _that_count([one for block in blocks for one in _told_of(block)])
    if not log and not any(launch.rank < BARE for launch in found.launches):
        _refuse_others(blocks)
    return found


def _that_count(every: list[Launch]) -> list[Launch]:
    """Those of the surest kind that there is, without prose that only names the program."""
    for rank in (SURE, TOLD, BARE):
        of_rank = [launch for launch in every if launch.rank == rank]
        with_flags = [launch for launch in of_rank if launch.has_flags]
        if with_flags or (of_rank and rank == SURE):
            return with_flags or of_rank[:1]
    return []


def _of_block(block: Block, files: dict[str, list[str]], log: bool) -> list[Launch]:
    """The launches of one part of the text, by the grammar of the form it has."""
    text = _around_commands(block.text)
    if not _TELLS.search(text):
        return []
    text = _WARNING.sub(lambda match: "\n" * match[0].count("\n"), text)
    from eagerbuf.read.words.units import in_units

    declared = in_units(text)
    if declared is not None and any(launch.has_flags for launch in declared):
        return declared
    in_yaml_text = [] if log else _in_yaml(text, files)
    if in_yaml_text:
        return in_yaml_text
    if _PYTHON.search(text):
        from eagerbuf.read.words.python import in_python

        found = in_python(text, block.line)
        if any(launch.has_flags for launch in found):
            return found
    return _in_shell(text, block, files)


def _in_yaml(text: str, files: dict[str, list[str]]) -> list[Launch]:
    if ":" not in text and "- " not in text and "[" not in text:
        return []
    from eagerbuf.read.words.yamls import in_yaml, looks_like_yaml

    if not looks_like_yaml(text):
        return []
    found = in_yaml(text)
    files.update(found.files)
    return found.launches


def _in_shell(text: str, block: Block, files: dict[str, list[str]]) -> list[Launch]:
    found = in_script(text, line=block.line, files=files)
    if any(launch.rank == SURE and launch.has_flags for launch in found):
        return found
    if re.search(r"^[ \t]*(?:-[ \t]+)+\S", text, re.MULTILINE):
        from eagerbuf.read.words.listed import in_list_items

        listed = in_list_items(text)
        return listed or found
    return found


def _told_of(block: Block) -> list[Launch]:
    """Commands in backquotes, and in comments ("#" may be root's prompt)."""
    text = _WARNING.sub("", _around_commands(block.text))
    if not HOLDS_PROGRAM.search(text):
        return []
    inline = [script for script in _INLINE.findall(text) if HOLDS_PROGRAM.search(script)]
    found = [launch for script in inline for launch in in_script(script, line=block.line)]
    if not any(launch.has_flags for launch in found):
        found = in_script(uncommented(text), line=block.line) or found
    return [replace(launch, rank=max(launch.rank, TOLD)) for launch in found if launch.rank < BARE]


def _around_commands(text: str) -> str:
    """Of a long log only the beginning, and the lines that name the program."""
    if len(text) <= MAX_CODE:
        return text
    parts = [text[:MAX_CODE].rpartition("\n")[0]]
    begin = len(parts[0])
    for place in places(text, "launch_server", "sglang serve", "one_batch", "Engine(")[:MAX_LINES]:
        if place > begin:
            end = place
            while end < min(len(text), place + MAX_CODE):
                end = (text.find("\n", end + 1) + 1 or len(text) + 1) - 1
                if text[end - 1 : end] != "\\":
                    break
            parts.append(text[text.rfind("\n", 0, place) + 1 : end])
            begin = end
    return "\n".join(parts)[: 2 * MAX_CODE]


def _refuse_others(blocks: tuple[Block, ...]) -> None:
    """ValueError for a command of another engine, or of a module that starts none."""
    text = "\n".join(block.text for block in blocks)[:MAX_SEARCHED]
    if "sglang" not in text.lower():
        refuse_other_engine(text)
    module = _OTHER.search(text)
    if module and not HOLDS_PROGRAM.search(text) and "--" in text:
        raise ValueError(
            f"{module[1]}: no module that starts SGLang's engine; give the command of "
            "sglang.launch_server (or sglang serve)"
        )
    if "--" in text and len(text) < MAX_WORDS:
        for line in text.split("\n"):
            if "--" in line:
                refuse_other_engine(line)
