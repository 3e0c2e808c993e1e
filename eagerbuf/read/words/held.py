"""What names hold at a place of a script or of code: literals, put in place where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from eagerbuf.read.text import pattern
from eagerbuf.read.words.shell import Var, Word, plain

_SPLIT = pattern(r"(?:\$\((?:[^()\n]|\([^()\n]*\))*\)|\$\{[^{}\n]*\}|`[^`\n]*`|\S)+")

MAX_NAMES = 512
MAX_VALUE = 2**14  # characters of one; more is not known
MAX_HELD = 1024  # words of a list


@dataclass(frozen=True)
class Held:
    """What a name holds: `text` where it is one string, `words` of it, or of a list.

    `maybe`: words that it holds or not, as a condition goes; `open`: what it may hold besides is
    not in the text; `exported`: commands inherit it.
    """

    words: tuple[str, ...] = ()
    text: str | None = None
    maybe: tuple[str, ...] = ()
    open: bool = False
    exported: bool = False

    @property
    def every(self) -> tuple[str, ...]:
        """All words that it may hold."""
        return (*self.words, *self.maybe)


Names = dict[str, Held]
NOT_KNOWN = Held(open=True)


def scalar(text: str) -> Held:
    """A name that holds one string."""
    if len(text) > MAX_VALUE:
        return NOT_KNOWN
    return Held(tuple(_SPLIT.findall(text) if "$" in text or "`" in text else text.split()), text)


def either(one: Held | None, other: Held | None) -> Held:
    """What a name holds after two branches, one of which ran."""
    if one == other:
        return one or NOT_KNOWN
    if one is None or other is None:
        held = one or other or NOT_KNOWN
        return Held(maybe=held.every, open=True, exported=held.exported)
    exported = one.exported and other.exported
    if one.every == other.every and not (one.open or other.open):
        return replace(one, exported=exported)
    short, long = sorted((one, other), key=lambda held: len(held.words))
    same = long.words[: len(short.words)] == short.words and short.words
    sure = short.words if same else ()
    maybe = (*short.every[len(sure) :], *long.every[len(sure) :])
    return Held(sure, None, maybe, one.open or other.open, exported)


def merged(branches: Iterable[Names]) -> Names:
    """The names after branches of which one ran."""
    first, *others = branches
    for other in others:
        if first is not other:
            first = {n: either(first.get(n), other.get(n)) for n in {**first, **other}}
    return first


def put(names: Names, name: str, held: Held) -> None:
    """Let a name hold something; past `MAX_NAMES` only those that are there already."""
    if name in names or len(names) < MAX_NAMES:
        names[name] = held if len(held.words) + len(held.maybe) <= MAX_HELD else NOT_KNOWN


def in_place(word: Word, names: Names, made: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The words that a word stands for, and those it may stand for; what is not known stays.

    `made`: names for $(NAME), which make and Kubernetes replace.
    """
    if len(word.parts) == 1 and isinstance(word.parts[0], Var):
        found = _alone(word.parts[0], names)
        if found is not None:
            return found
    parts = [part if isinstance(part, str) else _within(part, names, made) for part in word.parts]
    return ["".join(parts)], []


def _alone(var: Var, names: Names) -> tuple[list[str], list[str]] | None:
    """The words of a variable that stands alone, which may be several, or none."""
    held = names.get(var.name)
    if held is None or var.made or (var.quoted and not var.every):
        return None
    if not var.every and held.text is None and not held.maybe:
        return None  # an array's first item
    if not held.words and held.maybe and not held.maybe[0].startswith("-"):
        return None  # one value or another
    return [*held.words, *([var.raw] if held.open else [])], list(held.maybe)


def _within(var: Var, names: Names, made: Mapping[str, str]) -> str:
    if var.made:
        return made.get(var.name, var.raw)
    held = names.get(var.name)
    if held is None or held.text is None or held.open or held.maybe or var.every:
        return var.raw
    return held.text


def exported(names: Names) -> dict[str, str]:
    """The variables that a command inherits, where their values are known."""
    return {
        name: plain(held.text)
        for name, held in names.items()
        if held.exported and held.text is not None and "$" not in held.text and not held.open
    }
