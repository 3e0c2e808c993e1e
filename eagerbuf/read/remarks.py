"""What to say of words that argparse could not place: unknown flags, and words that are no flag."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from eagerbuf.read.options import (
    Option,
    Version,
    is_option,
    names,
    options,
    release_name,
    table,
    version,
)
from eagerbuf.read.text import of_words, shown

MAX_NAME = 100  # characters of an unknown flag that are compared with the known ones
CLOSE = 0.8  # of 1: how alike an unknown flag and the one it is taken to be meant for are
DIFFUSION = of_words(  # flags that only `sglang serve` of a diffusion model has
    "--num-gpus --ulysses-degree --ring-degree --sp-degree --performance-mode --dit-cpu-offload "
    "--dit-layerwise-offload --vae-cpu-offload --text-encoder-cpu-offload --vae-path --model- "
    "type --image-encoder-cpu-offload --enable-cfg-parallel --cfg-parallel-size --pipeline- "
    "class-name --dit-precision --vae-precision --use-fsdp-inference --num-inference-steps"
)
SHORTEST_PREFIX = 6  # characters of an unknown flag that may be meant for a sizing one


def remarks(
    argv: Sequence[str], rest: Sequence[str], at: Version, bench: bool, strict: bool
) -> Iterator[str]:
    """What to say of words that argparse could not place.

    ValueError for those that the release itself refuses (`strict`): a flag that no release has, a
    flag of another release that concerns sizing, a word that is no flag and no value of one.
    """
    known = {option.name for option in options(at, bench)} if "--" in rest else ()
    strange = dict.fromkeys(w for w in rest if _names_flag(w) and w.partition("=")[0] not in known)
    for word in strange:
        yield _remark(word.partition("=")[0], at, bench, strict)
    values = _values_of(strange, argv)
    others = dict.fromkeys(w for w in rest if w not in strange and w not in values)
    if not others:
        return
    listed = shown(" ".join(word or "''" for word in others))
    if strict:
        raise ValueError(
            f"{listed}: no flag and no value of one, and SGLang {release_name(at)} refuses to "
            "start with such words; drop them"
        )
    yield f"{listed}: passed over, no flag and no value of one"


def _names_flag(word: str) -> bool:
    name = word.partition("=")[0]
    return len(name) > 2 and name.startswith("-") and not re.search(r"\s", name)


def _values_of(strange: Mapping[str, None], argv: Sequence[str]) -> set[str]:
    """The words that follow unknown flags, as their values do; closing brackets say nothing."""
    values, follows = {")", "}"}, False
    for word in argv:
        if word in strange:
            follows = "=" not in word
        elif is_option(word):
            follows = False
        elif follows:
            values.add(word)
    return values


def _remark(name: str, at: Version, bench: bool, strict: bool) -> str:
    """What to say of an unknown flag; ValueError if it concerns sizing, or no release has it."""
    option = _sizing_names().get(name)
    if option:
        gone = version(option.last) < at
        when = f"gone after {option.last}" if gone else f"new in {option.first}"
        raise ValueError(
            f"{name}: SGLang {release_name(at)} has no such flag ({option.name} is {when})"
        )
    if name in DIFFUSION:
        raise ValueError(
            f"{name}: a flag of SGLang's diffusion server, which is another program; its buffers "
            "are not those that are judged here"
        )
    other = name in names()
    if not strict or other:
        why = "which sizes nothing here" if other else "and the program has flags of its own"
        return f"{shown(name)}: passed over, no flag of SGLang {release_name(at)}, {why}"
    close = _closest(name, [option.name for option in options(at, bench)])
    guess = f"; did you mean {close}?" if close else ""
    raise ValueError(
        f"{shown(name)}: SGLang {release_name(at)} has no such flag and refuses to start with "
        f"it{guess}"
    )


@cache
def _sizing_names() -> Mapping[str, Option]:
    """The flags of any release that concern sizing, by name and by every long enough prefix."""
    found: dict[str, Option] = {}
    for option in filter(lambda option: option.sizes, table()):
        for end in range(min(SHORTEST_PREFIX, len(option.name)), len(option.name)):
            found.setdefault(option.name[:end], option)
        found.setdefault(option.name, option)
    return found


def _closest(name: str, known: Sequence[str]) -> str | None:
    """The known flag that an unknown one is probably meant for."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:MAX_NAME], known, 1, cutoff=CLOSE)), None)
