"""Launches in shell text and in code: scripts, docker lines, quoted scripts, lists of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from eagerbuf.read.launch import (
    Launch,
    exported,
    from_words,
    program_end,
    tag_release,
    variables,
    within,
)
from eagerbuf.read.text import pattern, places
from eagerbuf.read.tokens import Word, command_words

MAX_DEPTH = 4  # scripts inside scripts
MAX_LAUNCHES = 64
MAX_COMMANDS = 512  # that are looked at
MAX_LIST = 2**17  # characters of one list
LOOK_BACK = 2**14  # characters before a program's name that may belong to its command

_NAMES = ("launch_server", "one_batch", "bench_offline_throughput", "sglang")
_PROGRAM = pattern(
    r"launch_server\b|one_batch(?:_server)?\b|bench_offline_throughput\b"
    r"|sglang[ \t]+serve\b|sglang[\"'],\s*[\"']serve\b"
)
_AFTER_MENTION = pattern(r"(?:\.py)?[\"']?(?:, line|:\d)|\.(?!py\b)\w|\(|'? is still supported")
_BEFORE_MENTION = pattern(r"Warning: |^\s*(?:Example: |import |from )")
_SHELL_C = pattern(r"\b(?:ba|z|da|k)?sh[ \t]+(?:-[\w-]+[ \t]+){0,4}?-\w*c[ \t\\\n]+[\"']")
_SIGN = pattern(r"[ \t]*(?:#+|[>$%]|>>>)[ \t]*(?=[^\s#])")
_LIST_ENDS = pattern(r"(?:\.py)?[\"']\s*[,\])]")
_MORE_LIST = pattern(r"[\s,;]*[\"']?(?:args|cmd|CMD)[\"']?\s*[:=]?\s*(?=\[)")
_ITEM = pattern(
    r"""(?P<text>[rbfu]{0,2}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))|(?P<comment>\#[^\n]*)|(?P<comma>,)
    |(?P<open>[\[({])|(?P<close>[\])}])|(?P<bare>[^\s,\[\](){}'"#\\]+)|\\.|.""",
    re.DOTALL | re.VERBOSE,
)


def launches_in(text: str, depth: int = 0) -> list[Launch]:
    """Every launch in shell text or code, in order; a script in quotes is looked into.

    `depth`: 0 for the whole text, 1 for a part of it, more for scripts inside scripts.
    Commented-out commands count only where there are no others (a "#" may be root's prompt).
    ValueError if there are over `MAX_LAUNCHES`.
    """
    live: list[Launch] = []
    commented: list[Launch] = []
    done = looked = 0
    for place in places(text, *_NAMES) if depth <= MAX_DEPTH else ():
        match = _PROGRAM.match(text, place) if place >= done and looked < MAX_COMMANDS else None
        if match is None or _mentioned_only(text, match):
            continue
        looked += 1
        found, done = _launches_at(text, match, depth)
        found = [replace(item, place=None if depth else place) for item in found]
        (commented if _commented(text, place) else live).extend(found)
        if len(live) > MAX_LAUNCHES:
            raise ValueError(f"text: over {MAX_LAUNCHES} launch commands; give one")
    return live or commented


def _mentioned_only(text: str, match: re.Match[str]) -> bool:
    """Whether the name stands in a traceback, a warning or a module path instead of a command."""
    line = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 400)
    after = text[match.end() : match.end() + 40]
    before = text[line : match.start()]
    return bool(_AFTER_MENTION.match(after) or _BEFORE_MENTION.search(before))


def _commented(text: str, place: int) -> bool:
    line = text.rfind("\n", 0, place) + 1
    return text[line:place].lstrip().startswith("#")


def _launches_at(text: str, match: re.Match[str], depth: int) -> tuple[list[Launch], int]:
    """The launches of the command that names the program at `match`, and where it ends."""
    script = _enclosing_script(text, match.start())
    if script:
        opening, body, end = script
        words = _texts(command_words(text, command_start(text, opening))[0])
        around = Launch((), env=dict(variables(words)), release=tag_release(words))
        return [within(inner, around) for inner in launches_in(body, depth + 1)], end
    if _LIST_ENDS.match(text, match.end()):
        listed = _enclosing_list(text, match)
        if listed:
            launch = from_words(listed[0])
            return [launch] if launch else [], listed[1]
    return _shell_launches(text, match, depth)


def _shell_launches(text: str, match: re.Match[str], depth: int) -> tuple[list[Launch], int]:
    start, text = _inside_backquotes(text, command_start(text, match.start()), match)
    words, end = command_words(text, start)
    while end < match.start():  # other commands before it on the line: cd x && ...
        words, end = command_words(text, end + 1)
    end = max(end, match.end())
    first = next((i for i, word in enumerate(words) if word.end > match.start()), len(words))
    before = _texts(words[:first])
    around = Launch((), env=dict(variables(before)), release=tag_release(before))
    if first < len(words) and _is_script(words[first].text):
        inner = launches_in(words[first].text, depth + 1)
        return [within(launch, around) for launch in inner], end
    named = _texts(words[first:])
    launch = from_words(named) if program_end(named) else None
    env = exported(text[max(0, start - LOOK_BACK) : start])
    outside = Launch((), env=env | dict(around.env), release=around.release)
    return [within(launch, outside)] if launch else [], end


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _is_script(word: str) -> bool:
    return bool(re.search(r"\s", word)) and program_end([word]) is None


def _inside_backquotes(text: str, start: int, match: re.Match[str]) -> tuple[int, str]:
    """In Markdown a command may stand between backquotes on its line."""
    line = text.rfind("\n", 0, match.start()) + 1
    if text.count("`", line, match.start()) % 2 == 0:
        return max(start, _after_comment_sign(text, line, match.start())), text
    opening = text.rfind("`", line, match.start())
    closing, newline = text.find("`", match.end()), text.find("\n", match.end())
    if closing < 0 or 0 <= newline < closing:
        return opening + 1, text
    return opening + 1, text[:closing]


def _after_comment_sign(text: str, line: int, place: int) -> int:
    """Behind the "#" or prompt that the line begins with, if it does."""
    sign = _SIGN.match(text, line, place)
    return sign.end() if sign else 0


def command_start(text: str, position: int) -> int:
    """Where the line of the command begins, lines that a backslash joins to it included."""
    floor = max(0, position - LOOK_BACK)
    start = max(text.rfind("\n", floor, position) + 1, floor)
    while start > floor:
        previous = max(text.rfind("\n", floor, start - 1) + 1, floor)
        if not text[previous : start - 1].rstrip(" \t").endswith("\\"):
            break
        start = previous
    return start


def _enclosing_script(text: str, position: int) -> tuple[int, str, int] | None:
    """Where `sh -c` is whose script holds `position`, the script unquoted, and where it ends."""
    openings = list(_SHELL_C.finditer(text, max(0, position - LOOK_BACK), position))
    if not openings:
        return None
    words, _ = command_words(text, openings[-1].start())
    for word in words:
        if word.start <= position < word.end and _is_script(word.text):
            return openings[-1].start(), word.text, word.end
    return None


def _enclosing_list(text: str, match: re.Match[str]) -> tuple[list[str], int] | None:
    """The words of the list in code that holds the quoted program name, and where it ends."""
    floor = max(0, match.start() - LOOK_BACK)
    opening = max(text.rfind(bracket, floor, match.start()) for bracket in "[({")
    if opening < 0:
        return None
    words, end = list_words(text, opening)
    more = _MORE_LIST.match(text, end)
    if more and not any(word.startswith("--") for word in words):
        extra, end = list_words(text, more.end())
        words += extra
    return words, end


def list_words(text: str, opening: int) -> tuple[list[str], int]:
    """The items of a list literal as words (names and calls as "$name"), and where it ends."""
    words: list[str] = []
    depth, after_comma = 0, True
    end = min(len(text), opening + MAX_LIST)
    for match in _ITEM.finditer(text, opening, end):
        kind = match.lastgroup or ""
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if depth == 0:
            return words, match.end()
        if depth == 1 and kind in ("text", "bare") and after_comma:
            words.append(_item(match[0]))
        if kind in ("text", "bare", "comma", "open"):
            after_comma = kind == "comma" or (kind == "open" and depth == 1)
    return words, end


def _item(item: str) -> str:
    quoted = re.fullmatch(r"[rbfu]{0,2}([\"'])(.*)\1", item, re.DOTALL)
    if quoted:
        return re.sub(r"\\([\"'\\])", r"\1", quoted[2])
    return item if re.fullmatch(r"-?[\d.]+", item) else f"${item}"
