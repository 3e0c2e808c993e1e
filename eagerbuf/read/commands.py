"""Which command of a text or script holds a place, and whether it starts anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagerbuf.read.text import pattern
from eagerbuf.read.tokens import Word, command_words

LOOK_BACK = 2**14  # characters before a program's name that may belong to its command
MAX_COMMANDS = 64  # of a script in quotes

_ASSIGNS = pattern(r"[A-Za-z_]\w*=")
_KEYWORDS = frozenset(
    ("!", "if", "elif", "while", "until", "then", "do", "else", "{", "(", "$", ">", "sudo", "exec")
)
_SPEAKS = frozenset(
    ("echo", "printf", "print", "grep", "egrep", "fgrep", "rg", "pgrep", "pkill", "killall", "sed")
)
_ASKS = frozenset(("test", "[", "[[", "trap", "alias", "awk"))


def command_start(text: str, position: int, look_back: int = LOOK_BACK) -> int:
    """Where the line of the command begins, lines that a backslash joins to it included."""
    floor = max(0, position - look_back)
    start = max(text.rfind("\n", floor, position) + 1, floor)
    while start > floor:
        previous = max(text.rfind("\n", floor, start - 1) + 1, floor)
        if not text[previous : start - 1].rstrip(" \t").endswith("\\"):
            break
        start = previous
    return start


def command_at(text: str, start: int, place: int) -> tuple[list[Word], int]:
    """The words of the command that holds `place`, past others before it: cd x && ..."""
    words, end = command_words(text, start)
    while end < place:
        words, end = command_words(text, end + 1)
    return words, end


def commands(script: str) -> Iterator[list[Word]]:
    """The words of each of the first `MAX_COMMANDS` commands of a script."""
    end = -1
    for _ in range(MAX_COMMANDS):
        words, end = command_words(script, end + 1)
        yield words
        if end >= len(script):
            break


def starts_nothing(words: Sequence[str]) -> bool:
    """Whether a command only speaks of another one: echo, grep, pgrep and the like."""
    named = (word for word in words if word not in _KEYWORDS and not _ASSIGNS.match(word))
    name = next(named, "").partition("(")[0].rsplit("/", 1)[-1]
    return name in _SPEAKS | _ASKS or name.startswith(("logger.", "logging."))
