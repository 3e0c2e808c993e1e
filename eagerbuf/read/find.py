"""The launches in a text of any kind, their release, and the config files they read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eagerbuf.read import flags
from eagerbuf.read.commands import command_start
from eagerbuf.read.environment import in_effect
from eagerbuf.read.flags import UNREAD, Flags
from eagerbuf.read.launch import Launch, named_releases, tag_release, unread_tags
from eagerbuf.read.options import names_sizing
from eagerbuf.read.others import refuse_other_engine
from eagerbuf.read.scripts import launches_in
from eagerbuf.read.startup import Startup, engine_calls
from eagerbuf.read.text import pattern, places, shown
from eagerbuf.read.tokens import command_words
from eagerbuf.releases import find_release

MAX_YAML = 2**17  # characters of YAML that are read
MAX_REWRITTEN = 2**18  # characters in which such a file may be written again
MAX_FILES = 8  # of one name that a text writes
MAX_SEARCHED = 2**18  # characters in which releases are looked for

_BARE_FLAG = pattern(r"(?<!\S)[\"']?(--[a-z][a-z0-9-]*)")
_LOOKS_YAML = pattern(
    r"^[ \t]*(?:- +)?(?:\{[ ]*)?[\"']?(?:command|args|entrypoint|containers|spec|services"
    r"|entryPoint|Entrypoint|Cmd|Config)[\"']?[ \t]*:|\A\s*(?:\[\s*)?\{\s*\""
    r"|^[ \t]*- +[\"']?(?:-{1,2}[A-Za-z]|sglang|python3?[\"']?[ \t]*$)"
    r"|^[ \t]*(?:\{[ \t]*)?[\"']?(?=[a-z][a-z0-9]*[-_])[a-z0-9_-]+[\"']?[ \t]*:(?:[ \t]|$)",
    re.MULTILINE,
)
_HEREDOC = pattern(
    r"cat[ \t]*(?:>>?[ \t]*(?P<file>\S+)[ \t]*)?<<-?[ \t]*[\"']?(?P<end>\w+)[\"']?"
    r"(?:[ \t]*>>?[ \t]*(?P<after>\S+))?[^\n]*\n"
)
_WRITES = r"(?:>[ \t]*[^\s;&|<>]{0,200}|\b(?:sed|yq|tee)[ \t][^\n]{0,200})"


def find_launches(text: str, log: Startup, *, alone: bool = False) -> list[Launch]:
    """The launches in a text: YAML where it looks like it, else shell or code, else bare flags.

    With a start-up log in the text there may be none; without one, ValueError if there is none,
    unless what else it shows tells enough `alone`.
    """
    found = _written_out(text, log)
    found = [item for item in found if item.named] or found
    found = [item for item in found if item.has_flags] or ([] if log.found else found[:1])
    found = [item for item in found if not item.mentioned] or found
    found = found or _from_calls(text)
    if not log.found and not any(item.named for item in found):
        _refuse_others(text)
    if found or log.found:
        return found
    found = _bare_flags(text)
    if found or alone:
        return found
    raise ValueError(
        "text: no SGLang launch command, config, Kubernetes list or start-up log in it; give one"
    )


def _bare_flags(text: str) -> list[Launch]:
    """Flags that stand there without a program, from the first one that concerns sizing on."""
    for match in _BARE_FLAG.finditer(text):
        if names_sizing(match[1]):
            before = text[command_start(text, match.start()) : match.start()]
            refuse_other_engine(before)
            _refuse_other_module(before)
            words, _ = command_words(text, match.start(1))
            release = tag_release(text[: match.start()].split()[-100:])
            return [
                Launch(
                    tuple(w.text for w in words),
                    env=in_effect(text, match.start()),
                    release=release,
                )
            ]
    return []


def _refuse_other_module(before: str) -> None:
    """ValueError where flags are those of a module of SGLang's that starts no engine."""
    module = re.search(r"[ \t]-m[ \t]+[\"']?(sglang\.[\w.]{1,100})", before)
    if module:
        raise ValueError(
            f"{module[1]}: no module that starts SGLang's engine; give the command of "
            "sglang.launch_server (or sglang serve)"
        )


def _refuse_others(text: str) -> None:
    """ValueError for a command of another engine in a text that does not speak of SGLang."""
    searched = text[:MAX_SEARCHED]
    if "sglang" not in searched.lower():
        refuse_other_engine(searched)


def looks_like_yaml(text: str) -> bool:
    """Whether it is worth parsing: manifest keys, list items that are flags, dashed keys."""
    return len(text) <= MAX_YAML and bool(_LOOKS_YAML.search(text))


def _written_out(text: str, log: Startup) -> list[Launch]:
    """Launches in YAML, in list items, in shell or in code.

    In a text that is a log too, YAML is an accident; list items below a command are prose.
    """
    if not looks_like_yaml(text):
        return launches_in(text)
    from eagerbuf.read.listed import in_list_items
    from eagerbuf.read.yamls import in_yaml

    found = [] if log.found else in_yaml(text)
    listed = [] if found else in_list_items(text)
    if found or any(item.named for item in listed):
        return found or listed
    told = launches_in(text)
    started = any(item.has_flags and not item.mentioned for item in told)
    return told if started else listed or told


def _from_calls(text: str) -> list[Launch]:
    """The engine started in Python code, under the variables set before the first call."""
    calls = [_from_call(values) for values in engine_calls(text)]
    found = places(text, "Engine(", "Runtime(") or places(text, "ServerArgs(")
    first = min(found, default=0)
    env = in_effect(text, first) if calls else {}
    return [replace(call, env=env) for call in calls]


def _from_call(values: Mapping[str, Any]) -> Launch:
    """Keyword arguments of the engine in Python, as the flags of the same names."""
    argv: list[str] = []
    for name, value in values.items():
        if not (value is None or value is False or value is UNREAD):
            flag = "--" + name.replace("_", "-")
            argv += [flag] if value is True else [flag, str(value)]
    return Launch(tuple(argv), open=tuple(name for name in values if values[name] is UNREAD))


def release_of(
    asked: str | None, launches: Sequence[Launch], text: str
) -> tuple[str | None, list[str]]:
    """The release asked for, else the one that an image's tag names; remarks on the latter."""
    if asked is not None:
        return find_release(asked).release, []
    named = sorted({item.release for item in launches if item.release})
    if not named and launches:
        named = named_releases(text[:MAX_SEARCHED])
    if not named and launches:
        return None, [
            f"image tag {shown(tag)}: it names no release, so none is taken; give the release"
            for tag in unread_tags(text[:MAX_SEARCHED])
        ]
    if len(named) > 1:
        return None, [f"several releases are named ({shown(', '.join(named))}): none is taken"]
    try:
        return (find_release(named[0]).release if named else None), []
    except ValueError:
        return None, [f"release {shown(named[0])} is named, but it is not known here"]


def agreed_flags(
    launches: Sequence[Launch], release: str | None, text: str, *, log_decides: bool
) -> Flags:
    """What the launches set; ValueError naming the fields in which they differ.

    `log_decides`: a log shows every field, so that it does not matter if they do.
    """
    parsed = [_flags_of(item, release, text) for item in launches] or [Flags({})]
    notes = tuple(note for one in parsed for note in one.notes)
    first = replace(parsed[0], notes=notes, partial=any(one.partial for one in parsed))
    differing = {name for other in parsed[1:] for name in _differences(first, other)}
    if log_decides or not differing:
        return first
    if differing == {"disaggregation_mode"}:
        return replace(
            first, notes=(*first.notes, "of prefill and decode servers the first counts")
        )
    raise ValueError(
        f"text: {len(parsed)} launch commands that differ in "
        f"{shown(', '.join(sorted(differing)))}{_named(launches, text)}; give one of them"
    )


def _named(launches: Sequence[Launch], text: str) -> str:
    """Their containers, or the lines they are in, where these tell them apart."""
    names = [item.container for item in launches]
    if not all(names) or len(set(names)) < len(names):
        places = [item.place for item in launches if item.place is not None]
        names = [f"line {text.count(chr(10), 0, place) + 1}" for place in places]
    told = len(set(names)) == len(launches)
    return f" ({shown(', '.join(names))})" if told else ""


def _differences(one: Flags, other: Flags) -> Iterator[str]:
    for name in {*one.values, *other.values}:
        if one.values.get(name) != other.values.get(name):
            yield name
    if one.bench != other.bench:
        yield "the benchmark's batches"


def _flags_of(item: Launch, release: str | None, text: str) -> Flags:
    """A launch's flags; those of a `--config` file that the text itself writes come first."""
    argv = list(item.argv)
    joined = [word for word in argv if word.startswith("--config=")]
    notes = [f"{shown(w)}: SGLang reads the file only if it is a word of its own" for w in joined]
    written: list[str] | None = []
    if "--config" in argv[:-1]:
        place = argv.index("--config")
        name = argv[place + 1]
        argv = argv[:place] + argv[place + 2 :]
        written = _written_config(text, name)
        if written is None:
            notes.append(
                f"--config {shown(name)}: not in the text, or written twice, so what it sets "
                "is not known"
            )
    found = flags.parse([*(written or ()), *argv], release, bench=item.bench, strict=item.strict)
    if item.maybe:
        maybe = flags.parse(item.maybe, release, bench=item.bench, strict=item.strict)
        found = flags.with_maybe(found, maybe)
    if item.open:
        found = flags.with_open(found, item.open)
    if not (item.argv or item.open):
        notes.append("the command has no flags here: if it gets any elsewhere, write them out")
    partial = found.partial or written is None or not (item.argv or item.open)
    return Flags(found.values, (*found.notes, *notes), found.bench, partial)


def _written_config(text: str, name: str) -> list[str] | None:
    """The flags of a config file that the text writes with one here-document, and never again."""
    wanted = name.rsplit("/", 1)[-1]
    files = [m for m in _HEREDOC.finditer(text) if _last_name(m["file"] or m["after"]) == wanted]
    if len(re.findall(_WRITES + re.escape(wanted) + r"(?![\w.-])", text[:MAX_REWRITTEN])) > 1:
        return None
    for match in files[:MAX_FILES]:
        closing = re.compile(rf"^[ \t]*{match['end']}[ \t]*$", re.MULTILINE)
        end = closing.search(text, match.end())
        if end:
            from eagerbuf.read.listed import in_list_items
            from eagerbuf.read.yamls import in_yaml

            body = text[match.end() : end.start()]
            launches = in_yaml(body) or in_list_items(body)
            return list(launches[0].argv) if launches else []
    return None


def _last_name(path: str | None) -> str:
    return (path or "").rsplit("/", 1)[-1]
