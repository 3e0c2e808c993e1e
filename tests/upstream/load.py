"""Pieces of a release, loaded by name and run where they stand: released files are parsed, never
imported, and a global name of a piece is looked up (stub, same file, its imports) when first used.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from tests.upstream.parse import MissingPiece, code_of, defines, top_level, trimmed, used_now
from tests.upstream.wheels import Wheel

__all__ = ["MissingPiece", "Module", "Namespace", "Room"]


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
                return self.file(path)[name] if whole else self.file(path).run(trimmed(node, only))
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
        node = next((n for n in top_level(self.wheel, path).get(outer, []) if defines(n)), None)
        if node is None or not inner:
            return node
        body = getattr(node, "body", [])
        return next((n for n in body if defines(n) and n.name == inner), None)

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
        for used in used_now(node):
            with suppress(KeyError):
                self[used]  # a class body looks its names up without asking __missing__
        bound: dict[str, Any] = {}
        exec(code_of(self.room.wheel, self.path, node), self, bound)
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
        self, name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
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
