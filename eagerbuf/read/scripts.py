"""Launches in shell text and in code: scripts, docker lines, quoted scripts, lists of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from eagerbuf.read.assembled import Use, array_words, python_use, shell_uses, strings_beside
from eagerbuf.read.commands import LOOK_BACK, command_at, command_start, commands, starts_nothing
from eagerbuf.read.environment import in_effect
from eagerbuf.read.launch import (
    Launch,
    from_words,
    program_end,
    tag_release,
    variables,
    within,
)
from eagerbuf.read.lists import list_words
from eagerbuf.read.text import pattern, places
from eagerbuf.read.tokens import Word, command_words

MAX_DEPTH = 4  # scripts inside scripts
MAX_LAUNCHES = 64
MAX_COMMANDS = 512  # that are looked at

_NAMES = ("launch_server", "one_batch", "bench_offline_throughput", "sglang")
_PROGRAM = pattern(
    r"launch_server\b|one_batch(?:_server)?\b|bench_offline_throughput\b"
    r"|sglang[ \t]+serve\b|sglang[\"'],\s*[\"']serve\b"
)
_AFTER_MENTION = pattern(r"(?:\.py)?[\"']?(?:, line|:\d)|\.(?!py\b)\w|\(|'? is still supported")
_BEFORE_MENTION = pattern(r"Warning: |^\s*(?:Example: |import |from )")
_SHELL_C = pattern(r"\b(?:ba|z|da|k)?sh[ \t]+(?:-[\w-]+[ \t]+){0,4}?-\w*c[ \t\\\n]+[\"']")
_SIGN = pattern(r"[ \t]*(?:#+|[>$%]|>>>)[ \t]*(?=[^\s#])")
_ASSIGNED = pattern(r"(?P<name>[A-Za-z_]\w{0,80})=(?P<array>\()?")
_ARRAY_NAME = pattern(r"\b([A-Za-z_]\w{0,80})[ \t]*=[ \t]*$")
_LIST_ENDS = pattern(r"(?:\.py)?[\"']\s*[,\])]")
_MORE_LIST = pattern(r"[\s,;]*[\"']?(?:args|cmd|CMD|command|Cmd)[\"']?\s*[:=]?\s*(?=\[)")


def launches_in(text: str, depth: int = 0) -> list[Launch]:
    """Every launch in shell text or code, in order; a script in quotes is looked into.

    `depth`: 0 for the whole text, 1 for a part of it, more for scripts inside scripts.
    Commented-out commands are marked as mentioned only (a "#" may be root's prompt).
    ValueError if there are over `MAX_LAUNCHES`.
    """
    every: list[Launch] = []
    done = looked = 0
    for place in places(text, *_NAMES) if depth <= MAX_DEPTH else ():
        match = _PROGRAM.match(text, place) if place >= done and looked < MAX_COMMANDS else None
        if match is None or _mentioned_only(text, match):
            continue
        looked += 1
        found, done = _launches_at(text, match, depth)
        commented = _commented(text, place)
        every += [
            replace(item, place=None if depth else place, mentioned=item.mentioned or commented)
            for item in found
        ]
        if len(every) > MAX_LAUNCHES:
            raise ValueError(f"text: over {MAX_LAUNCHES} launch commands; give one")
    return every


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
        words, _ = command_at(text, command_start(text, opening), opening)
        around = _around(text, words, _texts(w for w in words if w.start < opening))
        return [within(inner, around) for inner in launches_in(body, depth + 1)], end
    if _LIST_ENDS.match(text, match.end()):
        listed = _enclosing_list(text, match)
        if listed:
            return _launches_of(text, [listed[0]], match.start()), listed[1]
    return _shell_launches(text, match, depth)


def _launches_of(text: str, uses: Sequence[Use], place: int) -> list[Launch]:
    """The launches that assembled commands are, the first of them at `place`."""
    found: list[Launch] = []
    for use in uses:
        launch = from_words(use.words)
        if launch:
            end, _ = program_end(use.words) or (0, False)
            env = in_effect(text, place if use.place is None else use.place, use.words[:end])
            found.append(replace(launch, env={**env, **launch.env}, maybe=tuple(use.maybe)))
    return found


def _around(text: str, words: Sequence[Word], before: Sequence[str]) -> Launch:
    """What surrounds the program of a command: its variables, and its container's image."""
    env = in_effect(text, words[0].start, before) if words else {}
    return Launch((), env={**env, **dict(variables(before))}, release=tag_release(before))


def _shell_launches(text: str, match: re.Match[str], depth: int) -> tuple[list[Launch], int]:
    held = _in_array(text, match)
    if held:
        return held
    start, text = _inside_backquotes(text, command_start(text, match.start()), match)
    words, end = command_at(text, start, match.start())
    end = max(end, match.end())
    first = next((i for i, word in enumerate(words) if word.end > match.start()), len(words))
    around = _around(text, words, _texts(words[:first]))
    if first == len(words):
        return [], end
    found, end = _named_in(text, words[first:], end, depth)
    found = [within(launch, around) for launch in found]
    if starts_nothing(_texts(words)):
        found = [replace(launch, mentioned=True) for launch in found]
    return found, end


def _named_in(text: str, words: list[Word], end: int, depth: int) -> tuple[list[Launch], int]:
    """The launches of a command whose first word here holds the program's name."""
    word = words[0]
    variable = _ASSIGNED.match(text, word.start)
    if variable and not variable["array"]:
        value = _texts(_last_with_program(word.text.partition("=")[2]))
        uses = shell_uses(text, variable["name"], word.start, value, word.end) if value else []
        if uses:
            return _launches_of(text, uses, word.start), word.end
    if not _is_script(word.text):
        named = _texts(words)
        launch = from_words(named) if program_end(named) else None
        return [launch] if launch else [], end
    inner = launches_in(word.text, depth + 1)
    beside, after = strings_beside(text, word.end)
    use, after = python_use(text, beside, word.start, after)
    if inner and (use.words or use.maybe):
        inner[-1] = replace(
            inner[-1], argv=(*inner[-1].argv, *use.words), maybe=(*inner[-1].maybe, *use.maybe)
        )
    return inner, max(end, after)


def _last_with_program(script: str) -> list[Word]:
    """The last command of a script, if it names the program."""
    *_, last = commands(script)
    return last if program_end(_texts(last)) else []


def _in_array(text: str, match: re.Match[str]) -> tuple[list[Launch], int] | None:
    """The launches of an array in a script (or of strings in brackets) that names the program."""
    opening = text.rfind("(", max(0, match.start() - LOOK_BACK), match.start())
    line = max(text.rfind("\n", 0, max(opening, 0)) + 1, opening - 200)
    named = _ARRAY_NAME.search(text, line, opening) if opening > 0 else None
    held = array_words(text, opening) if named else None
    if named is None or held is None or held[1] < match.end():
        return None
    uses = shell_uses(text, named[1], named.start(1), *held)
    return _launches_of(text, uses, opening), held[1]


def _texts(words: Iterable[Word]) -> list[str]:
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
    sign = _SIGN.match(text, line, place + 1)
    return sign.end() if sign else 0


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


def _enclosing_list(text: str, match: re.Match[str]) -> tuple[Use, int] | None:
    """The list in code that holds the quoted program name, all that is added to it, its end."""
    floor = max(0, match.start() - LOOK_BACK)
    opening = max(text.rfind(bracket, floor, match.start()) for bracket in "[({")
    if opening < 0:
        return None
    words, end = list_words(text, opening)
    more = _MORE_LIST.match(text, end)
    if more and not any(word.startswith("--") for word in words):
        extra, end = list_words(text, more.end())
        words += extra
    return python_use(text, words, opening, end)
