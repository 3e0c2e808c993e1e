"""Launches in YAML (and JSON): SGLang's own config files, Kubernetes manifests, compose files.

PyYAML's `safe_load` only; aliases are followed only where they expand to little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from eagerbuf.read.launch import Launch, from_words, program_end, tag_release, variables, within
from eagerbuf.read.options import is_option, names, names_sizing
from eagerbuf.read.scripts import launches_in
from eagerbuf.read.text import pattern, shown
from eagerbuf.read.tokens import command_words, unquote

MAX_NODES = 50_000  # of a document, aliases expanded
MAX_DEPTH = 60

_COMMAND_KEYS = ("entrypoint", "command", "args")
_HOLDS_SCRIPT = pattern(r"\n|[;&|]|sh -\w*c\b")
_HOLDS_PROGRAM = pattern(r"launch_server|one_batch|sglang\s+serve")


def documents(text: str) -> list[Any] | None:
    """The YAML documents of a text, or None where it is no YAML.

    ValueError where it is nested deeper than `MAX_DEPTH`, or aliases make more than `MAX_NODES`
    nodes of it.
    """
    import yaml

    try:
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return None
    _check_size(events)
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError):
        return None  # dates and numbers that are none, keys that cannot be keys


def _check_size(events: Any) -> None:
    """Refuse what an expansion of aliases would blow up, before anything is built."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in events:
        name = type(event).__name__
        if name == "AliasEvent":
            if event.anchor in [anchor for anchor, _ in open_nodes]:
                raise ValueError(
                    f"YAML: the alias *{shown(event.anchor)} holds itself; write it out"
                )
            total += sizes.get(event.anchor, 1)
        elif name.endswith("StartEvent") and name not in ("StreamStartEvent", "DocumentStartEvent"):
            open_nodes.append((event.anchor, total))
            total += 1
        elif name == "ScalarEvent":
            total += 1
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            anchor, before = open_nodes.pop()
            sizes[anchor or ""] = total - before
        if total > MAX_NODES or len(open_nodes) > MAX_DEPTH:
            raise ValueError(
                f"YAML: over {MAX_NODES} nodes (aliases expanded) or {MAX_DEPTH} levels; "
                "give the part with SGLang's flags"
            )


def in_yaml(text: str) -> list[Launch]:
    """Every launch in YAML text; empty where there is none."""
    found: list[Launch] = []
    try:
        for document in documents(text) or []:
            found += list(_walk(document, MAX_DEPTH)) or _config_file(document)
    except _Misread:
        found = []
    return found or _dashed_items(text)


class _Misread(Exception):
    """YAML that parses, but not as meant: list items folded into one by bad indentation."""


def _config_file(document: Any) -> list[Launch]:
    """A config file of SGLang's own, as the flags that SGLang makes of it."""
    if not isinstance(document, dict):
        return []
    dashed = [str(key).replace("_", "-") for key in document]
    if sum(map(_is_flag_key, dashed)) * 2 <= len(dashed):
        return []
    for key, name in zip(document, dashed, strict=True):
        if str(key) != name and _is_flag_key(name):
            raise ValueError(
                f"{shown(key)}: names in a config file have dashes; write {shown(name)}"
            )
    return [
        Launch(tuple(word for key in document for word in _config_flag(str(key), document[key])))
    ]


def _is_flag_key(key: Any) -> bool:
    return isinstance(key, str) and f"--{key}" in names()


def _config_flag(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    if isinstance(value, list):
        return [f"--{key}", *map(str, value)] if value else []
    return [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]


def _walk(node: Any, depth: int) -> Iterator[Launch]:
    """Launches anywhere below a node: containers, lists of words, scripts in strings."""
    if isinstance(node, dict):
        yield from _container(node)
        for key, value in node.items():
            if key not in _COMMAND_KEYS or isinstance(value, dict):
                yield from _walk_below(value, depth)
    elif isinstance(node, list):
        words = [_word(item) for item in node if not isinstance(item, (dict, list))]
        if len(words) == len(node) and any(names_sizing(word.split(" ")[0]) for word in words):
            yield from _from_items(words, {}, "")
        else:
            for item in node:
                yield from _walk_below(item, depth)


def _walk_below(node: Any, depth: int) -> Iterator[Launch]:
    if depth > 0 and isinstance(node, (dict, list)):
        yield from _walk(node, depth - 1)
    elif isinstance(node, str) and _HOLDS_PROGRAM.search(node):
        _refuse_folded([node])
        yield from launches_in(node)


def _container(node: Mapping[Any, Any]) -> list[Launch]:
    """The launch of a container (a mapping with command, args or entrypoint), if it is one."""
    items: list[str] = []
    for key in _COMMAND_KEYS:
        value = node.get(key)
        if isinstance(value, list):
            items += [_word(item) for item in value if not isinstance(item, (dict, list))]
        elif isinstance(value, str):
            items += [value] if "\n" in value.strip() else _split(value)
    env = dict(variables(_environment(node.get("env") or node.get("environment") or [])))
    return _from_items(items, env, str(node.get("image", "")))


def _from_items(
    items: list[str], env: dict[str, str], image: str, *, ours: bool = False
) -> list[Launch]:
    """A container's launch: a script among the items, or the items themselves as words."""
    _refuse_folded(items)
    around = Launch((), False, env, tag_release([image]))
    for item in items:
        if _HOLDS_PROGRAM.search(item) and program_end([item]) is None:
            return [within(found, around) for found in launches_in(item)]
    words = [w for item in items for w in (_split(item) if _two_in_one(item) else [item])]
    launch = None if "vllm" in image else from_words(words, ours=ours or "sglang" in image)
    return [within(launch, around)] if launch else []


def _refuse_folded(items: list[str]) -> None:
    if any(re.search(r"(?:^|\s)- ", item) and not _HOLDS_SCRIPT.search(item) for item in items):
        raise _Misread


def _two_in_one(item: str) -> bool:
    """Whether a list item holds a flag and its value ("--tp-size 8"), as people write."""
    return item.startswith("--") and " " in item.strip() and is_option(item.split()[0])


def _split(text: str) -> list[str]:
    return [word.text for word in command_words(text, 0, is_option)[0]]


def _word(item: Any) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    return str(item)


def _environment(env: Any) -> Iterator[str]:
    """Assignments of a container: name and value pairs, a mapping, or "NAME=value" items."""
    if isinstance(env, dict):
        yield from (f"{name}={_word(value)}" for name, value in env.items())
    elif isinstance(env, list):
        for entry in env:
            if isinstance(entry, dict) and "value" in entry:
                yield f"{entry.get('name')}={_word(entry['value'])}"
            elif isinstance(entry, str):
                yield entry


def _dashed_items(text: str) -> list[Launch]:
    """List items of text that is no valid YAML (templates, bad indentation), line by line."""
    items: list[str] = []
    for line in text.split("\n"):
        match = re.match(r"[ \t]*(?:-[ \t]+)+(\S.*)", line)
        if match:
            bare = re.sub(r"[ \t]#.*$", "", match[1]).strip()
            items.append(unquote(bare) if bare[:1] in "\"'" else bare)
    if not any(names_sizing(item.split(" ")[0]) for item in items):
        return []
    return _from_items(items, {}, "", ours=True)
