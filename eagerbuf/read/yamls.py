"""Launches in YAML (and JSON): SGLang's own config files, Kubernetes manifests, compose files.

PyYAML's `safe_load` only; aliases are followed only where they expand to little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from eagerbuf.read.launch import Launch, from_words, program_end, tag_release, variables, within
from eagerbuf.read.options import names, names_sizing
from eagerbuf.read.scripts import launches_in
from eagerbuf.read.text import pattern, shown
from eagerbuf.read.tokens import command_words, unquote

MAX_NODES = 10_000  # of a document, aliases expanded
MAX_DEPTH = 60
MAX_NUMBER = 1000  # characters of a number

_COMMAND_KEYS = ("entrypoint", "command", "args")
_NUMBER = pattern(r"[-+0-9a-fA-FxX_:]*")
_DASH_ITEM = pattern(r"[ \t]*(?:-[ \t]+)+(\S.*)")
_BETWEEN_ITEMS = pattern(r"[ \t]*(?:#.*|\{\{.*|(?:args|command):[ \t]*(?:#.*)?)?$")
_HOLDS_SCRIPT = pattern(r"\n|[;&|]|sh -\w*c\b")
_HOLDS_PROGRAM = pattern(r"launch_server|one_batch|sglang\s+serve")


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
    except _Misread:
        return []
    return found


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


def _walk(node: Any, name: str, depth: int) -> Iterator[Launch]:
    """Launches anywhere below a node: containers, lists of words, scripts in strings.

    `name`: the key that the node is the value of, as services have it.
    """
    if isinstance(node, dict):
        yield from _container(node, name)
        for key, value in node.items():
            if key not in _COMMAND_KEYS or isinstance(value, dict):
                yield from _walk_below(value, str(key), depth)
    elif isinstance(node, list):
        words = [_word(item) for item in node if not isinstance(item, (dict, list))]
        if len(words) == len(node) and any(names_sizing(word.split(" ")[0]) for word in words):
            _refuse_folded(words)
            yield from _from_items(words, {}, "")
        else:
            for item in node:
                yield from _walk_below(item, "", depth)


def _walk_below(node: Any, name: str, depth: int) -> Iterator[Launch]:
    if depth > 0 and isinstance(node, (dict, list)):
        yield from _walk(node, name, depth - 1)
    elif isinstance(node, str) and _HOLDS_PROGRAM.search(node):
        _refuse_folded([node])
        yield from launches_in(node, 1)


def _container(node: Mapping[Any, Any], name: str) -> list[Launch]:
    """The launch of a container (a mapping with command, args or entrypoint), if it is one."""
    items: list[str] = []
    for key in _COMMAND_KEYS:
        value = node.get(key)
        if isinstance(value, list):
            items += [_word(item) for item in value if not isinstance(item, (dict, list))]
        elif isinstance(value, str):
            items += [value] if "\n" in value.strip() else _split(value)
    _refuse_folded(items)
    env = dict(variables(_environment(node.get("env") or node.get("environment") or [])))
    named = str(node.get("name") or node.get("container_name") or name)
    found = _from_items(items, env, str(node.get("image", "")))
    return [replace(launch, container=named) for launch in found]


def _from_items(
    items: list[str], env: dict[str, str], image: str, *, ours: bool = False
) -> list[Launch]:
    """A container's launch: a script among the items, or the items themselves as words."""
    around = Launch((), False, env, tag_release([image]))
    for item in items:
        if _HOLDS_PROGRAM.search(item) and program_end([item]) is None:
            return [within(found, around) for found in launches_in(item, 1)]
    words = [w for item in items for w in (_split(item) if _two_in_one(item) else [item])]
    other = "vllm" in image or "router" in image
    launch = None if other else from_words(words, ours=ours or "sglang" in image)
    return [within(launch, around)] if launch else []


def _refuse_folded(items: list[str]) -> None:
    if any(re.search(r"(?:^|\s)- ", item) and not _HOLDS_SCRIPT.search(item) for item in items):
        raise _Misread


def _two_in_one(item: str) -> bool:
    """Whether a list item holds a flag and its value ("--tp-size 8"), as people write."""
    return bool(re.match(r"--[a-z][a-z0-9-]*[ \t]+\S", item))


def _split(text: str) -> list[str]:
    return [word.text for word in command_words(text, 0)[0]]


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


def in_list_items(text: str) -> list[Launch]:
    """Runs of list items in text that is no valid YAML (templates, bad indentation, prose)."""
    runs: list[list[str]] = [[]]
    for line in text.split("\n"):
        match = _DASH_ITEM.match(line)
        if match:
            bare = re.sub(r"[ \t]#.*$", "", match[1]).strip()
            runs[-1].append(unquote(bare) if bare[:1] in "\"'" else bare)
        elif not _BETWEEN_ITEMS.match(line):
            runs.append([])
    return [
        launch
        for items in runs
        if any(names_sizing(item.split(" ")[0]) for item in items)
        for launch in _from_items(items, {}, "", ours=True)
    ]
