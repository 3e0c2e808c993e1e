"""The mutants: one small change each to the source of a module, made by cosmic-ray's operators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[2]
# two other operators for each binary one: all eleven would only repeat each other
BINARY = {
    "Add": ("Sub", "Mul"),
    "Sub": ("Add", "Mul"),
    "Mul": ("Add", "FloorDiv"),
    "Div": ("Mul", "FloorDiv"),
    "FloorDiv": ("Mul", "Add"),
    "Mod": ("FloorDiv", "Mul"),
    "Pow": ("Mul", "Add"),
    "BitOr": ("BitAnd", "BitXor"),
    "BitAnd": ("BitOr", "BitXor"),
}
NEEDS_ARGUMENTS = ("VariableInserter", "VariableReplacer")


@dataclass(frozen=True)
class Mutant:
    """One change: the `occurrence`-th place of the module where `operator` applies."""

    path: Path
    operator: str
    occurrence: int

    @cached_property
    def source(self) -> str:
        """The changed module."""
        code = self.path.read_text(encoding="utf-8")
        return str(mutate_code(code, get_operator(self.operator)(), self.occurrence))

    @property
    def module(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def change(self) -> tuple[int, str, str]:
        """(line, the line as it was, as it is)."""
        old = self.path.read_text(encoding="utf-8").split("\n")
        new = self.source.split("\n")
        pairs = enumerate(zip(old, new, strict=False), 1)
        line, (was, now) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
        return line, was.strip(), now.strip()

    def __str__(self) -> str:
        line, was, now = self.change
        return f"{self.path.relative_to(ROOT)}:{line}: {was}  ->  {now}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module that changes what it does, annotations and docstrings apart."""
    code = path.read_text(encoding="utf-8")
    tree, meaning = get_ast(code), _meaning(code)
    for name in filter(_wanted, operator_names()):
        operator = get_operator(name)()
        places = sum(len(list(operator.mutation_positions(node))) for node in ast_nodes(tree))
        for occurrence in range(places):
            mutant = Mutant(path, name, occurrence)
            if _meaning(mutant.source) != meaning:
                yield mutant


def _wanted(name: str) -> bool:
    """Whether an operator is one of ours: identity for a comparison only asks what is interned."""
    kind = name.split("/")[-1]
    if kind.endswith(("_Is", "_IsNot")) and "_Is_" not in kind and "_IsNot_" not in kind:
        return False
    if kind.startswith("ReplaceBinaryOperator_"):
        old, new = kind.split("_")[1:]
        return new in BINARY.get(old, ())
    return not kind.startswith(NEEDS_ARGUMENTS)


class _Bare(ast.NodeTransformer):
    """Drops what is never evaluated: annotations (they stay text), docstrings, typing imports."""

    def visit_If(self, node: ast.If) -> ast.AST:
        if "TYPE_CHECKING" in ast.dump(node.test):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
        return self.generic_visit(node)


def _meaning(code: str) -> str:
    """The program without its annotations; what does not compile means only itself."""
    try:
        return ast.dump(_Bare().visit(ast.parse(code)))
    except SyntaxError:
        return code
