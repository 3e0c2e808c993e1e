"""Launches in a shell script: literals put in place, conditions followed, nothing run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eagerbuf.read.launch import (
    BARE,
    HOLDS_PROGRAM,
    SURE,
    TOLD,
    Launch,
    from_words,
    program_end,
    tag_release,
    variables,
)
from eagerbuf.read.options import is_option
from eagerbuf.read.text import of_words, pattern, shown
from eagerbuf.read.words.held import (
    NOT_KNOWN,
    Held,
    Names,
    either,
    exported,
    in_place,
    merged,
    put,
    scalar,
)
from eagerbuf.read.words.shell import Command, Var, Word, commands, flags_and_values, plain

MAX_DEPTH = 4  # scripts inside scripts, calls inside calls
MAX_LAUNCHES = 64
MAX_COMMANDS = 2**16  # of a script
MAX_CALLS = 64  # of functions
MAX_OPEN = 64  # blocks in each other

_KEYWORDS = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "select",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "{",
        "}",
        "!",
        "time",
    ]
)
_OPENS = frozenset(("if", "while", "until", "for", "select", "case", "("))
_CLOSES = {"fi": "if", "done": "loop", "esac": "case", ")": "("}
_LOOPS = frozenset(("while", "until", "for", "select"))
_ASSIGNED = pattern(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+)?=")
_EXPORTS = frozenset(("export", "declare", "typeset", "local", "readonly", "setenv", "ENV"))
_READS = frozenset(("read", "mapfile", "readarray", "getopts"))
_SPEAKS = of_words(
    "echo printf print grep egrep fgrep rg pgrep pkill killall sed awk test [ [[ trap alias jq"
    " logger cat tee ps which man"
)
_RUNS = of_words(
    "sglang docker podman nerdctl srun mpirun mpiexec env nohup numactl taskset sudo exec ssh eval"
    " kubectl singularity apptainer enroot uv uvx conda mamba nsys ncu stdbuf timeout setsid bash"
    " sh zsh torchrun ray poetry command nice ionice unbuffer script tini pdsh clush pssh oc xargs"
    " systemd-run screen tmux su runuser time pipenv pdm hatch jsrun aprun flux"
    " sbatch salloc CMD RUN ENTRYPOINT strace gdb"
)
_ISOLATES = frozenset(
    [
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "oc",
        "ssh",
        "pdsh",
        "clush",
        "pssh",
        "sudo",
        "su",
        "runuser",
        "mpirun",
        "mpiexec",
    ]
)
_CLEARS = pattern(r"--export=(?!ALL\b)(?P<names>.*)|--cleanenv|-C?e$|-i$|--ignore-environment")
_PREFIX = pattern(r"(?:ExecStart|command|CMD|RUN|ENTRYPOINT)[ ]*=[ ]*(?=\S)|\$(?=python|sglang)")
_POWERSHELL = pattern(r"\$env:(?P<name>\w+)[ ]?=[ ]?(?P<value>\S*)")
_GLUED = pattern(r"-?\d+[$`]")  # flags may follow such a number
_PROGRAM = pattern(r"launch_server|one_batch|bench_offline_throughput|sglang|--[a-z]")


@dataclass
class _Open:
    """A block that is open: the names before it, and those after the branches that are over."""

    kind: str
    before: Names
    results: list[Names] = field(default_factory=list)
    all_ways: bool = False  # one of its branches runs for certain


def in_script(
    text: str,
    *,
    names: Names | None = None,
    made: Mapping[str, str] | None = None,
    line: int = 1,
    depth: int = 0,
    files: dict[str, list[str]] | None = None,
) -> list[Launch]:
    """Every launch in shell text, in order; the script in quotes of another command too.

    `names`: what the script inherits; `made`: what $(NAME) stands for; `line`: its first in the
    text; `files`: takes the here-documents it writes, by the file's last name.
    ValueError if there are over `MAX_LAUNCHES`.
    """
    if depth > MAX_DEPTH or not _PROGRAM.search(text):
        return []
    walk = _Walk(text, dict(names or {}), made or {}, line, depth, {} if files is None else files)
    walk.run(0, len(walk.items))
    walk.never_used()
    return walk.launches


Item = tuple[str, "Command | str"]


def _items(text: str) -> list[Item]:
    """Commands with the keywords before them, and what ends them, one after the other."""
    found: list[Item] = []
    caller = ""
    for count, command in enumerate(commands(text)):
        if count > MAX_COMMANDS:
            if HOLDS_PROGRAM.search(text, command.end):
                raise ValueError(f"text: over {MAX_COMMANDS} commands; give the launch command")
            break
        words = command.words
        command.caller = caller
        caller = words[-1].text if command.op == "(" and words else ""
        while words and not words[0].quoted and words[0].text in _KEYWORDS:
            word = words.pop(0).text
            found.append(("keyword", word))
            if word in ("for", "case", "select"):
                break
        if command.op == "()":
            names = [word.text for word in words if word.text != "function"]
            found.append(("function", names[-1] if names else ""))
            continue
        if words or command.here:
            found.append(("command", command))
        if command.op in ("(", ")"):
            found.append(("keyword", command.op))
        elif command.op:
            found.append(("op", command.op))
    return found


class _Walk:
    def __init__(
        self,
        text: str,
        names: Names,
        made: Mapping[str, str],
        line: int,
        depth: int,
        files: dict[str, list[str]],
    ) -> None:
        self.text, self.names, self.made, self.line, self.depth = text, names, made, line, depth
        self.files = files
        self.items = _items(text)
        self.open: list[_Open] = []
        self.bodies: dict[str, tuple[int, int]] = {}
        self.calls = 0
        self.launches: list[Launch] = []
        self.programs: dict[str, int] = {}  # names that hold a program's command, by line
        self.every_export = False
        self.counted, self.at = 0, 0

    def run(self, start: int, end: int) -> None:
        """Follow the items of a script or of a function's body."""
        position, floor = start, len(self.open)
        while position < end:
            kind, value = self.items[position]
            position += 1
            if kind == "function":
                position = self.body(str(value), position, end)
            elif isinstance(value, Command):
                header = position > 1 and self.items[position - 2][1] in ("for", "select", "case")
                following = self.items[position][1] if position < end else ""
                if header:
                    self.loops_over(value, position)
                elif following == ")" and self.open and self.open[-1].kind == "case":
                    self.open[-1].all_ways |= value.words[-1:] != [] and value.words[-1].text == "*"
                else:
                    self.command(value)
            elif kind == "op":
                self.operator(value)
            else:
                self.keyword(value, position, end)
        while len(self.open) > floor:
            self.close(self.open[-1].kind)

    def body(self, name: str, position: int, end: int) -> int:
        """Keep where a function's body is; it is followed where the function is called."""
        while position < end and self.items[position] == ("op", "\n"):
            position += 1
        if position >= end or self.items[position][1] != "{":
            return position
        level, start = 0, position + 1
        while position < end:
            level += {"{": 1, "}": -1}.get(str(self.items[position][1]), 0)
            position += 1
            if level == 0:
                break
        self.bodies[name] = (start, position)
        return position

    def keyword(self, word: str, position: int, end: int) -> None:
        """Open a block, go to its next branch, or close it."""
        if word in _OPENS and len(self.open) < MAX_OPEN:
            kind = "loop" if word in _LOOPS else word
            if kind == "loop":
                self.changed_below(position, end)
            self.open.append(_Open(kind, dict(self.names)))
        elif word in ("elif", "else"):
            self.end_lists()
            if self.open and self.open[-1].kind == "if":
                self.open[-1].all_ways |= word == "else"
                self.open[-1].results.append(self.names)
                self.names = dict(self.open[-1].before)
        elif word in _CLOSES:
            self.end_lists()
            if self.open and self.open[-1].kind == _CLOSES[word]:
                self.close(_CLOSES[word])
        elif word == "}":
            self.end_lists()

    def close(self, kind: str) -> None:
        block = self.open.pop()
        if kind == "(":
            self.names = block.before
            return
        if kind != "case" or not block.all_ways:
            block.results.append(self.names)
        if not block.all_ways:
            block.results.append(block.before)
        self.names = merged(block.results or [self.names])

    def operator(self, op: str) -> None:
        """What follows && or || may run or not; ;; ends a branch of a case."""
        if op in ("&&", "||"):
            if not (self.open and self.open[-1].kind == "&&") and len(self.open) < MAX_OPEN:
                self.open.append(_Open("&&", dict(self.names)))
        elif op not in ("|", "|&"):
            self.end_lists()
        if op == ";;" and self.open and self.open[-1].kind == "case":
            self.open[-1].results.append(self.names)
            self.names = dict(self.open[-1].before)

    def end_lists(self) -> None:
        while self.open and self.open[-1].kind == "&&":
            self.close("&&")

    def changed_below(self, position: int, end: int) -> None:
        """Names that a loop assigns may hold anything in it from its second round on."""
        level = 1
        for kind, value in self.items[position:end]:
            level += (value in _LOOPS) - (value == "done") if kind == "keyword" else 0
            if level == 0:
                break
            if isinstance(value, Command):
                for word in value.words[:8]:
                    assigned = _assignment(word)
                    if assigned and assigned[0] in self.names:
                        self.names[assigned[0]] = NOT_KNOWN

    def loops_over(self, command: Command, position: int) -> None:
        if command.words and self.items[position - 2][1] != "case":
            put(self.names, command.words[0].text, NOT_KNOWN)

    def line_of(self, place: int) -> int:
        """The line of a place in the text; places come in order."""
        if place >= self.at:
            self.counted += self.text.count("\n", self.at, place)
            self.at = place
            return self.line + self.counted
        return self.line + self.text.count("\n", 0, place)

    def command(self, command: Command) -> None:
        """Assignments take effect; a program's name makes a launch; a function is followed."""
        words = list(command.words)
        prefix: list[Word] = []
        while words and _assignment(words[0]) and not _unit(words[0]):
            prefix.append(words.pop(0))
        for word in prefix:
            assigned = _assignment(word)
            if not words:
                self.assign(word, export=self.every_export)
            elif word.array is not None and assigned:  # no shell knows what it holds then
                put(self.names, assigned[0], NOT_KNOWN)
        head = words[0].text if words else ""
        shell = _POWERSHELL.fullmatch(" ".join(word.text for word in words[:3]))
        if shell:
            put(self.names, shell["name"], replace(scalar(shell["value"]), exported=True))
        elif head in _EXPORTS or head == "set":
            self.exports(words)
        elif head == "unset":
            for word in words[1:]:
                put(self.names, word.text, scalar(""))
        elif head in _READS or (head == "printf" and len(words) > 2 and words[1].text == "-v"):
            for word in words[1:]:
                put(self.names, word.text, NOT_KNOWN)
        elif head in ("source", "."):
            self.names = {name: either(held, None) for name, held in self.names.items()}
        if head in self.bodies and self.calls < MAX_CALLS and self.depth < MAX_DEPTH:
            self.calls += 1
            self.depth += 1
            body = self.bodies.pop(head)
            self.run(*body)
            self.bodies[head] = body
            self.depth -= 1
            self.programs.setdefault(head, 0)
        elif words:
            self.starts(command, prefix, words)
        self.rewrites(command, head)
        for here in command.here:
            self.document(command, here.body, here.expands, here.start)

    def rewrites(self, command: Command, head: str) -> None:
        """A file that is written without its text being here holds what nobody knows."""
        edits = command.words[1:] if head in ("sed", "yq", "perl") else []
        for name in (*(word.text for word in edits), *([] if command.here else command.files)):
            self.files.setdefault(name.rsplit("/", 1)[-1], []).append("")

    def assign(self, word: Word, *, export: bool) -> None:
        """Let a name hold what is assigned to it; what cannot be known stays as written."""
        assigned = _assignment(word)
        if assigned is None:
            return
        name, more = assigned
        before = self.names.get(name)
        held = self.value(word)
        if more and before is None:
            held = replace(held, open=True)
        elif more and before is not None:
            held = _added(before, held, array=word.array is not None)
        export = export or (before is not None and before.exported)
        put(self.names, name, replace(held, exported=export))
        if HOLDS_PROGRAM.search(" ".join(held.words)):
            self.programs[name] = self.line_of(word.start)

    def value(self, word: Word) -> Held:
        if word.array is None:
            rest = Word(word.start, [*_behind_name(word)], quoted=True)
            quoted = [p if isinstance(p, str) else p._replace(quoted=True) for p in rest.parts]
            if len(quoted) == 1 and isinstance(quoted[0], Var) and quoted[0].name:
                known = self.names.get(quoted[0].name)
                if known is not None and not quoted[0].every:
                    return replace(known, exported=False)
            (text,), _ = in_place(Word(word.start, ["", *quoted]), self.names, self.made)
            return scalar(text)
        held = Held()
        for item in word.array:
            words, maybe = in_place(item, self.names, self.made)
            held = replace(held, words=(*held.words, *words), maybe=(*held.maybe, *maybe))
        return held

    def exports(self, words: Sequence[Word]) -> None:
        """export, declare -x, set -a, set X=1 and the like; export -n takes back."""
        head, flags = words[0].text, [w.text for w in words[1:] if w.text[:1] in "-+"]
        joined = " ".join(flags)
        if head == "set":
            if re.search(r"-\w*a|-o", joined) and (joined != "-o" or _names(words, "allexport")):
                self.every_export = "-a" in joined or _names(words, "allexport")
            elif "+a" in joined or "+o" in joined:
                self.every_export = False
        export = head in ("export", "setenv", "ENV", "set") or "x" in joined
        rest = [word for word in words[1:] if word.text[:1] not in "-+"]
        if head in ("ENV", "setenv") and len(rest) == 2 and not _assignment(rest[0]):
            put(self.names, rest[0].text, replace(scalar(rest[1].text), exported=True))
            return
        for word in rest:
            if _assignment(word):
                self.assign(word, export=export)
            elif word.text in self.names:
                held = self.names[word.text]
                self.names[word.text] = replace(held, exported=export and "-n" not in flags)

    def starts(self, command: Command, prefix: Sequence[Word], words: Sequence[Word]) -> None:
        """The launches of a command: its own, or those of a script among its words."""
        parts = (part for word in words for part in word.parts)
        tells = any(isinstance(part, Var) or HOLDS_PROGRAM.search(part) for part in parts)
        if not (tells or words[0].text.startswith("--") or _serves(words)):
            return
        texts: list[str] = []
        maybe: list[str] = []
        speaks = plain(words[0].text).rsplit("/", 1)[-1] in _SPEAKS or _speaks(command.caller)
        for word in words:
            if not speaks and isinstance(word.parts[-1] if word.parts else "", Var):
                self.programs.pop(getattr(word.parts[-1], "name", ""), None)
            found, more = in_place(word, self.names, self.made)
            texts += found
            maybe += more
            maybe += [text[glued.end() - 1 :] for text in found if (glued := _GLUED.match(text))]
        texts[:1] = [_PREFIX.sub("", texts[0], count=1)] if texts else []
        env = self.around(prefix, texts)
        place = self.line_of(words[0].start)
        told = TOLD if speaks or not _runs(texts[0] if texts else "") else SURE
        scripts = [t for t in texts if re.search(r"\s", t) and HOLDS_PROGRAM.search(t)]
        if texts[:1] == ["eval"]:
            scripts = [" ".join(texts[1:])]
        if scripts and (program_end([plain(text) for text in texts]) is None or speaks):
            self.inner(scripts, texts, maybe, env, told, place)
            return
        launch = from_words([plain(text) for text in texts])
        if launch is None or not self.launches_it(launch, texts):
            return
        if launch.rank == BARE and self.orphans(launch):
            return
        rank = launch.rank if launch.rank == BARE else told
        if rank == TOLD and not speaks:
            before = shown(plain(texts[0]))
            hidden = f"{before}: stands before the command, and is not known to run it; drop it"
            launch = replace(launch, hidden=hidden)
        self.add(launch, command, {**env, **launch.env}, rank, maybe, place)

    def launches_it(self, launch: Launch, texts: Sequence[str]) -> bool:
        """Whether the program's name is where a command has it, and no word of prose."""
        found = program_end(list(map(plain, texts)))
        if launch.rank == BARE or found is None:
            return launch.rank == BARE
        end = found[0]
        name, before = texts[end - 1], texts[: end - 1]
        if name == "serve":
            return len(before) > 0
        return before[-1:] == ["-m"] or name.endswith(".py") or not before or _runs(before[0])

    def add(
        self,
        launch: Launch,
        command: Command,
        env: Mapping[str, str],
        rank: int,
        maybe: Sequence[str],
        line: int,
    ) -> None:
        notes = []
        if command.cut:
            notes.append(
                f"line {line}: {command.cut} after a backslash ends the command there, as in a "
                "shell; what follows is no part of it"
            )
        if command.joined:
            notes.append(
                f"line {line}: lines of flags without a backslash before them are read as part of "
                "the command"
            )
        odd = "a quote is opened and not closed, so a shell would not run it; close it"
        problem = f"line {line}: {odd}" if command.odd else ""
        maybe = tuple(map(plain, (*launch.maybe, *maybe)))
        found = replace(launch, env=env, rank=rank, maybe=maybe, line=line, problem=problem)
        self.launches.append(replace(found, notes=(*launch.notes, *notes)))
        if len(self.launches) > MAX_LAUNCHES:
            raise ValueError(f"text: over {MAX_LAUNCHES} launch commands; give one")

    def orphans(self, launch: Launch) -> bool:
        """Flags at a line's start below a command: the shell's next command, or nobody knows."""
        if not self.launches or self.launches[-1].rank == BARE:
            return False
        last = self.launches[-1]
        cut = any(" after a backslash ends the command" in note for note in last.notes)
        words = ("x" if " " in word else word for word in launch.argv)
        if not cut and flags_and_values(" ".join(words), 0):  # and no prose
            flags = shown(" ".join(launch.argv[:2]))
            hidden = f"{flags}: below the command, and no backslash joins them; join or drop them"
            self.launches[-1] = replace(last, hidden=hidden)
        return True

    def inner(
        self,
        scripts: Sequence[str],
        texts: Sequence[str],
        maybe: Sequence[str],
        env: Mapping[str, str],
        rank: int,
        line: int,
    ) -> None:
        """The launches of scripts in quotes; they inherit what is exported."""
        inherited = {n: replace(scalar(v), exported=True) for n, v in env.items()}
        isolated = any(text.rsplit("/", 1)[-1] in _ISOLATES for text in texts)
        if texts[:1] == ["eval"]:
            inherited = {**self.names, **inherited}
        elif not isolated:
            inherited |= {n: held for n, held in self.names.items() if held.exported}
        release = tag_release(texts)
        for script in scripts:
            found = in_script(
                plain(script), names=inherited, made=self.made, line=line, depth=self.depth + 1
            )
            for launch in found:
                told = max(launch.rank, rank) if launch.rank != BARE else BARE
                self.launches.append(
                    replace(
                        launch,
                        rank=told,
                        maybe=(*launch.maybe, *maybe),
                        release=launch.release or release,
                    )
                )

    def document(self, command: Command, body: str, expands: bool, start: int) -> None:
        """A here-document: a file that is written, or a script that another command runs."""
        tee = command.words[1:] if command.words and command.words[0].text == "tee" else []
        for name in (*command.files, *(word.text for word in tee)):
            self.files.setdefault(name.rsplit("/", 1)[-1], []).append(body)
        names = self.names if expands else {n: h for n, h in self.names.items() if h.exported}
        if command.files or any(w.text.rsplit("/", 1)[-1] in _ISOLATES for w in command.words):
            kept = self.names.items() if expands else ()
            names = {name: replace(held, exported=False) for name, held in kept}
        self.launches += in_script(
            body, names=names, made=self.made, line=self.line_of(start), depth=self.depth + 1
        )

    def around(self, prefix: Sequence[Word], texts: Sequence[str]) -> dict[str, str]:
        """SGLANG_ variables in effect for a command."""
        found = program_end(list(map(plain, texts)))
        before = texts[: found[0]] if found else texts
        env = {n: v for n, v in exported(self.names).items() if n.startswith("SGLANG_")}
        bases = {text.rsplit("/", 1)[-1] for text in before}
        if bases & _ISOLATES and not {"-E", "--preserve-env"} & bases:
            passed = {t.removeprefix("--env=").removeprefix("-e") for t in before}
            env = {name: value for name, value in env.items() if name in passed}
        for i, text in enumerate(before):
            clears = _CLEARS.fullmatch(text)
            if clears and (text[:2] == "--" or "env" in bases):
                kept = (clears["names"] or "").split(",")
                env = {name: value for name, value in env.items() if name in kept}
            if text in ("-u", "--unset") and "env" in bases:
                env.pop(before[i + 1] if i + 1 < len(before) else "", None)
            for one in text.partition("=")[2].split(",") if text[:9] == "--export=" else ():
                env.update(variables([one]))
        for word in prefix:
            (text,), _ = in_place(Word(0, ["", *word.parts]), self.names, self.made)
            env |= dict(variables([plain(text)]))
            if "$" in text:
                env.pop(text.partition("=")[0], None)
        return {**env, **dict(variables(map(plain, before)))}

    def never_used(self) -> None:
        """Commands that a name holds, but that nothing in the text starts; functions not called."""
        for name, body in list(self.bodies.items()):
            if name not in self.programs:
                self.run(*body)
        for name, line in self.programs.items():
            held = self.names.get(name)
            if held is None or not line:
                continue
            launch = from_words([plain(word) for word in held.words])
            if launch and launch.rank != BARE:
                self.add(launch, Command(), launch.env, TOLD, held.maybe, line)


def _serves(words: Sequence[Word]) -> bool:
    return any(word.text.endswith("sglang") for word in words)


def _names(words: Sequence[Word], name: str) -> bool:
    return any(word.text == name for word in words)


def _assignment(word: Word) -> tuple[str, bool] | None:
    """The name that a word assigns to, and whether it adds to it."""
    first = word.parts[0] if word.parts else ""
    match = _ASSIGNED.match(first) if isinstance(first, str) else None
    return (match["name"], bool(match["more"])) if match else None


def _unit(word: Word) -> bool:
    return word.text.startswith(("ExecStart=", "command="))


def _behind_name(word: Word) -> list[str | Var]:
    first = word.parts[0]
    match = _ASSIGNED.match(first) if isinstance(first, str) else None
    if match is None or not isinstance(first, str):
        return list(word.parts)
    return [first[match.end() :], *word.parts[1:]]


def _added(before: Held, more: Held, *, array: bool) -> Held:
    if not array and before.text is not None and more.text is not None:
        return replace(scalar(before.text + more.text), open=before.open)
    if before.maybe or more.maybe or array:
        words = (*before.words, *more.words)
        return Held(words, None, (*before.maybe, *more.maybe), before.open or more.open)
    return Held((), None, (*before.every, *more.every), before.open or more.open)


def _speaks(caller: str) -> bool:
    """Whether code calls something that only prints: print(...), logger.info(...)."""
    owner, _, name = caller.rpartition(".")
    return name in _SPEAKS or owner in ("logger", "logging", "log")


def _runs(head: str) -> bool:
    """Whether a first word runs programs: python, a path, a wrapper, a variable."""
    name = plain(head).rsplit("/", 1)[-1]
    return (
        name in _RUNS
        or "/" in head
        or name.startswith(("python", "$", "-", "pypy", "<"))
        or is_option(head)
        or name == "launch_server"
    )
