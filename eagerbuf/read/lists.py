"""List literals in code (Python, JSON, JavaScript) as the words of a command."""

from __future__ import annotations

import re

from eagerbuf.read.text import pattern

MAX_LIST = 2**17  # characters of one list

_ITEM = pattern(
    r"""(?P<text>[rbfu]{0,2}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))|(?P<comment>\#[^\n]*)|(?P<comma>,)
    |(?P<open>[\[({])|(?P<close>[\])}])|(?P<bare>[^\s,\[\](){}'"#\\]+)|\\.|.""",
    re.DOTALL | re.VERBOSE,
)


def list_words(text: str, opening: int) -> tuple[list[str], int]:
    """The items of a list literal as words (names and calls as "$name"), and where it ends."""
    words: list[str] = []
    depth, after_comma, last = 0, True, ""
    end = min(len(text), opening + MAX_LIST)
    for match in _ITEM.finditer(text, opening, end):
        kind = match.lastgroup or ""
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if depth == 0:
            return words, match.end()
        if depth == 1 and kind in ("text", "bare"):
            if after_comma:
                words.append(item_word(match[0]))
            elif words:
                words[-1] = _longer(words[-1], match[0], beside=last == kind == "text")
        if kind in ("text", "bare", "comma", "open"):
            after_comma, last = kind == "comma" or (kind == "open" and depth == 1), kind
    return words, end


def _longer(word: str, more: str, *, beside: bool) -> str:
    """An item of which `more` is a part too: a string beside it, a condition, an operator."""
    if beside:
        return word + item_word(more)
    if word[:1] == "$":
        return word
    if more in ("if", "for", "or", "and"):
        return "$_"
    return f"{word}$" if more[0] in "+%." else word


def item_word(item: str) -> str:
    """One item as a word: a string without its quotes, a number, anything else as "$item"."""
    quoted = re.fullmatch(r"[rbfu]{0,2}([\"'])(.*)\1", item, re.DOTALL)
    if quoted:
        return re.sub(r"\\([\"'\\])", r"\1", quoted[2])
    return item if re.fullmatch(r"-?[\d.]+", item) else f"${item}"
