"""Pieces of a release, loaded by name and run where they stand: released files are parsed, never
imported, and a global name of a piece is looked up (stub, same file, its imports) when first used.
"""

from __future__ import annotations

import __future__

import ast
import builtins
import importlib
import linecache
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import CodeType, ModuleType
from typing import Any

from tests.upstream.wheels import Wheel

Definition = (ast.FunctionDef, ast.ClassDef)
LAZY_ANNOTATIONS = __future__.annotations.compiler_flag


class MissingPiece(LookupError):
    """A release does not have a piece where it was looked for."""


@cache
def tree(wheel: Wheel, path: str) -> ast.Module:
    """The parsed file; tracebacks through it show its lines under the release's name."""
    text, shown = wheel.read(path), f"{wheel.name}/{path}"
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    return ast.parse(text, shown)


@cache
def top_level(wheel: Wheel, path: str) -> dict[str, list[ast.stmt]]:
    """Name -> the statements of the file that bind it; "*" holds the star imports."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in _statements(tree(wheel, path).body):
        for name in _bound(statement):
            found.setdefault(name, []).append(statement)
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those under if, try and with included."""
    for statement in body:
        yield statement
        if not isinstance(statement, (*Definition, ast.AsyncFunctionDef)):
            for field in ("body", "handlers", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, Definition):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


class Room:
    """One release with stubs for what a CPU lacks; a stub replaces its name wherever it is used."""

    def __init__(self, wheel: Wheel, stubs: Mapping[str, Any]) -> None:
        self.wheel = wheel
        self.stubs = dict(stubs)
        self._files: dict[str, Namespace] = {}
        self._modules: dict[str, Module] = {}

    def piece(self, name: str, *paths: str, only: tuple[str, ...] = ()) -> Any:
        """A function, a class (`only`: with these methods alone) or a "Class.method" as a function.

        It is taken from the first of the paths that has it; MissingPiece says where it was sought.
        """
        for path in paths:
            node = self._find(path, name)
            if node is not None:
                whole = not only and "." not in name
                return self.file(path)[name] if whole else self.file(path).run(_trimmed(node, only))
        raise MissingPiece(self.not_found(name, paths))

    def has(self, name: str, *paths: str) -> bool:
        return any(self._find(path, name) is not None for path in paths)

    def file(self, path: str) -> Namespace:
        if path not in self._files:
            self._files[path] = Namespace(self, path)
        return self._files[path]

    def module(self, dotted: str) -> Module:
        if dotted not in self._modules:
            self._modules[dotted] = Module(self, dotted)
        return self._modules[dotted]

    def path_of(self, dotted: str) -> str | None:
        """The file of a module of this wheel, or None."""
        stem = dotted.replace(".", "/")
        files = self.wheel.manifest["files"]
        return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in files), None)

    def _find(self, path: str, name: str) -> Any:
        if path not in self.wheel.manifest["files"]:
            return None
        outer, _, inner = name.partition(".")
        node = next((n for n in top_level(self.wheel, path).get(outer, []) if _defines(n)), None)
        if node is None or not inner:
            return node
        body = getattr(node, "body", [])
        return next((n for n in body if _defines(n) and n.name == inner), None)

    def not_found(self, name: str, paths: Sequence[str]) -> str:
        files = self.wheel.manifest["files"]
        sought = ", ".join(p if p in files else f"{p} (no such file)" for p in paths)
        last = re.compile(rf"^\s*(?:def|class) {name.rpartition('.')[2]}\b", re.MULTILINE)
        near = [path for path in files if path not in paths and last.search(self.wheel.read(path))]
        hint = f"the name is now defined in {', '.join(near[:5])}" if near else "no file defines it"
        return f"{self.wheel}: no {name} in {sought}; {hint}"


class Namespace(dict[str, Any]):
    """The globals of one released file, each resolved when it is first used."""

    def __init__(self, room: Room, path: str) -> None:
        own = top_level(room.wheel, path)
        super().__init__({k: v for k, v in vars(builtins).items() if k not in own})
        self.room, self.path = room, path
        self._imported: dict[str, Any] = {}
        name = f"{room.wheel.name}:{path}"
        sys.modules.setdefault(name, ModuleType(name))  # dataclasses look their module up
        self["__name__"] = name
        self["__builtins__"] = {**vars(builtins), "__import__": self._import}

    def __missing__(self, name: str) -> Any:
        value = self._resolve(name)
        self[name] = value
        return value

    def run(self, node: ast.stmt, name: str | None = None) -> Any:
        """Execute one definition or assignment and return what it binds (to `name`)."""
        for used in _used_now(node):
            with suppress(KeyError):
                self[used]  # a class body looks its names up without asking __missing__
        bound: dict[str, Any] = {}
        exec(_code(self.room.wheel, self.path, node), self, bound)
        return bound[name] if name else next(iter(bound.values()))

    def knows(self, name: str) -> bool:
        """Whether the file binds the name, itself or through a star import."""
        own = top_level(self.room.wheel, self.path)
        return name in own or any(self._star(part).offers(name) for part in own.get("*", []))

    def _resolve(self, name: str) -> Any:
        if name in self.room.stubs:
            return self.room.stubs[name]
        own = top_level(self.room.wheel, self.path)
        for statement in own.get(name, []):
            try:
                return self._value(statement, name)
            except ImportError:
                continue  # the other branch of a try
        for statement in own.get("*", []):
            if self._star(statement).offers(name):
                return getattr(self._star(statement), name)
        raise KeyError(name)

    def _value(self, statement: ast.stmt, name: str) -> Any:
        if isinstance(statement, ast.ImportFrom):
            alias = next(a for a in statement.names if (a.asname or a.name) == name)
            return getattr(self._from(statement), alias.name)
        if isinstance(statement, ast.Import):
            alias = next(a for a in statement.names if (a.asname or a.name.split(".")[0]) == name)
            return self._module(alias.name if alias.asname else alias.name.partition(".")[0])
        return self.run(statement, name)

    def _from(self, statement: ast.stmt) -> Any:
        assert isinstance(statement, ast.ImportFrom)
        return self._module(self._absolute(statement.module or "", statement.level))

    def _star(self, statement: ast.stmt) -> Module:
        """The module of a star import; none of those used here is outside the wheel."""
        source = self._from(statement)
        assert isinstance(source, Module), ast.unparse(statement)
        return source

    def _absolute(self, module: str, level: int) -> str:
        if not level:
            return module
        parts = self.path.removesuffix(".py").split("/")[:-level]
        return ".".join([*parts, module] if module else parts)

    def _module(self, dotted: str) -> Any:
        if dotted not in self._imported:
            own = dotted.partition(".")[0] == self.path.partition("/")[0]
            found = self.room.module(dotted) if own else importlib.import_module(dotted)
            self._imported[dotted] = found
        return self._imported[dotted]

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """`import` inside a released function: its own package comes from the wheel."""
        module = self._module(self._absolute(name, level))
        return module if names or isinstance(module, Module) else __import__(name)


class Module:
    """A module of the wheel as an import statement sees it."""

    def __init__(self, room: Room, dotted: str) -> None:
        self._room, self._dotted = room, dotted

    def offers(self, name: str) -> bool:
        path = self._room.path_of(self._dotted)
        return path is not None and self._room.file(path).knows(name)

    def __getattr__(self, name: str) -> Any:
        value = self._lookup(name)
        self.__dict__[name] = value
        return value

    def _lookup(self, name: str) -> Any:
        room, path = self._room, self._room.path_of(self._dotted)
        if name in room.stubs:
            return room.stubs[name]
        if not self.offers(name) and room.path_of(f"{self._dotted}.{name}"):
            return room.module(f"{self._dotted}.{name}")
        if path is not None and self.offers(name):
            return room.file(path)[name]
        raise MissingPiece(room.not_found(name, [path or f"{self._dotted} (no such module)"]))


def _used_now(node: ast.AST) -> Iterator[str]:
    """Names read when the statement runs: all but those in function bodies and annotations."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    skipped = ("body", "returns", "annotation") if isinstance(node, ast.FunctionDef) else ()
    for field, value in ast.iter_fields(node):
        if field not in (*skipped, "annotation"):
            for part in value if isinstance(value, list) else [value]:
                yield from _used_now(part) if isinstance(part, ast.AST) else ()


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, Definition)


def _trimmed(node: Any, only: tuple[str, ...]) -> Any:
    """The class without its other methods: what they use need not exist here."""
    if not only:
        return node
    body = [part for part in node.body if not _defines(part) or part.name in only]
    missing = set(only) - {part.name for part in body if _defines(part)}
    if missing:
        raise MissingPiece(f"class {node.name} has no {', '.join(sorted(missing))}")
    fields = {**{f: getattr(node, f) for f in node._fields}, "body": body}
    return ast.copy_location(ast.ClassDef(**fields), node)


def _code(wheel: Wheel, path: str, node: ast.stmt) -> CodeType:
    module = ast.Module([node], type_ignores=[])
    return compile(module, f"{wheel.name}/{path}", "exec", LAZY_ANNOTATIONS, dont_inherit=True)
