"""Commands in pieces: a variable that holds the program's name, what is added to it, its uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from eagerbuf.read.commands import command_at, command_start, commands, starts_nothing
from eagerbuf.read.launch import HOLDS_PROGRAM
from eagerbuf.read.lists import item_word, list_words
from eagerbuf.read.text import pattern
from eagerbuf.read.tokens import command_words

MAX_PIECES = 64  # mentions of one variable that are looked at
REACH = 2**16  # characters after its assignment in which they are looked for
MAX_VALUE = 2**10  # characters of a value that may speak of the variable itself
MAX_ARRAY = 2**14  # characters of an array in a shell script

_ARRAY = pattern(
    r"""\((?:[^()'"\\#]|'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\([^()\n]*\)|\#[^\n]*\n)*\)""", re.DOTALL
)
_COMMENT = pattern(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
_PREFIX = pattern(r"(?<!\w)[rbfu]{1,2}(?=[\"'])")
_NAMED = pattern(
    r"(?P<indent>[ \t]*)(?P<name>[A-Za-z_][\w.]{0,80})[ \t]*(?::[^=\n]{0,80})?=[ \t(]*"
)
_BLOCK = pattern(
    r"^[ \t]*(?:(?P<opens>if|for|while|until|case)\b(?![^\n]*:[ \t]*(?:#[^\n]*)?$)"
    r"|(?:fi|done|esac)\b)",
    re.MULTILINE,
)
_PLUS = pattern(r"(?:[ \t]*|\s*\n[ \t]+)\+(?![=+])\s*")
_BESIDE = pattern(r"[ \t\\\n]*(?=[rbfu]{0,2}[\"'])")
_OR_ELSE = pattern(r"[ \t]+(?:if|or|and)\b")
_STRING = pattern(r"""[rbfu]{0,2}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""")
_NAME = pattern(r"\*{0,2}[A-Za-z_][\w.]{0,200}")


class Use(NamedTuple):
    """A command put together: its words, those that may be missing, and where it is used."""

    words: list[str]
    maybe: list[str]
    place: int | None


def array_words(text: str, opening: int) -> tuple[list[str], int] | None:
    """The words of a shell array, or of strings in brackets, and where it ends; None if it is none.

    Strings that hold several words (Python joins strings that stand side by side) are split.
    """
    array = _ARRAY.match(text, opening, opening + MAX_ARRAY)
    if array is None:
        return None
    inner = _PREFIX.sub("", _COMMENT.sub("", array[0][1:-1])).replace("\\\n", " ")
    words = [word.text for word in command_words(inner.replace("\n", " "), 0)[0]]
    if any(" " in word and "--" in word for word in words) or " -m " in words[:1]:
        words = " ".join(words).split()
    return words, array.end()


def variable_named(text: str, opening: int) -> re.Match[str] | None:
    """The variable that what begins at `opening` is assigned to, if the line begins with one."""
    line = max(text.rfind("\n", 0, opening) + 1, opening - 200)
    return _NAMED.fullmatch(text, line, opening)


class Variable:
    """A variable that holds a command, from its assignment at `place` on."""

    def __init__(self, text: str, name: str, place: int, words: Sequence[str]) -> None:
        self.text, self.name = text, name
        self.words, self.maybe = list(words), list[str]()
        self.uses: list[Use] = []
        self.line = text.rfind("\n", 0, place) + 1
        self.indent = len(text[self.line : place]) - len(text[self.line : place].lstrip(" \t"))
        self.open_blocks, self.seen, self.done = 0, place, place

    def sure(self, place: int) -> bool:
        """Whether what begins at `place` is a line of its own under no condition."""
        for match in _BLOCK.finditer(self.text, self.seen, place):
            self.open_blocks += 1 if match["opens"] else -1
        self.seen = max(self.seen, place)
        before = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return not before.strip() and len(before) <= self.indent and self.open_blocks <= 0

    def add(self, words: Sequence[str], place: int) -> None:
        """Words that are added at `place`."""
        (self.words if self.sure(place) else self.maybe).extend(words)

    def mentions(self, mention: re.Pattern[str], end: int) -> list[re.Match[str]]:
        """Where the variable is mentioned after `end`; with too many of them anything may be."""
        found = list(islice(mention.finditer(self.text, end, end + REACH), MAX_PIECES + 1))
        if len(found) > MAX_PIECES:
            self.maybe.append(f"${self.name}")
        return found[:MAX_PIECES]


def shell_uses(text: str, name: str, place: int, value: Sequence[str], end: int) -> list[Use]:
    """Every use of a shell variable that holds `value` from `end` on, itself where none is."""
    variable = Variable(text, name, place, value)
    reference = re.compile(rf"\$\{{?{name}(?:\[[@*]\])?(?![\w\[])\}}?")
    mention = re.compile(rf"(?<![\w$.]){name}(?P<set>[ \t]*\+?=(?!=))|\$\{{?{name}\b")
    for match in variable.mentions(mention, end):
        if match.start() < variable.done:
            continue
        if not match["set"]:
            _use(variable, reference, match.start())
        elif not _assigned(variable, reference, match):
            break
    return variable.uses or [Use(variable.words, variable.maybe, None)]


def _assigned(variable: Variable, reference: re.Pattern[str], match: re.Match[str]) -> bool:
    """Take what an assignment adds; False where it puts something else in the variable's place."""
    words, variable.done = _value(variable.text, match.end())
    if match["set"].lstrip().startswith("+"):
        variable.add(words, match.start())
        return True
    around = _split_at(words, reference, 0)
    if around is None:
        held = any(re.search(rf"\$\{{?{variable.name}\b", word) for word in words)
        variable.maybe += [f"${variable.name}"] if held else []
        return held
    before, after = around
    if before and variable.sure(match.start()):
        variable.words[:0] = before
    elif before:
        variable.maybe.append(f"${variable.name}")
    variable.add(after, match.start())
    return True


def _value(text: str, start: int) -> tuple[list[str], int]:
    """The words of a value in a script or in Python, and where it ends."""
    array = array_words(text, start) if text[start : start + 1] == "(" else None
    if array:
        return array
    found = command_words(text, start)[0][:1]
    if not found or "\n" in text[start : found[0].start]:
        return [], start
    word, raw = found[0], text[found[0].start : found[0].end]
    if raw[0] in "$`":
        return [word.text], word.end
    quoted = re.match(r"([rbfu]{0,2})[\"'\\]|--", raw)
    if quoted is None:
        return [f"${raw}"], word.end
    value = word.text.removeprefix(quoted[1] or "")
    return [word.text for word in command_words(value, 0)[0]], word.end


def _use(variable: Variable, reference: re.Pattern[str], place: int) -> None:
    """The command that the variable is used in, if it starts anything."""
    words, end = command_at(variable.text, command_start(variable.text, place), place)
    variable.done = max(end, place + 1)
    texts = [word.text for word in words]
    if starts_nothing(texts):
        return
    around = _split_at(texts, reference)
    before, after = around or ([], [f"${variable.name}"])
    variable.uses.append(Use([*before, *variable.words, *after], list(variable.maybe), place))


def _split_at(
    words: Sequence[str], reference: re.Pattern[str], depth: int = 2
) -> tuple[list[str], list[str]] | None:
    """The words before and after the variable, in a script among the words too."""
    for i, word in enumerate(words):
        if reference.fullmatch(word):
            return list(words[:i]), list(words[i + 1 :])
        if depth and re.search(r"\s", word) and reference.search(word):
            for inner in commands(word):
                around = _split_at([item.text for item in inner], reference, depth - 1)
                if around:
                    return [*words[:i], *around[0]], around[1]
    return None


def python_use(text: str, words: Sequence[str], opening: int, end: int) -> tuple[Use, int]:
    """A list or string in code with all that is added to it, and where its expression ends."""
    added, end = _summed(text, end)
    named = variable_named(text, opening)
    if named is None:
        return Use([*words, *added], [], None), end
    name = named["name"]
    variable = Variable(text, name, named.start("name"), [*words, *added])
    again, one = re.escape(name), r"(?P<one>\.append)\("
    mention = re.compile(
        rf"(?<![\w.\"']){again}(?:[ \t]*\+=[ \t]*|[ \t]*=[ \t]*{again}[ \t]*\+[ \t]*|{one}"
        rf"|\.extend\(|(?P<other>\.(?:insert|remove|pop)\(|\[[^\]\n]{{0,200}}\][ \t]*=(?!=))"
        rf"|[ \t]*\+[ \t]*|(?P<set>[ \t]*=(?![=])))"
        rf"|(?P<unpacked>\*{again}\b[ \t]*,)"
    )
    for match in variable.mentions(mention, end):
        if match["set"]:
            if re.search(rf"\b{again}\b", _right_side(text, match.end())):
                variable.maybe.append(f"${name}")
            break
        if match["other"]:
            variable.maybe.append(f"${name}")
        else:
            variable.add(_piece(text, match, name), match.start())
    return Use(variable.words, variable.maybe, None), end


def _right_side(text: str, start: int) -> str:
    """What is assigned: the line, or the whole list that begins there."""
    value = text[start : start + MAX_VALUE]
    listed = value.find("]") if value.lstrip()[:1] == "[" else 0
    return value[: max(listed, len(value.partition("\n")[0]))]


def _piece(text: str, match: re.Match[str], name: str) -> list[str]:
    if match["unpacked"]:
        return [f"${name}"]
    if match["one"]:
        item = _STRING.match(text, match.end())
        return [item_word(item[0]) if item else f"${name}"]
    words, end = _operand(text, match.end())
    if _OR_ELSE.match(text, end):
        return ["$_"]
    return [*words, *_summed(text, end)[0]]


def _summed(text: str, end: int) -> tuple[list[str], int]:
    """What `+` adds to a list or string that ends at `end`."""
    words: list[str] = []
    for _ in range(MAX_PIECES):
        plus = _PLUS.match(text, end)
        if plus is None:
            break
        more, end = _operand(text, plus.end())
        words += ["$_"] if _OR_ELSE.match(text, end) else more
    return words, end


def strings_beside(text: str, end: int) -> tuple[list[str], int]:
    """The words of the strings that follow a string in code, which Python joins to it."""
    words: list[str] = []
    for _ in range(MAX_PIECES):
        blank = _BESIDE.match(text, end)
        string = _STRING.match(text, blank.end()) if blank else None
        if string is None or HOLDS_PROGRAM.search(string[0]):
            break
        more, end = _operand(text, string.start())
        words += more
    return words, end


def _operand(text: str, start: int) -> tuple[list[str], int]:
    """A list, a string or a name ("$name") as words, and where it ends."""
    if text[start : start + 1] == "[":
        return list_words(text, start)
    string = _STRING.match(text, start)
    if string:
        return [word.text for word in command_words(item_word(string[0]), 0)[0]], string.end()
    name = _NAME.match(text, start)
    if name is None:
        return ["$_"], start
    end = name.end()
    return [f"${name[0]}"], list_words(text, end)[1] if text[end : end + 1] == "(" else end
