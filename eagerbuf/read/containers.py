"""Launches of containers: a command, its arguments, variables and image, in any manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from eagerbuf.read.launch import (
    HOLDS_PROGRAM,
    Launch,
    from_words,
    program_end,
    tag_release,
    variables,
    within,
)
from eagerbuf.read.scripts import launches_in
from eagerbuf.read.text import pattern
from eagerbuf.read.tokens import command_words

# of Kubernetes, compose, ECS (entryPoint), `docker inspect` (Entrypoint, Cmd); what runs is first
COMMAND_KEYS = ("entrypoint", "entryPoint", "Entrypoint", "command", "args", "Cmd")

_HOLDS_SCRIPT = pattern(r"\n|[;&|]|sh -\w*c\b")


class Misread(Exception):
    """YAML that parses, but not as meant: list items folded into one by bad indentation."""


def container(node: Mapping[Any, Any], name: str) -> list[Launch]:
    """The launch of a container (a mapping with command, args or entrypoint), if it is one."""
    items: list[str] = []
    for key in COMMAND_KEYS:
        value = node.get(key)
        if isinstance(value, list):
            items += [word(item) for item in value if not isinstance(item, (dict, list))]
        elif isinstance(value, str):
            items += [value] if "\n" in value.strip() else _split(value)
    refuse_folded(items)
    env = dict(variables(_environment(_first(node, "env", "environment", "Env") or [])))
    named = str(_first(node, "name", "container_name") or name)
    found = from_items(items, env, str(_first(node, "image", "Image") or ""))
    return [replace(launch, container=named) for launch in found]


def _first(node: Mapping[Any, Any], *keys: str) -> Any:
    return next((node[key] for key in keys if node.get(key)), None)


def from_items(
    items: list[str], env: dict[str, str], image: str, *, ours: bool = False
) -> list[Launch]:
    """A container's launch: a script among the items, or the items themselves as words."""
    around = Launch((), False, env, tag_release([image]))
    for item in items:
        if HOLDS_PROGRAM.search(item) and program_end([item]) is None:
            return [within(found, around) for found in launches_in(item, 1)]
    words = [w for item in items for w in (_split(item) if _two_in_one(item) else [item])]
    other = "vllm" in image or "router" in image
    launch = None if other else from_words(words, ours=ours or "sglang" in image)
    return [within(launch, around)] if launch else []


def refuse_folded(items: list[str]) -> None:
    """`Misread` where list items were folded into one."""
    if any(re.search(r"(?:^|\s)- ", item) and not _HOLDS_SCRIPT.search(item) for item in items):
        raise Misread


def _two_in_one(item: str) -> bool:
    """Whether a list item holds a flag and its value ("--tp-size 8"), as people write."""
    return bool(re.match(r"--[a-z][a-z0-9-]*[ \t]+\S", item))


def _split(text: str) -> list[str]:
    return [word.text for word in command_words(text, 0)[0]]


def word(item: Any) -> str:
    """A scalar as the program gets it."""
    if isinstance(item, bool):
        return str(item).lower()
    return str(item)


def _environment(env: Any) -> Iterator[str]:
    """Assignments of a container: name and value pairs, a mapping, or "NAME=value" items."""
    if isinstance(env, dict):
        yield from (f"{name}={word(value)}" for name, value in env.items())
    elif isinstance(env, list):
        for entry in env:
            if isinstance(entry, dict) and "value" in entry:
                yield f"{entry.get('name')}={word(entry['value'])}"
            elif isinstance(entry, str):
                yield entry
