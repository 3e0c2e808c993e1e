"""Shell text cut into commands: quotes, comments, continuations, here-documents; nothing expanded.

A shell's own rules, with three allowances for what pastes lose: a blank behind a backslash, the
blank before one, and the backslash itself where the next line holds nothing but flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from eagerbuf.read.options import begins_option
from eagerbuf.read.text import pattern

MAX_WORDS = 4096  # of one command
MAX_ARRAYS = 256  # that are looked into
LITERAL = {"$": "\ue000", "`": "\ue001"}  # such signs where quotes take their meaning away

_INNER = r"\$\((?:[^()\n]|\([^()\n]*\))*\)"
_PARTS = pattern(
    rf"""
    (?P<more>\\[ \t]*\n) | \\(?P<escaped>.)
  | \$?'(?P<single>[^']*)' | \$?(?P<double>")
  | (?P<var>\$\(\((?:[^()\n]|\([^()\n]*\))*\)\) | {_INNER} | `[^`\n]*`
      | \$\{{(?:[^{{}}\n]|\{{[^{{}}\n]*\}})*\}} | \$(?:env:)?[A-Za-z_]\w* | \$[0-9@*#?$!-])
  | (?P<plain>\{{\{{[^{{}}\n]*\}}\}} | \{{%[^%\n]*%\}} | <[A-Za-z_](?:[^<>\n]{{0,80}}[^<>\s])?>
      | (?:(?!\{{[{{%])[^\s'"\\$`;&|<>()])+ | [$`{{])
  | (?P<odd>['"\\])
    """,
    re.VERBOSE | re.DOTALL,
)
_TO_CLOSING = pattern(rf"\\.|{_INNER}|[^\"\\$]+|\$", re.DOTALL)
_BETWEEN = pattern(
    r"""(?P<blank>[ \t\f\v]+ | \\[ \t]*\n | (?<=[ \t])[\^`][ \t]*\n) | (?P<comment>\#[^\n]*)
  | (?P<here>\d?<<-?[ \t]*(?P<mark>["']?)(?P<end>\w+)(?P=mark))
  | (?P<redirect>(?!<[A-Za-z_](?:[^<>\n]{0,80}[^<>\s])?>)
      [\d&]?(?:<<<|>>|<>|>\||[<>])(?P<dup>&[\d-]*)?)
  | (?P<op>&&|\|\||;;&?|\|&|[;&|()\n])""",
    re.VERBOSE,
)
_NAME = pattern(r"\$\{?(?P<name>[A-Za-z_]\w*)(?P<list>\[@\])?\}?|\$\((?P<made>[A-Za-z_]\w*)\)")
_ASSIGNS = pattern(r"[A-Za-z_]\w*\+?=$")
_FUNCTION = pattern(r"[ \t]*\([ \t]*\)")
_FLAG_LINE = pattern(r"[ \t]*(?=--?[A-Za-z])([^\n]*)")
_STRING = pattern(r"'[^']*'|\"[^\"\n]*\"")


class Var(NamedTuple):
    """Something a shell would expand: as written, its name if it is just one; `quoted` or not.

    `every`: all items of an array, "${X[@]}"; `made`: written $(X), as make and Kubernetes have it.
    """

    raw: str
    name: str = ""
    quoted: bool = False
    every: bool = False
    made: bool = False


@dataclass
class Word:
    """A word: literal parts, variables, and the words of an array that is assigned."""

    start: int
    parts: list[str | Var] = field(default_factory=list)
    array: list[Word] | None = None
    quoted: bool = False

    @property
    def text(self) -> str:
        """The word with its variables as written."""
        if len(self.parts) == 1 and isinstance(self.parts[0], str):  # nearly all words
            return plain(self.parts[0])
        return plain("".join(part if isinstance(part, str) else part.raw for part in self.parts))


class Here(NamedTuple):
    """A here-document: its text, whether a shell expands it, and the line where it begins."""

    body: str
    expands: bool
    start: int


@dataclass
class Command:
    """A simple command, what ends it ("&&", "|", "\\n", "()" of a function's name), and remarks.

    `files`: what it redirects to; `caller`: the word that a bracket before it follows, as in code;
    `cut`: what ended it although a backslash stood before; `odd`: a quote that nothing closes;
    `joined`: lines of flags that no backslash joins belong to it.
    """

    words: list[Word] = field(default_factory=list)
    op: str = ""
    files: list[str] = field(default_factory=list)
    here: list[Here] = field(default_factory=list)
    cut: str = ""
    odd: bool = False
    joined: bool = False
    end: int = 0
    caller: str = ""


def plain(text: str) -> str:
    """The text with the signs that `LITERAL` stands for."""
    if not text.isascii():
        for sign, stand_in in LITERAL.items():
            text = text.replace(stand_in, sign)
    return text


def commands(text: str) -> Iterator[Command]:
    """Every simple command of a script, in order; ValueError for one of over `MAX_WORDS` words."""
    return _Lexer(text).commands()


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text, self.pos = text, 0
        self.pending: list[tuple[str, bool, Command]] = []
        self.unclosed = False  # no double quote is closed any more
        self.never: set[str] = set()  # ends of here-documents that do not come any more
        self.arrays = MAX_ARRAYS

    def commands(self) -> Iterator[Command]:
        while self.pos < len(self.text):
            yield self.command()

    def command(self) -> Command:
        """The next command; its end may be the text's."""
        found, target, more = Command(), False, 0
        while self.pos < len(self.text):
            match = _BETWEEN.match(self.text, self.pos)
            if match is None:
                word = self.word(found)
                more = 0
                if target:
                    found.files.append(word.text)
                else:
                    found.words.append(word)
                target = False
                if len(found.words) > MAX_WORDS:
                    raise ValueError(f"a command: over {MAX_WORDS} words; give the command alone")
                continue
            self.pos = match.end()
            if match.lastgroup == "blank":
                more = match.end() if "\n" in match[0] else more
            elif match.lastgroup == "comment":
                found.cut = "a comment" if more else ""
            elif match.lastgroup == "redirect" or match["here"]:
                target = self.redirects(match, found)
            elif match["op"] == "(" and self.names_function(found):
                return found
            elif match["op"] != "\n" or not self.goes_on(found, more):
                found.op = match["op"]
                if found.op == "\n" and more and not found.cut:
                    found.cut = "a blank line"
                break
        found.end = self.pos
        self.documents(found.op)
        return found

    def names_function(self, found: Command) -> bool:
        closed = _FUNCTION.match(self.text, self.pos - 1)
        if not closed or len(found.words) not in (1, 2):
            return False
        self.pos, found.op = closed.end(), "()"
        return True

    def redirects(self, match: re.Match[str], found: Command) -> bool:
        """Whether the next word is the file that is redirected to."""
        if match["here"]:
            self.pending.append((match["end"], not match["mark"], found))
        return match.lastgroup == "redirect" and not match["dup"]

    def documents(self, op: str) -> None:
        """Take the here-documents that begin behind this line's end."""
        if op != "\n":
            return
        for end, expands, command in self.pending:
            closing = re.compile(rf"^[ \t]*{end}[ \t]*$", re.MULTILINE)
            match = None if end in self.never else closing.search(self.text, self.pos)
            if match is None:
                self.never.add(end)
            else:
                body = self.text[self.pos : match.start()]
                command.here.append(Here(body, expands, self.pos))
                self.pos = match.end()
        self.pending = []

    def goes_on(self, found: Command, more: int) -> bool:
        """Whether the next line is flags that lost the backslash before them."""
        line = _FLAG_LINE.match(self.text, self.pos)
        if line is None or more or found.cut or not found.words or self.pending:
            return False
        of_flags = any(word.text.startswith("--") for word in found.words)
        if not (of_flags or any(_program(word.text) for word in found.words)):
            return False
        found.joined = flags_and_values(line[1].rstrip(" \t\\&"), 0)
        return found.joined

    def word(self, found: Command) -> Word:
        """The word that begins here."""
        word = Word(self.pos)
        while self.pos < len(self.text):
            match = _PARTS.match(self.text, self.pos)
            if match is None or not self.part(match, word, found):
                break
        return word

    def part(self, match: re.Match[str], word: Word, found: Command) -> bool:
        """Add a part; False where the word ends before it."""
        kind = match.lastgroup
        if kind == "more":
            self.pos = match.end() if self.text[match.end() : match.end() + 1] != "-" else self.pos
            return self.pos == match.end() and match[0] == "\\\n"
        if kind == "plain" and match[0][-1] == "=" and _ASSIGNS.fullmatch(match[0]):
            return self.assigned(match, word, found)
        closing = self.closing(match.end()) if kind == "double" else match.end()
        if kind in ("single", "odd", "double") and self.apostrophe(match, closing, found):
            self.pos = match.end() if kind == "double" else match.start() + 1
            word.parts.append(self.text[match.start() : self.pos])
            return True
        found.odd |= match[0] == "`"
        word.quoted |= kind in ("single", "double")
        inner = self.text[match.end() : closing - 1]
        word.parts += _double(inner) if kind == "double" else _part(match, kind)
        self.pos = closing
        return True

    def closing(self, pos: int) -> int:
        """Where a double-quoted string ends that begins before `pos`; 0 if nothing closes it."""
        while not self.unclosed and self.text[pos : pos + 1] != '"':
            match = _TO_CLOSING.match(self.text, pos)
            self.unclosed = match is None
            pos = match.end() if match else pos
        return 0 if self.unclosed else pos + 1

    def apostrophe(self, match: re.Match[str], closing: int, found: Command) -> bool:
        """Whether a quote is one of prose (it's), or closed by nothing."""
        in_word = self.pos > 0 and self.text[self.pos - 1].isalnum()
        prose = match.lastgroup == "single" and in_word and "\n" in match[0]
        odd = match.lastgroup == "odd" or prose or not closing
        found.odd |= odd
        return odd

    def assigned(self, match: re.Match[str], word: Word, found: Command) -> bool:
        """A name that is assigned: an array in brackets, or the word goes on."""
        word.parts.append(match[0])
        self.pos = match.end()
        if self.text[self.pos : self.pos + 1] != "(" or len(word.parts) > 1 or self.arrays <= 0:
            return True
        self.pos += 1
        self.arrays, left = 0, self.arrays - 1  # no array in an array
        start, word.array = self.pos, []
        while self.pos < len(self.text) and len(word.array) <= MAX_WORDS:
            between = _BETWEEN.match(self.text, self.pos)
            if between is None:
                word.array.append(self.word(found))
            elif between["op"] in (None, "\n") and between.lastgroup != "redirect":
                self.pos = between.end()
            else:
                break
        self.arrays = left
        if self.text[self.pos : self.pos + 1] == ")":
            self.pos += 1
        else:
            self.pos, word.array, found.odd = start, None, True
        return False


def _part(match: re.Match[str], kind: str | None) -> list[str | Var]:
    if kind == "var":
        return [_var(match[0], quoted=False)]
    text = match["escaped"] if kind == "escaped" else match["single"]
    return [match[0]] if text is None else [_literal(text)]


def _literal(text: str) -> str:
    for sign, stand_in in LITERAL.items():
        text = text.replace(sign, stand_in)
    return text


def _var(raw: str, *, quoted: bool) -> Var:
    name = _NAME.fullmatch(raw)
    if name is None:
        return Var(raw, quoted=quoted)
    made = name["made"]
    return Var(raw, made or name["name"], quoted, bool(name["list"]), bool(made))


def _double(text: str) -> list[str | Var]:
    """The parts of a double-quoted string."""
    parts: list[str | Var] = [""]  # an empty word is one
    end = 0
    for match in _IN_DOUBLE.finditer(text):
        parts.append(text[end : match.start()])
        if match["var"]:
            parts.append(_var(match[0], quoted=True))
        elif match[0] != "\\\n":
            parts.append(_literal(match[0][1:]))
        end = match.end()
    return [part for part in (*parts, text[end:]) if part] or [""]


_IN_DOUBLE = pattern(
    rf"\\[\"\\$`\n]|(?P<var>{_INNER}|`[^`\n]*`|\$\{{(?:[^{{}}\n]|\{{[^{{}}\n]*\}})*\}}"
    r"|\$[A-Za-z_]\w*|\$[0-9@*#?$!-])"
)


def _program(word: str) -> bool:
    return "launch_server" in word or "one_batch" in word or word == "serve"


def flags_and_values(line: str, rest: int = 2) -> bool:
    """Whether a line is the rest of a value (`rest` words), then flags and values, and no prose."""
    runs: list[list[str]] = [[]]
    for word in _STRING.sub("x", line).split():
        if not word.startswith("--"):
            runs[-1].append(word)
        elif begins_option(word.partition("=")[0]):
            runs.append([word] if "=" in word else [])
        else:
            return False
    first, *values = runs
    alone = all(len(run) <= 1 or all(word.isdigit() for word in run) for run in values)
    return bool(values) and len(first) <= rest and alone
