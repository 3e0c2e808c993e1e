"""Runs of list items in text that is no valid YAML: templates, bad indentation, prose."""

from __future__ import annotations

import re

from eagerbuf.read.launch import Launch
from eagerbuf.read.options import names_sizing
from eagerbuf.read.text import pattern
from eagerbuf.read.words.shell import commands
from eagerbuf.read.words.yamls import from_items

_DASH_ITEM = pattern(r"[ \t]*(?:-[ \t]+)+(\S.*)")
_HEADING = pattern(r"[ \t]*(?:args|command):[ \t]*(?:#.*)?$")
_PASSED_OVER = pattern(r"[ \t]*(?:#.*|\{\{-?[ ]*(?:/\*|\$\w+[ ]*:?=).*|\{#.*)?$")
_TEMPLATE = pattern(r"[ \t]*(\{[{%].*[}%]\})[ \t]*$")
_CONDITION = pattern(r"\{[{%]-?[ ]*(?:(?P<opens>if|for|unless|with|range)|(?P<turns>else|el)|end)")


def in_list_items(text: str) -> list[Launch]:
    """Launches in runs of list items; lines of a template between them stand for other words."""
    runs: list[list[str]] = [[]]
    for line in text.split("\n"):
        match, template = _DASH_ITEM.match(line), _TEMPLATE.match(line)
        if match:
            bare = re.sub(r"[ \t]#.*$", "", match[1]).strip()
            runs[-1].append(_unquoted(bare) if bare[:1] in "\"'" else bare)
        elif _PASSED_OVER.match(line):
            continue
        elif template:
            runs[-1].append(template[1])
        elif not _HEADING.match(line) or all(item[0] == "{" for item in runs[-1]):
            runs.append([])
    return [
        launch
        for items in map(_taken_to_hold, runs)
        if any(names_sizing(item.split(" ")[0]) for item in items)
        for launch in from_items(items, {}, "", ours=True)
    ]


def _unquoted(item: str) -> str:
    first = next(commands(item), None)
    return " ".join(word.text for word in first.words) if first else item


def _taken_to_hold(items: list[str]) -> list[str]:
    """Items without the condition that every sizing flag stands under: else it were no launch."""
    blocks: list[int] = []
    holding: set[int] = set()
    for i, item in enumerate(items):
        condition = _CONDITION.match(item)
        if condition and condition["turns"]:
            return items
        if condition and condition["opens"]:
            blocks.append(i)
        elif condition:
            del blocks[-1:]
        elif names_sizing(item.split(" ")[0]):
            holding.add(blocks[0] if blocks else -1)
    if len(holding) > 1 or -1 in holding:
        return items
    return [item for item in items if not _CONDITION.match(item)]
