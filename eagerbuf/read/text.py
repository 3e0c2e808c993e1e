"""Pasted text made plain (bounded, no colours), and log records put together again."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

MAX_CHARACTERS = 64 * 2**20  # of one text; far over any real log excerpt
SHOWN = 160  # characters of a value that a message may show


class _Lazy:
    """A pattern that is compiled when it is first used: most texts need few of them."""

    def __init__(self, source: str, flags: int) -> None:
        self.source, self.flags = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.source, self.flags)
        for method in ("match", "fullmatch", "search", "finditer", "findall", "sub"):
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but compiled when first used."""
    return cast("re.Pattern[str]", _Lazy(source, flags))


def of_words(text: str) -> frozenset[str]:
    """A set of names, written as a line of them."""
    return frozenset(text.split())


_COLOUR = pattern(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NO_CHARACTER = pattern(r"[\ud800-\udfff]")
_DASHES = pattern(r"(?<!\S)(?:[\u2012-\u2015]-?|-[\u2012-\u2015])(?=[A-Za-z])")
_BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000"
_NOTHING = "\u200b\u200c\u200d\u2060\ufeff\x00"
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}

# What collectors put before each line: time stamps, streams, pods and containers, processes.
COLLECTOR = pattern(
    r"""(?:
        \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ \t]+
      | [A-Z][a-z]{2}[ ]+\d{1,2}[ ]\d\d:\d\d:\d\d[ ]\S+[ ]\S+:[ \t]
      | std(?:out|err)[ \t]+[FP][ \t]
      | \[(?P<pod>(?:pod|container)/[^\]\n]{1,200})\][ \t]
      | \([^()\n]{1,60}\bpid=\d+[^()\n]{0,60}\)[ \t]*
      | (?P<compose>[\w./-]{1,80})[ \t]+\|[ \t]
    ){1,4}""",
    re.VERBOSE,
)
# What SGLang's own logging puts before each message: [time and rank tags].
RECORD = pattern(
    r"\[(?P<time>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?)?[ ]?(?P<tags>[^\]\n]{0,80})\][ ]"
)


def plain(text: str) -> str:
    """The text with "\\n" newlines, plain blanks and quotes, and no terminal colours.

    ValueError if it is not a str, is empty or holds more than `MAX_CHARACTERS`.
    """
    if not isinstance(text, str):
        raise ValueError(f"text: give a str, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"text: {len(text)} characters; give at most {MAX_CHARACTERS}")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if "\x00" in text or not text.isascii():
        text = _ascii_look(text)
    if not text.strip():
        raise ValueError("text: it is empty; give a launch command, a config or a start-up log")
    return text


def _ascii_look(text: str) -> str:
    for character in _BLANKS:
        text = text.replace(character, " ")
    for character in _NOTHING:
        text = text.replace(character, "")
    for fancy, quote in _QUOTES.items():
        text = text.replace(fancy, quote)
    text = _DASHES.sub("--", text)
    return _NO_CHARACTER.sub("?", text)


def places(text: str, *needles: str) -> list[int]:
    """Positions of the needles in a text, in order (str.find is far faster than a regex)."""
    found: list[int] = []
    for needle in needles:
        position = text.find(needle)
        while position >= 0:
            found.append(position)
            position = text.find(needle, position + len(needle))
    return sorted(found)


def broken_places(text: str, *needles: str) -> list[int]:
    """As `places`, and also where a terminal broke a needle over two lines.

    One pass over the newlines: a pass for every place where a needle may break took longer.
    """
    halves: dict[str, list[tuple[str, str]]] = {}
    for word in needles:
        for i in range(1, len(word)):
            halves.setdefault(word[i], []).append((word[:i], word[i:]))
    found = places(text, *needles)
    for newline in re.finditer(rf"\n(?=[{re.escape(''.join(halves))}])", text):
        at = newline.start()
        for head, tail in halves[text[at + 1]]:
            if text.startswith(tail, at + 1) and text.endswith(head, 0, at):
                found.append(at - len(head))
    return sorted(found)


def breakable(word: str) -> str:
    """A regex for a word that may be broken over two lines."""
    return r"\n?".join(map(re.escape, word))


def shown(value: object) -> str:
    """A value as a message may show it: one line, not too long, signs for terminals escaped."""
    text = " ".join(str(value).split())
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def starts_message(line: str) -> bool:
    """Whether a line begins a new log record."""
    match = RECORD.match(line)
    return bool(match and (match["time"] or rank_tags(match["tags"])))


@lru_cache(maxsize=256)
def rank_tags(tags: str) -> bool:
    """Whether the words in brackets are rank tags such as "DP0 TP0" (or the old "gpu=0")."""
    return bool(re.fullmatch(r"(?:[A-Z_]{2,8}\d+|gpu=\d+)(?: [A-Z_]{2,8}\d+)*", tags))


def record_from(text: str, start: int, limit: int) -> tuple[str, int]:
    """The log message that begins at `start`, put together again, and where it ends in `text`.

    A message that a terminal or a collector split goes on in the next lines until one begins a
    new record, is blank, or `limit` characters are read; its newlines go.
    """
    stop = min(len(text), start + limit)
    end = _line_end(text, start, stop)
    parts = [text[start:end]]
    while end < stop:
        line_stop = _line_end(text, end + 1, stop)
        line = text[end + 1 : line_stop]
        if not line.strip() or starts_message(line):
            break
        parts.append(line)
        end = line_stop
    return "".join(parts), end


def _line_end(text: str, start: int, stop: int) -> int:
    end = text.find("\n", start, stop)
    return stop if end < 0 else end
