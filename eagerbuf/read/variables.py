"""Words of a command that stand for any number of others: `$ARGS`, `"$@"`, `$(cat flags)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eagerbuf.read.options import Version, options
from eagerbuf.read.text import pattern, shown

_STANDS_FOR_OTHERS = pattern(
    r"""(?:\$\{[^{}\n]*\} | \$\((?:[^()\n]|\([^()\n]*\))*\) | `[^`\n]*` | \{\{[^{}\n]*\}\}
    | \{[\w.\[\]]+\} | \$\*{0,2}(?:[A-Za-z_0-9][\w.]*|[@*]) | %\w+% )+""",
    re.VERBOSE,
)


def without_unread(
    argv: Sequence[str], at: Version, *, bench: bool = False
) -> tuple[list[str], list[str]]:
    """The words of a command without its bare variables and substitutions, and those.

    One that follows a flag with a value is that value, and stays.
    """
    kept: list[str] = []
    unread: list[str] = []
    for before, word in zip(("", *argv), argv, strict=False):
        bare = _STANDS_FOR_OTHERS.fullmatch(word) and not _takes_value(before, at, bench)
        (unread if bare else kept).append(word)
    return kept, unread


def unread_note(word: str) -> str:
    """What to say of such a word."""
    return (
        f"{shown(word)}: not expanded, so what it sets is not known (flags that are written out "
        "count as they stand); write out the flags it holds, or give the start-up log"
    )


def _takes_value(word: str, at: Version, bench: bool) -> bool:
    """Whether a word is a flag, or begins like one, that the next word is the value of."""
    if not word.startswith("-") or "=" in word:
        return False
    known = options(at, bench)
    meant = [o for o in known if o.name == word] or [o for o in known if o.name.startswith(word)]
    return not meant or any(option.args not in "0?" for option in meant)
