"""Launches in Python code, by `ast`: literals put in place, branches followed, nothing run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

from eagerbuf.read.launch import HOLDS_PROGRAM, SURE, TOLD, Launch, from_words, variables
from eagerbuf.read.options import is_option, names_sizing
from eagerbuf.read.text import pattern
from eagerbuf.read.words.held import NOT_KNOWN, Held, Names, merged, put, scalar
from eagerbuf.read.words.script import MAX_LAUNCHES, in_script
from eagerbuf.read.words.shell import LITERAL, commands, plain

MAX_CODE = 2**16  # characters
MAX_PARTS = 64  # of code in other text that are looked at
MAX_SHOWN = 80  # characters of an expression
MAX_NESTED = 60  # brackets in each other
PASTED = "<pasted>"

_PARTS = pattern(
    r"\b(?:\w+\.)*(?:Engine|Runtime|ServerArgs)\(|\[\s*[rbfu]{0,2}[\"'](?=[^\n]|\n)"
    r"|^[A-Za-z_][\w.]*[ \t]*\+?=[ \t]*[\[(rbfu\"']",
    re.MULTILINE,
)
_TELLS = pattern(
    r"launch_server|one_batch|bench_offline|sglang[\"'], *[\"']serve|sglang serve"
    r"|\b(?:Engine|Runtime|ServerArgs)\(|[\"']--[a-z]"
)
_SPEAKS = frozenset(["print", "info", "debug", "warning", "error", "exception", "log", "format"])
_ENGINES = frozenset(("Engine", "Runtime", "ServerArgs"))


def in_python(text: str, line: int = 1) -> list[Launch]:
    """Every launch in Python code; where the text as a whole is none, in its expressions."""
    if len(text) > MAX_CODE or not _TELLS.search(text) or _deep(text):
        return []
    tree = _parsed(text)
    if tree is not None:
        walk = _Walk(line)
        walk.block(tree.body)
        walk.never_used()
        return walk.launches
    return list(_in_parts(text, line))


def _deep(text: str) -> bool:
    """Whether brackets lie so deep in each other that Python would not read it."""
    level = 0
    for sign in re.findall(r"[\[({\])}]", text):
        level += 1 if sign in "[({" else -1
        if level > MAX_NESTED:
            return True
    return False


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, PASTED)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _in_parts(text: str, line: int) -> Iterator[Launch]:
    """Launches of calls and lists in text that is no code as a whole."""
    done, looked = 0, 0
    for match in _PARTS.finditer(text):
        if match.start() < done or looked >= MAX_PARTS:
            continue
        looked += 1
        end = _closing(text, match.end() - 1 if match[0][-1] in "([{" else match.start())
        tree = _parsed(text[match.start() : end]) if end else None
        if tree is not None:
            walk = _Walk(line + text.count("\n", 0, match.start()))
            walk.block(tree.body)
            walk.never_used()
            yield from walk.launches
            done = end if walk.launches else done


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens first behind `start` is closed; 0 if it is not."""
    level = 0
    for match in re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|[\[({\])}]").finditer(
        text, start, start + MAX_CODE
    ):
        level += {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}.get(match[0], 0)
        if level == 0 and match[0] in "])}":
            return match.end()
    return 0


class _Walk:
    """Statements in order; `names`: what variables hold, "environ:X" the environment."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.names: Names = {}
        self.launches: list[Launch] = []
        self.used: set[str] = set()
        self.programs: dict[str, int] = {}

    def block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            self.statement(node)
            if len(self.launches) > MAX_LAUNCHES:
                raise ValueError(f"text: over {MAX_LAUNCHES} launch commands; give one")

    def statement(self, node: ast.stmt) -> None:
        if _printed(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            before = dict(self.names)
            for argument in ast.walk(node.args) if not isinstance(node, ast.ClassDef) else ():
                if isinstance(argument, ast.arg):
                    put(self.names, argument.arg, NOT_KNOWN)
            self.block(node.body)
            self.names = {**before, **{n: h for n, h in self.names.items() if n in self.programs}}
        elif isinstance(node, ast.If):
            self.look(node.test)
            self.branches([node.body, node.orelse])
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            self.loop(node)
        elif isinstance(node, ast.Try):
            self.block(node.body)
            self.branches([[], *(handler.body for handler in node.handlers)])
            self.block(node.finalbody)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.look(item.context_expr)
            self.block(node.body)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, node.value)
            self.calls(node.value)
        elif isinstance(node, ast.AnnAssign) and node.value:
            self.assign(node.target, node.value)
            self.calls(node.value)
        elif isinstance(node, ast.AugAssign):
            self.add(node.target, node.value)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.changed(target)
        else:
            for child in ast.iter_child_nodes(node):
                self.look(child)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """A body that runs any number of times: what it assigns may hold anything in it."""
        added = {n.target.id for n in ast.walk(node) if _adds(n)}  # type: ignore[attr-defined]
        for inner in ast.walk(node):
            stored = isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            if isinstance(inner, ast.Name) and stored and inner.id not in added:
                put(self.names, inner.id, NOT_KNOWN)
        for name in added & set(self.names):
            self.names[name] = replace(self.names[name], open=True)
        self.branches([node.body, node.orelse])

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        before, results = self.names, []
        for body in bodies:
            self.names = dict(before)
            self.block(body)
            results.append(self.names)
        self.names = merged(results)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Let a name hold a value; an item that is set may be a variable of the environment."""
        variable = _variable(target)
        if variable:
            put(self.names, f"environ:{variable}", self.held(value))
        elif isinstance(target, ast.Name):
            held = self.held(value)
            put(self.names, target.id, held)
            if _holds_program(held):
                self.programs[target.id] = self.line_of(target)
                self.used.discard(target.id)
        else:
            self.changed(target)

    def changed(self, target: ast.AST) -> None:
        """A name of which an item, or something else, is changed holds more than is known."""
        variable = _variable(target)
        if variable:
            put(self.names, f"environ:{variable}", scalar(""))
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name) and inner.id in self.names:
                held = self.names[inner.id]
                self.names[inner.id] = Held((), None, held.every, open=True)
                break

    def add(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            before = self.names.get(target.id, NOT_KNOWN)
            put(self.names, target.id, _sum(before, self.held(value)))

    def look(self, node: ast.AST) -> None:
        """Calls below a node: the engine's own, those that run a command, those that change."""
        self.calls(node)
        if isinstance(node, ast.List):
            self.run(self.held(node), node, TOLD if not _of_flags(node) else SURE, {})

    def calls(self, node: ast.AST) -> None:
        """Look at every call in an expression."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                self.call(inner)

    def call(self, call: ast.Call) -> None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in _ENGINES:
            self.engine(call)
        elif isinstance(owner, ast.Name) and name in (
            "append",
            "extend",
            "insert",
            "remove",
            "pop",
        ):
            self.method(owner, name, call)
        elif name in ("setdefault", "pop", "update") and owner is not None and call.args:
            self.environment(call, name)
        elif name in ("split", "join", "format", "str", "quote", "exists", "append"):
            return
        else:
            env = self.passed(call)
            told = TOLD if name in _SPEAKS else SURE
            for argument in [*call.args, *(k.value for k in call.keywords if k.arg != "env")]:
                self.run(self.held(argument), argument, told, env)

    def method(self, owner: ast.Name, name: str, call: ast.Call) -> None:
        before = self.names.get(owner.id, NOT_KNOWN)
        if name == "append" and len(call.args) == 1:
            more = self.held(call.args[0])
            more = Held((more.text,)) if more.text is not None and not more.maybe else more
            put(self.names, owner.id, _sum(before, more))
        elif name == "extend" and len(call.args) == 1:
            put(self.names, owner.id, _sum(before, self.held(call.args[0])))
        elif owner.id in self.names:
            self.changed(owner)

    def environment(self, call: ast.Call, name: str) -> None:
        """os.environ.setdefault and pop."""
        key = call.args[0]
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and _environ(owner)):
            return
        held = self.held(call.args[1]) if name == "setdefault" and call.args[1:] else scalar("")
        put(self.names, f"environ:{key.value}", held)

    def passed(self, call: ast.Call) -> dict[str, str]:
        """Variables in effect for a process that a call starts."""
        inherited = {
            name.removeprefix("environ:"): held.text
            for name, held in self.names.items()
            if name.startswith("environ:SGLANG_") and held.text and not held.open
        }
        given = next((k.value for k in call.keywords if k.arg == "env"), None)
        if given is None:
            return inherited
        if isinstance(given, ast.Name):
            held = self.names.get(given.id, NOT_KNOWN)
            return dict(variables(held.words))
        return dict(variables(self.held(given).words))

    def run(self, held: Held, node: ast.AST, rank: int, env: dict[str, str]) -> None:
        """The launch of a command that is a list, or of a script that is a string."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.used.add(inner.id) if rank == SURE else None
        if not held.every or not (_holds_program(held) or is_option(held.every[0])):
            return
        line = self.line_of(node)
        if held.text is not None:
            found = in_script(held.text, line=line, depth=1)
        else:
            sure = bool(held.words)
            launch = from_words([plain(word) for word in (held.words if sure else held.every)])
            if launch and not sure:
                launch = replace(launch, argv=(), maybe=launch.argv)
            found = [launch] if launch else []
            held = held if sure else replace(held, maybe=())
        for one in found:
            maybe = (*one.maybe, *map(plain, held.maybe), *(("$_",) if held.open else ()))
            rank_ = max(rank, one.rank)
            self.launches.append(
                replace(one, rank=rank_, env={**env, **one.env}, maybe=maybe, line=line)
            )

    def engine(self, call: ast.Call) -> None:
        """Keyword arguments of the engine, as the flags of the same names."""
        argv: list[str] = []
        unread: list[str] = []
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg is None:
                unread.append("**" + ast.unparse(value)[:MAX_SHOWN])
            elif isinstance(value, ast.Constant) and (value.value is None or value.value is False):
                continue
            else:
                held = self.held(value)
                text = held.text if held.text is not None else None
                if isinstance(value, ast.Constant) and value.value is True:
                    argv.append("--" + keyword.arg.replace("_", "-"))
                elif text is None or "$" in text or held.open:
                    unread.append(keyword.arg)
                else:
                    argv += ["--" + keyword.arg.replace("_", "-"), text]
        if argv or unread:
            env = self.passed(ast.Call(call.func, [], []))
            line = self.line_of(call)
            self.launches.append(Launch(tuple(argv), env=env, line=line, open=tuple(unread)))

    def line_of(self, node: ast.AST) -> int:
        return self.line + getattr(node, "lineno", 1) - 1

    def never_used(self) -> None:
        """Commands that a name holds and that nothing in the text starts."""
        for name, line in self.programs.items():
            held = self.names.get(name)
            if name in self.used or held is None:
                continue
            self.run(held, ast.Pass(lineno=line - self.line + 1), SURE, self.passed(_NO_CALL))

    def held(self, node: ast.AST) -> Held:
        """What an expression is, if it is one of literals; "$..." stands for what is not known."""
        if isinstance(node, ast.Constant):
            return scalar(_literal(str(node.value))) if node.value is not None else scalar("None")
        if isinstance(node, (ast.List, ast.Tuple)):
            return _joined(self.item(item) for item in node.elts)
        if isinstance(node, ast.Dict):
            return self.mapping(node)
        if isinstance(node, ast.Name):
            return self.names.get(node.id) or scalar(f"${node.id}")
        if isinstance(node, ast.JoinedStr):
            return scalar("".join(self.piece(value) for value in node.values))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return _sum(self.held(node.left), self.held(node.right))
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.held(node.operand)
            return scalar(f"-{inner.text}") if (inner.text or "").isdigit() else scalar("$_")
        return scalar("$" + _written(node))

    def mapping(self, node: ast.Dict) -> Held:
        """A dict as NAME=value words; what it unpacks besides is not known."""
        words: list[str] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = self.held(value)
                words += [word for word in inner.words if "=" in word]
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                words.append(f"{key.value}={self.held(value).text}")
        return Held(tuple(words), open=True)

    def called(self, node: ast.Call) -> Held:
        """str(x), "...".split(), shlex.split("..."), " ".join([...]); else it is not known."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "str" and len(node.args) == 1:
            return self.held(node.args[0])
        if name == "list" and len(node.args) == 1:
            return self.held(node.args[0])
        if name == "split":
            text = self.held(node.args[0] if node.args else owner or node.func).text
            if text is not None:
                first = next(commands(text), None)
                words = [word.text for word in first.words] if first else []
                return Held(tuple(words))
        if name == "join" and len(node.args) == 1 and isinstance(owner, ast.Constant):
            items = self.held(node.args[0])
            if items.text is None and owner.value == " ":
                unknown = ["$_"] if items.open or items.maybe else []
                return scalar(" ".join([*items.words, *unknown]))
        return scalar("$" + _written(node.func))

    def item(self, node: ast.expr) -> Held:
        if isinstance(node, ast.Starred):
            inner = self.held(node.value)
            unknown = inner.text is not None and inner.text.startswith("$")
            return Held(("$*" + (inner.text or "_")[1:],)) if unknown else inner
        held = self.held(node)
        if held.text is None:
            return Held(("$_",))
        return Held((held.text,))

    def piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.FormattedValue):
            held = self.held(node.value)
            return held.text if held.text is not None and not node.format_spec else "$_"
        return self.held(node).text or ""


_NO_CALL = ast.Call(ast.Name("run", ast.Load()), [], [])


def _joined(items: Iterator[Held]) -> Held:
    words: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    unknown = False
    for item in items:
        words, maybe, unknown = (*words, *item.words), (*maybe, *item.maybe), unknown or item.open
    return Held(words, None, maybe, unknown)


def _sum(one: Held, other: Held) -> Held:
    if one.text is not None and other.text is not None:
        return scalar(one.text + other.text)
    return _joined(iter((one, other)))


def _literal(text: str) -> str:
    for sign, stand_in in LITERAL.items():
        text = text.replace(sign, stand_in)
    return text


def _written(node: ast.AST) -> str:
    """An expression that is not known, by the name in it."""
    name = next((n.id for n in ast.walk(node) if isinstance(n, ast.Name)), "_")
    attribute = node.attr if isinstance(node, ast.Attribute) else ""
    return f"{name}.{attribute}" if attribute else name


def _adds(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)


def _printed(node: ast.stmt) -> bool:
    """Whether it is a dump that a log prints, and no call: ServerArgs(...) on a line of its own."""
    value = getattr(node, "value", None)
    func = value.func if isinstance(value, ast.Call) else None
    if not (isinstance(func, ast.Name) and func.id == "ServerArgs" and isinstance(value, ast.Call)):
        return False
    if isinstance(node, ast.Expr):
        return True
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    close = isinstance(target, ast.Name) and target.end_col_offset == value.col_offset - 1
    return close and isinstance(target, ast.Name) and target.id == "server_args"


def _environ(node: ast.AST | None) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else ""
    name = node.id if isinstance(node, ast.Name) else name
    return name == "environ"


def _variable(node: ast.AST) -> str:
    """The variable of the environment that an expression like os.environ["X"] is."""
    if not (isinstance(node, ast.Subscript) and _environ(node.value)):
        return ""
    key = node.slice
    return str(key.value) if isinstance(key, ast.Constant) else ""


def _holds_program(held: Held) -> bool:
    return bool(HOLDS_PROGRAM.search(" ".join(held.every)))


def _of_flags(node: ast.List) -> bool:
    """Whether a list begins with a flag, so that it is a list of arguments."""
    texts = [item.value for item in node.elts if isinstance(item, ast.Constant)]
    first = texts[0] if texts else None
    return isinstance(first, str) and is_option(first) and any(names_sizing(str(t)) for t in texts)
