"""Shell text cut into words the way a shell would, without expanding or running anything.

More forgiving than a shell where people's pastes are: continuations may lack their backslash or
the blank before it, and a terminal may have broken a word over two lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from eagerbuf.read.options import begins_option, is_option
from eagerbuf.read.text import pattern

MAX_COMMAND = 2**18  # characters of one command
MAX_WORDS = 4096
MAX_LINE = 1000  # characters of a line that may be prose
MAX_MENDED = 64  # words that a line break may have cut

_PART = r"""(?:
    \\[^\n] | '[^']*' | "(?:\\.|[^"\\])*"
  | \$\((?:[^()\n]|\([^()\n]*\))*\) | \$\{(?:[^{}\n]|\{[^{}\n]*\})*\} | \{\{[^{}\n]*\}\}
  | \{%[^%\n]*%\} | `[^`\n]*`
  | <[A-Za-z_][^<>\n]{0,80}>
  | [^\s'"\\;|&<>`]
)"""
_TOKEN = pattern(
    rf"""
    (?P<more>[ \t]*[\\^`][ \t]*(?:\n|$))
  | (?P<blank>[ \t\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>\#[^\n]*)
  | (?P<redirect>(?!<[A-Za-z_][^<>\n]{{0,80}}>)(?:&|\d)?[<>]{{1,2}}(?:&\d)?)
  | (?P<end>&&|\|\||[;|&])
  | (?P<word>{_PART}+)
  | (?P<stray>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNQUOTE = pattern(
    r"""\$\((?:[^()\n]|\([^()\n]*\))*\)|`[^`\n]*`|'(?P<single>[^']*)'|"""
    r""""(?P<double>(?:\\.|[^"\\])*)"|\\(?P<char>[^\n])""",
    re.DOTALL,
)
_NEXT_FLAG = pattern(r"(?:[ \t]*(?:\#[^\n]*)?\n)*[ \t]*(?=--?[A-Za-z])|[ \t]*(?=[\u2013\u2014])")
_DASHES = pattern(r"^(?:[\u2012-\u2015]-?|-[\u2012-\u2015])(?=[A-Za-z])")
_STARTS_COMMAND = pattern(
    r"[$>|\[(]|[A-Z_][A-Z0-9_]*=|(?:[\w./-]*/)?(?:python[\d.]*|docker|podman|sglang|export|env|sudo"
    r"|nohup|curl|wget|echo|bash|sh|cd|ssh|srun|ray|torchrun|mpirun|vllm|pip|uv|git|kubectl|helm)\b"
)
_STRING = pattern(r"'[^']*'|\"[^\"]*\"")
FULL_LINE = 60  # a line at least this long may have been broken by a terminal


class Word(NamedTuple):
    """A word as the program would get it, and where its raw text lies."""

    text: str
    start: int
    end: int


def unquote(raw: str) -> str:
    """The word without its quotes and escapes; `$(...)` and backquotes stay as they are."""
    return _DASHES.sub("--", _UNQUOTE.sub(_unquoted, raw))


def _unquoted(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return match["single"]
    if match["double"] is not None:
        return re.sub(r"\\(\n|[\"\\$`])", lambda m: m[1].strip("\n"), match["double"])
    return match[0] if match["char"] is None else match["char"]


def _flags_and_values(words: list[str]) -> bool:
    """Whether words are the rest of a value, then flags and their values, and no prose."""
    runs: list[list[str]] = [[]]
    for word in words:
        if not word.startswith("--"):
            runs[-1].append(word)
        elif begins_option(word.partition("=")[0]):
            runs.append([word] if "=" in word else [])
        else:
            return False
    rest, *values = runs
    alone = all(len(run) <= 1 or all(word.isdigit() for word in run) for run in values)
    return bool(values) and len(rest) <= 2 and alone


def command_words(text: str, start: int) -> tuple[list[Word], int]:
    """The words of the command that begins at `start`, and where it ends in `text`.

    It ends where a shell would end it, except that lines beginning with a flag, and lines that a
    terminal broke off, belong to it too. ValueError if it is longer than `MAX_COMMAND` characters
    or `MAX_WORDS` words.
    """
    return _Reader(text[start : start + MAX_COMMAND + 1], start).read()


class _Reader:
    """One command being read; a repaired line break shifts what follows it."""

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        self.offset = offset  # of `text` in the whole text
        self.words: list[Word] = []
        self.pos = 0
        self.skip_next = False
        self.mended = 0

    def read(self) -> tuple[list[Word], int]:
        """The words of the command, and where in the whole text it ends."""
        while self.pos < len(self.text):
            match = _TOKEN.match(self.text, self.pos)
            assert match is not None  # the last alternative takes any character
            if match.lastgroup == "end" or not self.take(match):
                break
            if len(self.words) > MAX_WORDS or self.pos > MAX_COMMAND:
                raise ValueError(
                    f"launch command: over {MAX_WORDS} words or {MAX_COMMAND} characters; "
                    "give the command alone"
                )
        return self.words, self.offset + self.pos

    def take(self, match: re.Match[str]) -> bool:
        """Add what was matched; False where the command ends before it."""
        if match.lastgroup == "newline":
            return self.next_line(match.start())
        if match.lastgroup == "more":
            return self.continued(match)
        if match.lastgroup == "redirect":
            self.skip_next = "&" not in match[0][1:]
        elif match.lastgroup == "word":
            self.add(match)
        self.pos = match.end()
        return True

    def add(self, match: re.Match[str]) -> None:
        if self.skip_next:
            self.skip_next = False
            return
        start, end = match.start() + self.offset, match.end() + self.offset
        self.words.append(Word(unquote(match[0]), start, end))

    def continued(self, match: re.Match[str]) -> bool:
        """After a backslash at a line's end: the next line, unless it is blank or a new command."""
        rest = self.text[match.end() : match.end() + 200].split("\n", 1)[0]
        glued = match[0][0] in " \t" or rest[:1] in (" ", "\t", "-", "")
        if not glued and self.words and not _STARTS_COMMAND.match(rest):
            return self.rejoin(match.start(), match.end())
        if self.has_flags and _STARTS_COMMAND.match(rest.lstrip()):
            return False
        self.pos = match.end()
        return bool(rest.strip()) or self.flag_follows()

    @property
    def has_flags(self) -> bool:
        return any(word.text.startswith("--") for word in self.words)

    def flag_follows(self, *, past_blank: bool = True) -> bool:
        """Whether a flag comes next; `past_blank`: past a blank line even one in prose."""
        match = _NEXT_FLAG.match(self.text, self.pos)
        if match is None:
            return False
        if not past_blank and re.search(r"^[ \t]*\n", match[0], re.MULTILINE):
            line = self.text[match.end() : match.end() + MAX_LINE].split("\n", 1)[0]
            if not _flags_and_values(_STRING.sub("x", line.rstrip(" \t\\&")).split()):
                return False
        self.pos = match.end()
        return True

    def next_line(self, newline: int) -> bool:
        """Whether the line after `newline` still belongs to the command."""
        end = self.text.find("\n", newline + 1)
        line = self.text[newline + 1 : end if end >= 0 else len(self.text)]
        if self.words and self.breaks_a_flag(line, newline):
            return self.rejoin(newline, newline + 1)
        self.pos = newline + 1
        if self.flag_follows(past_blank=False):
            return True
        if self.words and self.broken_off(line, newline):
            return self.rejoin(newline, newline + 1)
        self.pos = newline
        return False

    def breaks_a_flag(self, line: str, newline: int) -> bool:
        """Whether a flag began before `newline` and ends in `line`."""
        last = self.words[-1]
        if last.end - self.offset != newline or not last.text.startswith("-") or not line:
            return False
        first = re.split(r"[\s=]", line, maxsplit=1)[0]
        return bool(first) and (last.text in ("-", "--") or is_option(last.text + first))

    def broken_off(self, line: str, newline: int) -> bool:
        """Whether a terminal broke the line before `newline`, so that `line` goes on with it."""
        if not line.strip() or line[0] == "#" or _STARTS_COMMAND.match(line.lstrip()):
            return False
        if newline - (self.text.rfind("\n", 0, newline) + 1) < FULL_LINE:
            return False
        if line.strip().isdigit() and self.words[-1].text[-1:].isdigit():
            return True
        return _flags_and_values(_STRING.sub("x", line).split())

    def rejoin(self, cut: int, resume: int) -> bool:
        """Take the break between `cut` and `resume` out, reading the word before it again."""
        self.mended += 1
        if self.mended > MAX_MENDED:
            self.pos = cut
            return False
        last = self.words[-1]
        joined = last.text + re.split(r"[\s=]", self.text[resume : resume + 200], maxsplit=1)[0]
        flag = is_option(last.text) or (begins_option(last.text) and not begins_option(joined))
        whole = last.end - self.offset == cut and not flag
        if whole:
            self.words.pop()
            self.pos = last.start - self.offset
        else:
            self.pos = cut
        blank = "" if whole else " "
        self.text = self.text[:cut] + blank + self.text[resume:]
        return True
