"""Launches in YAML and JSON: config files of SGLang's own, roles of a recipe, containers.

PyYAML's `safe_load` only; aliases are followed only where they expand to little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eagerbuf.read.launch import (
    HOLDS_PROGRAM,
    SURE,
    Launch,
    from_words,
    program_end,
    tag_release,
    variables,
    within,
)
from eagerbuf.read.options import names, names_sizing
from eagerbuf.read.text import pattern, shown
from eagerbuf.read.words.held import Names, scalar
from eagerbuf.read.words.script import in_script
from eagerbuf.read.words.shell import commands

MAX_YAML = 2**17  # characters of YAML that are read
MAX_NODES = 10_000  # of a document, aliases expanded
MAX_DEPTH = 60
MAX_NUMBER = 1000  # characters of a number
# of Kubernetes, compose, ECS (entryPoint), `docker inspect` (Entrypoint, Cmd); what runs is first
COMMAND_KEYS = ("entrypoint", "entryPoint", "Entrypoint", "command", "args", "Cmd")

_LOOKS_YAML = pattern(
    r"^[ \t]*(?:- +)?(?:\{[ ]*)?[\"']?[A-Za-z][\w.-]*[\"']?[ \t]*:(?:[ \t]|$)"
    r"|\A\s*(?:\[\s*)?\{\s*\""
    r"|^[ \t]*- +[\"']?(?:-{1,2}[A-Za-z]|sglang|python3?[\"']?[ \t]*$)",
    re.MULTILINE,
)
_HISTORY = ("kubectl.kubernetes.io/last-applied-configuration",)  # what was, or will be, applied
_NUMBER = pattern(r"[-+0-9a-fA-FxX_:]*")
_HOLDS_SCRIPT = pattern(r"\n|[;&|]|sh -\w*c\b")
_MADE = pattern(r"\$\(([A-Za-z_]\w*)\)")
_KEY = pattern(r"(?<![\w-])([a-z]+(?:-[a-z]+)+):[ \t]")


class Misread(Exception):
    """YAML that parses, but not as meant: list items folded into one by bad indentation."""


def looks_like_yaml(text: str) -> bool:
    """Whether it is worth parsing: keys at the beginning of lines, list items that are flags."""
    return len(text) <= MAX_YAML and bool(_LOOKS_YAML.search(text))


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


@dataclass
class Found:
    """The launches of a YAML text, and the files that its ConfigMaps hold, by name."""

    launches: list[Launch] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)


def in_yaml(text: str) -> Found:
    """Every launch in YAML text; none where it is no YAML, or folds what is no text."""
    found = Found()
    try:
        for document in documents(text):
            _files(document, found.files)
            found.launches += list(_walk(document, "", MAX_DEPTH, Launch(())))
    except Misread:
        return Found()
    return found


def config_flags(text: str) -> list[str] | None:
    """The flags of a config file's text; None where it is no mapping."""
    read = documents(text)
    if len(read) != 1 or not isinstance(read[0], dict):
        return None
    _refuse_underscores(read[0])
    return [word for key in read[0] for word in _config_flag(str(key), read[0][key])]


def _files(node: Any, files: dict[str, list[str]]) -> None:
    """Texts of ConfigMaps: each key of their data is a file."""
    nodes = node.get("items", [node]) if isinstance(node, dict) else []
    for one in nodes if isinstance(nodes, list) else []:
        data = one.get("data") if isinstance(one, dict) and one.get("kind") == "ConfigMap" else None
        for key, value in data.items() if isinstance(data, dict) else ():
            if isinstance(value, str):
                files.setdefault(str(key), []).append(value)


def _is_config(node: Mapping[Any, Any], *, top: bool) -> bool:
    """Whether most keys of a mapping are SGLang's flags, and one of them sizes or names a model."""
    dashed = [str(key).replace("_", "-") for key in node]
    flags = [key for key in dashed if f"--{key}" in names()]
    if len(flags) * 2 <= len(dashed) or set(flags) & {"command", "args"}:
        return False
    return top or any(names_sizing(f"--{key}") for key in flags)


def _config(node: Mapping[Any, Any], name: str, around: Launch) -> Launch:
    """A mapping of flags: a config file of SGLang's own, or a role of a recipe."""
    _refuse_underscores(node)
    words = tuple(w for key in node for w in _config_flag(str(key), node[key]))
    return within(Launch(words, name=name), replace(around, name=""))


def _refuse_underscores(node: Mapping[Any, Any]) -> None:
    for key in node:
        dashed = str(key).replace("_", "-")
        if str(key) != dashed and f"--{dashed}" in names():
            raise ValueError(
                f"{shown(key)}: names in a config file have dashes; write {shown(dashed)}"
            )


def _config_flag(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    if value is None:
        return [f"--{key}", "$null"]
    if isinstance(value, list):
        return [f"--{key}", *map(str, value)] if value else []
    return [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]


def _walk(node: Any, name: str, depth: int, around: Launch) -> Iterator[Launch]:
    """Launches anywhere below a node: containers, mappings of flags, lists of words, scripts.

    `name`: the key that the node is the value of, as services have it; `around`: an image and the
    variables that a recipe gives to the role of that name.
    """
    if isinstance(node, dict):
        if _is_config(node, top=depth == MAX_DEPTH):
            yield _config(node, name, around)
            return
        yield from _container(node, name)
        for key, value in node.items():
            runs = key in COMMAND_KEYS and not isinstance(value, dict)
            runs = runs or (key == "data" and node.get("kind") == "ConfigMap")
            if not runs and key not in _HISTORY and not (key == "Args" and "Config" in node):
                yield from _walk_below(
                    value, str(key), depth, _around(node, value, str(key), around)
                )
    elif isinstance(node, list):
        words = [word(item) for item in node if not isinstance(item, (dict, list))]
        told = program_end(words) or any(names_sizing(w.split(" ")[0]) for w in words)
        if len(words) == len(node) and told:
            refuse_folded(words)
            yield from from_items(words, {}, "")
        else:
            for item in node:
                yield from _walk_below(item, "", depth, around)


def _around(node: Mapping[Any, Any], value: Any, key: str, around: Launch) -> Launch:
    """The image of a recipe, and the variables of its roles: prefill_environment, environment."""
    model = node.get("model")
    image = model.get("container") if isinstance(model, dict) else None
    env = dict(around.env)
    for role, given in node.items() if key.endswith("config") else ():
        if (
            str(role).endswith("environment")
            and isinstance(given, dict)
            and isinstance(value, dict)
        ):
            roles = [r for r in value if str(role).startswith(str(r))] or list(value)
            if len(value) == len(roles) or str(role) == "environment":
                env |= dict(variables(_environment(given)))
            for one in roles:
                env |= {f"{one}:{n}": v for n, v in variables(_environment(given))}
    own = {n.partition(":")[2]: v for n, v in env.items() if n.startswith(f"{key}:")}
    env = {**env, **own} if own else env
    release = tag_release([str(image)]) if image else around.release
    return replace(around, env=env, release=release)


def _walk_below(node: Any, name: str, depth: int, around: Launch) -> Iterator[Launch]:
    if depth > 0 and isinstance(node, (dict, list)):
        yield from _walk(node, name, depth - 1, around)
    elif isinstance(node, str) and HOLDS_PROGRAM.search(node):
        refuse_folded([node])
        yield from (replace(launch, line=0) for launch in in_script(node, depth=1))
    elif isinstance(node, str) and sum(names_sizing(f"--{k}") for k in _KEY.findall(node)) > 1:
        if "\n" not in node.strip():
            raise ValueError(f"{shown(name)}: flags that YAML reads as one text; give them as keys")
        for document in documents(node):
            yield from _below_document(document, name, depth, around)
    elif isinstance(node, str) and "\n" in node and looks_like_yaml(node) and depth > 0:
        for document in documents(node):
            yield from _below_document(document, name, depth, around)


def _below_document(document: Any, name: str, depth: int, around: Launch) -> Iterator[Launch]:
    """A document in a string: a patch of a container; a ConfigMap's files are read by name."""
    if isinstance(document, list) or (isinstance(document, dict) and "spec" in document):
        yield from _walk(document, name, depth - 1, around)
    elif isinstance(document, dict) and _is_config(document, top=False):
        yield _config(document, name, around)


def _container(node: Mapping[Any, Any], name: str) -> list[Launch]:
    """The launch of a container (a mapping with command, args or entrypoint), if it is one."""
    items: list[str] = []
    for key in COMMAND_KEYS:
        value = node.get(key)
        if isinstance(value, list):
            items += [word(item) for item in value if not isinstance(item, (dict, list))]
        elif isinstance(value, str):
            items += [value] if "\n" in value.strip() else _split(value)
    refuse_folded(items)
    given = list(_environment(_first(node, "env", "environment", "Env") or []))
    pairs = (entry.partition("=") for entry in given)
    made = {key: value for key, _, value in pairs if "$" not in value}
    named = str(_first(node, "name", "container_name") or name)
    found = from_items(items, made, str(_first(node, "image", "Image") or ""))
    return [replace(launch, name=launch.name or named) for launch in found]


def _first(node: Mapping[Any, Any], *keys: str) -> Any:
    return next((node[key] for key in keys if node.get(key)), None)


def from_items(
    items: list[str], made: Mapping[str, str], image: str, *, ours: bool = False
) -> list[Launch]:
    """A container's launch: a script among the items, or the items themselves as words.

    `made`: its variables, which Kubernetes puts in the place of $(NAME) before anything runs.
    """
    env = dict(variables(f"{name}={value}" for name, value in made.items()))
    around = Launch((), False, env, tag_release([image]))
    items = [_MADE.sub(lambda match: made.get(match[1], match[0]), item) for item in items]
    for item in items:
        if HOLDS_PROGRAM.search(item) and program_end([item]) is None:
            held: Names = {n: replace(scalar(v), exported=True) for n, v in made.items()}
            found = in_script(item, names=held, depth=1)
            return [within(replace(launch, line=0), around) for launch in found]
    words = [w for item in items for w in (_split(item) if _two_in_one(item) else [item])]
    other = "vllm" in image or "router" in image
    launch = None if other else from_words(words, ours=ours or "sglang" in image)
    if launch and "sglang" in image:
        launch = replace(launch, rank=SURE)
    return [within(launch, around)] if launch else []


def refuse_folded(items: Iterable[str]) -> None:
    """`Misread` where list items were folded into one."""
    if any(re.search(r"(?:^|\s)- ", item) and not _HOLDS_SCRIPT.search(item) for item in items):
        raise Misread


def _two_in_one(item: str) -> bool:
    """Whether a list item holds a flag and its value ("--tp-size 8"), as people write."""
    return bool(re.match(r"--[a-z][a-z0-9-]*[ \t]+\S", item))


def _split(text: str) -> list[str]:
    first = next(commands(text), None)
    return [found.text for found in first.words] if first else []


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
