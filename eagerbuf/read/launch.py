"""Launch: one way the engine is started, from the words of its command and what is around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eagerbuf.read.options import MODEL, is_option, names_sizing
from eagerbuf.read.text import pattern

HOLDS_PROGRAM = pattern(
    r"launch_server\b|one_batch(?:_server)?\b|bench_offline_throughput\b|sglang\s+serve\b"
)

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
_MODEL = pattern(r"[\w./~<$]")
_VARIABLE = pattern(r"(?:--env=|-e)?(SGLANG_\w+)=(.*)")

MAX_TAGS = 4  # that are told
SURE, TOLD, BARE = 0, 1, 2  # a command; one that is only written about; flags alone


@dataclass(frozen=True)
class Launch:
    """One way the engine is started: the words after the program's name, and what is around it.

    `env`: SGLANG_ variables; `release`: what an image's tag names; `rank`: `SURE`, `TOLD` or
    `BARE`; `strict`: whether it refuses every flag that the server and `bench_one_batch` do not
    have; `line` of the text; `name`: its role, service or container; `maybe`: words that a
    condition adds, or not; `open`: fields that code gives as a variable or an expression;
    `problem`: why its words cannot be taken; `hidden`: why there may be more flags than these.
    """

    argv: tuple[str, ...]
    bench: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    release: str | None = None
    rank: int = SURE
    strict: bool = True
    line: int = 0
    name: str = ""
    maybe: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""
    hidden: str = ""

    @property
    def has_flags(self) -> bool:
        """Whether any flag stands there (prose that mentions the program has none)."""
        return any(word.startswith("--") for word in (*self.argv, *self.maybe)) or bool(self.open)

    @property
    def sizes(self) -> bool:
        """Whether anything in it concerns sizing, or may: a variable, a config file."""
        words = (*self.argv, *self.maybe)
        return bool(self.open) or any(names_sizing(word) and not _model(word) for word in words)


def _model(word: str) -> bool:
    return word.partition("=")[0].lstrip("-").replace("-", "_") in MODEL


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
        named = any(word.partition("=")[0] in ("--model-path", "--model") for word in rest)
        if words[place[0] - 1] == "serve" and rest and not named and _MODEL.match(rest[0]):
            rest.insert(0, "--model-path")  # as it does itself, from 0.5.16 on
        strict = not _OWN_FLAGS.search(words[place[0] - 1])
        if not strict and any(word.startswith("--base-url") for word in rest):
            return None  # a client of a server that runs already
        release = tag_release(words[: place[0]])
        return Launch(tuple(rest), place[1], env, release, strict=strict)
    first = next((i for i, word in enumerate(words) if _BEGINS.match(word)), len(words))
    before = words[:first]
    if "-m" in before or any("router" in word for word in before):
        return None  # another program
    if not (ours or (first == 0 and words and _begins(words))) or not any(map(names_sizing, words)):
        return None
    env = dict(variables(before))
    return Launch(tuple(words[first:]), False, env, tag_release(before), rank=BARE)


def _begins(words: Sequence[str]) -> bool:
    return words[0][:1] == "{" or names_sizing(words[0]) or is_option(words[0].split(" ")[0])


def _without_model_type(words: list[str]) -> list[str]:
    """`sglang serve` takes `--model-type` out before the server's own flags are read."""
    if "--model-type" in words[:-1]:
        place = words.index("--model-type")
        if words[place + 1] != "diffusion":
            words = words[:place] + words[place + 2 :]
    return [w for w in words if not w.startswith("--model-type=") or w.endswith("=diffusion")]


def within(inner: Launch, around: Launch) -> Launch:
    """The launch with what surrounds it: variables and an image."""
    env = {**around.env, **inner.env}
    release, name = inner.release or around.release, inner.name or around.name
    return replace(inner, env=env, release=release, name=name)


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
        if match and "$" not in match[2]:
            yield match[1], match[2]
