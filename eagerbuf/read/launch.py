"""Launch: one way the engine is started, from the words of its command and what is around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eagerbuf.read.options import names_sizing
from eagerbuf.read.text import pattern

HOLDS_PROGRAM = pattern(r"launch_server|one_batch|sglang\s+serve")

_SERVER = pattern(
    r"(?:\S*/)?(?:sglang(?:_router)?[./](?:srt[./])?)?"
    r"(?:launch_server|bench_one_batch_server|bench_offline_throughput)(?:\.py)?"
)
_BENCH = pattern(r"(?:\S*/)?(?:sglang[./])?(?:benchmark[./])?(?:bench_)?one_batch(?:\.py)?")
_OWN_FLAGS = pattern(r"router|bench_one_batch_server|bench_offline_throughput")
_IMAGE = pattern(r"sglang[\w./-]{0,80}:([\w.-]{1,80})")
_ANY_IMAGE = pattern(r"(?:sglang|sgl-dev)[\w./-]{0,80}:([\w.-]{1,80})")
_TELLING_TAG = pattern(r"\d+\.\d+\.\d|^(?:dev|nightly)\b")
_TAG_RELEASE = pattern(r"(?<![\d.])v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?![\w.])")
_PINNED = pattern(r"sglang(?:\[[\w,-]*\])?==(\d+\.\d+\.\d+(?:\.post\d+)?)(?![\w.])")
_BEGINS = pattern(r"--|\{[{%]-?[ ]*(?:if|for|unless|with|range|toYaml|include|tpl)\b")
_MODEL = pattern(r"[\w./~<]")
_VARIABLE = pattern(r"(?:--env=|-e)?(SGLANG_\w+)=(.*)", re.DOTALL)

MAX_TAGS = 4  # that are told


@dataclass(frozen=True)
class Launch:
    """One way the engine is started: the words after the program's name, and what is around it.

    `env`: SGLANG_ variables; `release`: what an image's tag names; `named`: whether the program is;
    `strict`: whether it refuses every flag that the server and `bench_one_batch` do not have;
    `place`: where in the text the program's name is; `container`: the name of its container;
    `maybe`: words that a condition adds, or not; `mentioned`: in a comment, an echo or the like;
    `open`: fields that code gives as a variable or an expression.
    """

    argv: tuple[str, ...]
    bench: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    release: str | None = None
    named: bool = True
    strict: bool = True
    place: int | None = None
    container: str = ""
    maybe: tuple[str, ...] = ()
    mentioned: bool = False
    open: tuple[str, ...] = ()

    @property
    def has_flags(self) -> bool:
        """Whether any flag stands there (prose that mentions the program has none)."""
        return any(word.startswith("--") for word in self.argv)


def program_end(words: Sequence[str]) -> tuple[int, bool] | None:
    """Where the arguments begin after the program's name, and whether it is the benchmark."""
    for i, word in enumerate(words):
        if _BENCH.fullmatch(word):
            return i + 1, True
        if _SERVER.fullmatch(word):
            return i + 1, False
        if word.rsplit("/", 1)[-1] == "sglang" and words[i + 1 : i + 2] == ["serve"]:
            return i + 2, False
    return None


def from_words(words: Sequence[str], *, ours: bool = False) -> Launch | None:
    """The launch in a list of words; None if they name no program of SGLang's.

    `ours`: the words go to SGLang anyway (its image is named), so flags alone will do; otherwise
    flags alone do only where nothing stands before them.
    """
    words = list(words)
    place = program_end(words)
    if place is not None:
        env = dict(variables(words[: place[0]]))
        rest = _without_model_type(words[place[0] :])
        if words[place[0] - 1] == "serve" and rest and _MODEL.match(rest[0]):
            rest.insert(0, "--model-path")  # as it does itself, from 0.5.16 on
        strict = not _OWN_FLAGS.search(words[place[0] - 1])
        release = tag_release(words[: place[0]])
        return Launch(tuple(rest), place[1], env, release, strict=strict)
    first = next((i for i, word in enumerate(words) if _BEGINS.match(word)), len(words))
    before = words[:first]
    if "-m" in before or any("router" in word for word in before):
        return None  # another program
    if not (ours or first == 0) or not any(map(names_sizing, words)):
        return None
    env = dict(variables(before))
    return Launch(tuple(words[first:]), False, env, tag_release(before), named=False)


def _without_model_type(words: list[str]) -> list[str]:
    """`sglang serve` takes `--model-type` out before the server's own flags are read."""
    if "--model-type" in words:
        place = words.index("--model-type")
        words = words[:place] + words[place + 2 :]
    return [word for word in words if not word.startswith("--model-type=")]


def within(inner: Launch, around: Launch) -> Launch:
    """The launch with what surrounds it: variables and an image."""
    env = {**around.env, **inner.env}
    release, container = inner.release or around.release, inner.container or around.container
    return replace(inner, env=env, release=release, container=container)


def tag_release(words: Iterable[str]) -> str | None:
    """The release that the tag of an SGLang image names, if one of the words is such an image."""
    for word in words:
        image = _IMAGE.search(word)
        named = image and _TAG_RELEASE.search(image[1].replace("_", "-"))
        if named:
            return named[1]
    return None


def named_releases(text: str) -> list[str]:
    """Releases that a text names: tags of SGLang's images, pinned versions of its package."""
    tags = {tag_release([match[0]]) for match in _IMAGE.finditer(text)} - {None}
    return sorted({str(tag) for tag in tags} | set(_PINNED.findall(text)))


def unread_tags(text: str) -> list[str]:
    """Tags of SGLang's images that look like a release or a development version, but name none."""
    tags = dict.fromkeys(match[1] for match in _ANY_IMAGE.finditer(text))
    return [tag for tag in tags if _TELLING_TAG.search(tag)][:MAX_TAGS]


def variables(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """SGLANG_ variables assigned in a command: prefixes, `env`, and docker's -e and --env."""
    for word in words:
        match = _VARIABLE.fullmatch(word)
        if match:
            yield match[1], match[2]
