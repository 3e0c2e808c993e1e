"""Launches in YAML (and JSON): SGLang's own config files, Kubernetes manifests, compose files.

PyYAML's `safe_load` only; aliases are followed only where they expand to little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from eagerbuf.read.containers import (
    COMMAND_KEYS,
    Misread,
    container,
    from_items,
    refuse_folded,
    word,
)
from eagerbuf.read.launch import HOLDS_PROGRAM, Launch
from eagerbuf.read.options import names, names_sizing
from eagerbuf.read.scripts import launches_in
from eagerbuf.read.text import pattern, shown

MAX_NODES = 10_000  # of a document, aliases expanded
MAX_DEPTH = 60
MAX_NUMBER = 1000  # characters of a number

_HISTORY = ("kubectl.kubernetes.io/last-applied-configuration",)  # what was, or will be, applied
_NUMBER = pattern(r"[-+0-9a-fA-FxX_:]*")


def documents(text: str) -> list[Any]:
    """The YAML documents of a text; none where it is no YAML, or too much of it.

    ValueError where it is nested deeper than `MAX_DEPTH`, or aliases blow it up.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only to look at the events
    try:
        if not _small_enough(yaml.parse(text, Loader=loader)):
            return []
    except yaml.YAMLError:
        return []
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError):
        return []  # dates and numbers that are none, keys that cannot be keys


def _small_enough(events: Iterable[Any]) -> bool:
    """Whether the nodes are at most `MAX_NODES`, aliases expanded, before anything is built."""
    sizes: dict[str | None, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total, aliases = 0, False
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent":
            aliases = True
            total += sizes.get(event.anchor, MAX_NODES)  # not closed yet: it holds itself
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            open_nodes.append((event.anchor, total))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            anchor, before = open_nodes.pop()
            sizes[anchor] = total - before + 1
        total += kind == "ScalarEvent" or kind.endswith("StartEvent")
        if kind == "ScalarEvent":
            sizes[event.anchor] = 1
            if _endless_number(event):
                return False
        if len(open_nodes) > MAX_DEPTH or (total > MAX_NODES and aliases):
            raise ValueError(
                f"YAML: over {MAX_DEPTH} levels deep, or over {MAX_NODES} nodes with its aliases; "
                "give the part with SGLang's flags"
            )
        if total > MAX_NODES:
            return False
    return True


def _endless_number(event: Any) -> bool:
    """Whether a scalar may be a number of so many digits that Python refuses to print it."""
    plain = event.implicit[0] or event.tag
    return bool(plain and len(event.value) > MAX_NUMBER and _NUMBER.fullmatch(event.value))


def in_yaml(text: str) -> list[Launch]:
    """Every launch in YAML text; empty where there is none, or it is no YAML."""
    found: list[Launch] = []
    try:
        for document in documents(text):
            found += list(_walk(document, "", MAX_DEPTH)) or _config_file(document)
    except Misread:
        return []
    return found


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
    return [Launch(tuple(w for key in document for w in _config_flag(str(key), document[key])))]


def _is_flag_key(key: Any) -> bool:
    return isinstance(key, str) and f"--{key}" in names()


def _config_flag(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    if isinstance(value, list):
        return [f"--{key}", *map(str, value)] if value else []
    return [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]


def _walk(node: Any, name: str, depth: int) -> Iterator[Launch]:
    """Launches anywhere below a node: containers, lists of words, scripts in strings.

    `name`: the key that the node is the value of, as services have it.
    """
    if isinstance(node, dict):
        yield from container(node, name)
        for key, value in node.items():
            runs = key in COMMAND_KEYS and not isinstance(value, dict)
            if not runs and key not in _HISTORY and not (key == "Args" and "Config" in node):
                yield from _walk_below(value, str(key), depth)
    elif isinstance(node, list):
        words = [word(item) for item in node if not isinstance(item, (dict, list))]
        if len(words) == len(node) and any(names_sizing(w.split(" ")[0]) for w in words):
            refuse_folded(words)
            yield from from_items(words, {}, "")
        else:
            for item in node:
                yield from _walk_below(item, "", depth)


def _walk_below(node: Any, name: str, depth: int) -> Iterator[Launch]:
    if depth > 0 and isinstance(node, (dict, list)):
        yield from _walk(node, name, depth - 1)
    elif isinstance(node, str) and HOLDS_PROGRAM.search(node):
        refuse_folded([node])
        yield from launches_in(node, 1)
