"""Words of a command that stand for any number of others (`$ARGS`, `"$@"`), or may be missing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eagerbuf.read.options import Version, options
from eagerbuf.read.text import pattern, shown

_STANDS_FOR_OTHERS = pattern(
    r"""(?:\$\{(?:[^{}\n]|\{[^{}\n]*\})*\} | \$\((?:[^()\n]|\([^()\n]*\))*\) | `[^`\n]*`
    | \{\{[^{}\n]*\}\} | \{[\w.\[\]]+\} | \{%[^%\n]*%\}
    | \${1,2}\*{0,2}(?:[A-Za-z_0-9][\w.]*|[@*]) | \$env:\w+ | %\w+% | @\w+@ | !\w+!
    | <[^<>\n]+>)+ | \[?\.{3,}\]? | \[?\u2026\]?""",
    re.VERBOSE,
)
_TAG = pattern(
    r"(\{%-?[ ]*(?:if|for|unless|else|elif|elsif|end\w*)\b[^%\n]*%\}"
    r"|\{\{-?[ ]*(?:if|with|range|else|end)\b[^{}\n]*\}\})"
)
_OPENS = pattern(r"\{[{%]-?[ ]*(?:if|for|unless|with|range)\b")
_CLOSES = pattern(r"\{[{%]-?[ ]*end")
_UNKNOWN_FLAG = pattern(r"-{1,2}[\w-]*(?:[$`<]|\{\{)[^=]*(?:=.*)?", re.DOTALL)
_DEFAULT = pattern(r"\$\{(?P<name>\w+):?[-=](?P<value>[^{}$]*)\}")
_OPTIONAL = pattern(r"\[--?[A-Za-z]")


def without_maybe(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command that are surely there, and those in brackets or under a condition."""
    words: list[str] = []
    maybe: list[str] = []
    depth, bracket = 0, False
    for word in argv:
        for part in _parts(word):
            if "{" in part and _TAG.fullmatch(part):
                depth = max(0, depth + bool(_OPENS.match(part)) - bool(_CLOSES.match(part)))
                continue
            bracket = bracket or bool(_OPTIONAL.match(part))
            kept = part.strip("[]") if bracket else part
            if kept or not word:
                (maybe if depth > 0 or bracket else words).append(kept)
            bracket = bracket and not part.endswith("]")
    return words, maybe


def _parts(word: str) -> Sequence[str]:
    """A word and the conditions that it is cut into; a value under a condition stays one."""
    if "{" not in word:
        return (word,)
    parts = _TAG.split(word)
    tags = [part for part in parts if part and _TAG.fullmatch(part)]
    opened = sum(bool(_OPENS.match(t)) - bool(_CLOSES.match(t)) for t in tags)
    value = len(tags) > 1 and opened == 0 and not any(part.startswith("-") for part in parts)
    return (word,) if value else parts


def without_unread(
    argv: Sequence[str], at: Version, *, bench: bool = False
) -> tuple[list[str], list[str]]:
    """The words of a command without its bare variables and substitutions, and those.

    One that follows a flag with a value is that value, and stays.
    """
    kept: list[str] = []
    unread: list[str] = []
    for before, word in zip(("", *argv), argv, strict=False):
        stands = _STANDS_FOR_OTHERS.fullmatch(word) and not _takes_value(before, at, bench)
        bare = stands or _UNKNOWN_FLAG.fullmatch(word)
        (unread if bare else kept).append(word)
    return kept, unread


def unread_note(word: str) -> str:
    """What to say of such a word."""
    return (
        f"{shown(word)}: not expanded, so what it sets is not known (flags that are written out "
        f"count as they stand){default_note(word)}; write out the flags it holds, or give the "
        "start-up log"
    )


def default_note(word: str) -> str:
    """What the default that is written in a variable, ${X:-4}, would give."""
    match = _DEFAULT.fullmatch(word)
    return (
        f", {shown(match['value'] or 'nothing')} where {match['name']} is not set" if match else ""
    )


def _takes_value(word: str, at: Version, bench: bool) -> bool:
    """Whether a word is a flag, or begins like one, that the next word is the value of."""
    if not word.startswith("-") or "=" in word or word[1:2].isdigit():
        return False
    known = options(at, bench)
    meant = [o for o in known if o.name == word] or [o for o in known if o.name.startswith(word)]
    return not meant or any(option.args not in "0?" for option in meant)
