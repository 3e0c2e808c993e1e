"""Reading a released file: its syntax tree, what binds each top-level name, code of a piece."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import cache
from types import CodeType
from typing import Any

from tests.upstream.wheels import Wheel

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
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
        if not isinstance(statement, (*DEFINITIONS, ast.AsyncFunctionDef)):
            for field in ("body", "handlers", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, DEFINITIONS):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def used_now(node: ast.AST) -> Iterator[str]:
    """Names read when the statement runs: all but those in function bodies and annotations."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    skipped = ("body", "returns", "annotation") if isinstance(node, ast.FunctionDef) else ()
    for field, value in ast.iter_fields(node):
        if field not in (*skipped, "annotation"):
            for part in value if isinstance(value, list) else [value]:
                yield from used_now(part) if isinstance(part, ast.AST) else ()


def defines(node: ast.AST) -> bool:
    """Whether the node is a function or a class."""
    return isinstance(node, DEFINITIONS)


def trimmed(node: Any, only: tuple[str, ...]) -> Any:
    """The class without its other methods: what they use need not exist here."""
    if not only:
        return node
    body = [part for part in node.body if not defines(part) or part.name in only]
    missing = set(only) - {part.name for part in body if defines(part)}
    if missing:
        raise MissingPiece(f"class {node.name} has no {', '.join(sorted(missing))}")
    fields = {**{f: getattr(node, f) for f in node._fields}, "body": body}
    return ast.copy_location(ast.ClassDef(**fields), node)


def code_of(wheel: Wheel, path: str, node: ast.stmt) -> CodeType:
    """One statement compiled in its place: annotations are not run, line numbers are kept."""
    module = ast.Module([node], type_ignores=[])
    shown = f"{wheel.name}/{path}"
    code: CodeType = compile(module, shown, "exec", LAZY_ANNOTATIONS, dont_inherit=True)
    return code
