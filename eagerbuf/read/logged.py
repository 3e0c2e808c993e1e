"""The part of a text that may be a log: no comments and no prose beside a command."""

from __future__ import annotations

import re

from eagerbuf.read.text import pattern, places

PASSED_OVER = (
    "name=value after words of prose is passed over beside a command; "
    "what a log printed counts on a line of its own"
)

_CALLS = ("Engine(", "Runtime(")
MAX_YAML = 2**17
_YAML = pattern(
    r"^[ \t]*(?:- +)?[\"']?(?:command|args|entrypoint|containers|services|[a-z]+(?:-[a-z]+)+)"
    r"[\"']?:(?:[ \t]|$)",
    re.MULTILINE,
)
_FLAG = pattern(r"(?<![^\s\"'\[,])--[a-z]")
_COMMENT = pattern(  # perhaps behind the pod or container that printed the script
    r"\n(?:\[(?:pod|container)/[^\]\n]{1,200}\][ ]|[\w./-]{1,80}[ \t]+\|[ ])?[ \t]*#[^\n]*"
)
# Words, and then the name of a field; the values of a dump that a terminal broke end with a comma.
_PROSE = pattern(
    r"\n[ \t>*-]*[A-Z]?[a-z][\w'`().-]*(?:[,;:]?[ ]+[\w'`().-]+)*:?[ ]+"
    r"(?=(?:max_total_num_tokens|chunked_prefill_size|max_prefill_tokens|max_running_requests"
    r"|tp_size|pp_size|page_size|enable_dp_attention|context_len(?:gth)?)(?:=|: ))[^\n]*"
)


def log_part(text: str) -> tuple[str, list[str]]:
    """The text with blanks for what is no log in it, as long as before; a note on prose.

    Beside a command a line that begins with "#", what follows a " # " behind flags, and fields
    after words are somebody's remarks: no line of a log looks like that. Without a command they may
    be all there is, so they stay.
    """
    if not _has_command(text):
        return text, []
    remarks = _behind_flags(_COMMENT.sub(_blanks, "\n" + text))
    bare, prose = _PROSE.subn(_blanks, remarks)
    return bare[1:], [PASSED_OVER] if prose else []


def _has_command(text: str) -> bool:
    """Whether flags are given, which every command has, or fields in code or in YAML."""
    flags = "--" in text and _FLAG.search(text)
    return bool(flags or _YAML.search(text[:MAX_YAML])) or any(call in text for call in _CALLS)


def _blanks(match: re.Match[str]) -> str:
    return "\n" + " " * (len(match[0]) - 1)


def _behind_flags(text: str) -> str:
    """The text without the comments that follow flags on their line."""
    parts: list[str] = []
    done = kept = 0
    for place in places(text, " # "):
        if place < done:
            continue
        line = text.rfind("\n", done, place) + 1 or done
        done = _line_end(text, place)
        if "--" in text[line:place]:
            parts += [text[kept:place], " " * (done - place)]
            kept = done
    return "".join([*parts, text[kept:]])


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end
