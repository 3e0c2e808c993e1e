"""SGLANG_ variables in effect for a command: exports before it, unit files, Dockerfiles, code."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from eagerbuf.read.commands import command_start
from eagerbuf.read.launch import variables
from eagerbuf.read.text import pattern
from eagerbuf.read.tokens import unquote

REACH = 2**14  # characters before a command in which its variables are set
MAX_SEARCHED = 2**18  # characters in which files of variables are looked for
MAX_EVENTS = 512  # variables and blocks before a command
MAX_ASIDE = 8  # subshells, here-documents, and functions before a command
MAX_ABOVE = 2**12  # characters of code above a line
MAX_BEFORE = 200  # characters of a statement before the variable's name

_EVENT = pattern(
    r"^[ \t]*(?P<opens>if|for|while|until|case)\b(?![^\n]*:[ \t]*(?:#[^\n]*)?$)"
    r"|\b(?P<closes>fi|done|esac)\b(?=[ \t]*(?:$|[;&|)<>#]))|^[ \t]*(?P<turns>elif|else)\b"
    r"|(?P<name>\bSGLANG_\w+)|^[ \t]*set[ \t](?P<all>[-+]a|[-+]o[ \t]+allexport)\b",
    re.MULTILINE,
)
_VALUE = pattern(r"[= ](\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"'#]*)")
_BETWEEN = pattern(r"[;|&(]|\b(?:then|do|else)\b")
_SUCCEEDS = pattern(
    r"(?:[^\n]*[;\n])?[ \t$>#]*(?:\w+=|\.[ \t]|(?:[\w./-]*/)?(?:cd|pushd|export|unset|set|source"
    r"|mkdir|ulimit|sudo|pip3?|uv|conda|module|echo|sysctl|ln|cp|rm|chmod|apt|apt-get|RUN|sleep"
    r"|git)\b)"
)
_HEREDOC = pattern(r"<<-?[ \t]*[\"']?(?P<end>\w+)[\"']?[^\n]*\n")
_FUNCTION = pattern(r"^[ \t]*(?:function[ \t]+)?(?P<name>\w+)[ \t]*\(\)\s*\{", re.MULTILINE)
_SUBSHELL = pattern(r"^[ \t]*\([^()\n]*\)", re.MULTILINE)
_CONDITION = pattern(r"[ \t]*(?:\[|test\b)")
_LEAD = r"[ \t]*(?:[$>%#][ \t]+)?(?:- )?"
_REST = r"(?:\w+=[^\s]*[ \t]+|\w+[ \t]+)*"
_EXPORT = pattern(
    rf"{_LEAD}(?:export|ENV|set|set -g?x|setenv|(?:declare|typeset) -g?x)[ \t]+{_REST}"
    r"|[ \t]*(?:[$>][ \t]+)?\$env:|[ \t]*- "
)
_UNSET = pattern(rf"{_LEAD}(?:unset(?:[ \t]+-v)?|export[ \t]+-n|set[ \t]+-e)[ \t]+{_REST}")
_PLAIN = pattern(rf"{_LEAD}(?:\w+=[^\s]*[ \t]+)*")
_ALONE = pattern(r"(?:[ \t]+\w+=\S*){0,8}[ \t]*(?:$|[;&|#\n])")  # no command that it is for
_COMMENT = pattern(r"[ \t]*#[ \t]*(?:export|SGLANG_)")
_IN_CODE = pattern(r"[ \t]*[\w.]*env\w*(?:\[|\.setdefault\()[\"']")
_CODE_VALUE = pattern(r"[\"'](?:\][ \t]*=|,)[ \t]*[\"']([^\"'\n]*)[\"']")
_PYTHON_BLOCK = pattern(r"[ \t]*(?:if|elif|else|for|while|except)\b")
_FILES = pattern(r"--env-file\b|\benvFrom:|\benv_file:|\bEnvironmentFile=|\benvironmentFiles\b")
_SECTION = pattern(r"^(?:\[[\w:@. -]{1,80}\][ \t]*$|FROM[ \t])", re.MULTILINE)
_DECLARES = pattern(r"^[ \t]*(?:ENV[ \t]|[Ee]nvironment[ \t]*=)(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_DECLARED = pattern(r"\b(SGLANG_\w+)[= ](\"[^\"\n]*\"|'[^'\n]*'|[^\s,\"']*)")
_ISOLATES = frozenset(
    (
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "ssh",
        "pdsh",
        "clush",
        "pssh",
        "sudo",
        "su",
        "runuser",
    )
)


def in_effect(text: str, place: int, before: Sequence[str] = ()) -> dict[str, str]:
    """SGLANG_ variables that a text sets for the command at `place`.

    `before`: the command's words before the program's name. What stands under a condition that is
    over, is not exported, or does not reach into a container or another host, is not in effect.
    """
    env = {**_exported(text, place), **_declared(text, place)}
    names = [word.rsplit("/", 1)[-1] for word in before]
    if any(name in _ISOLATES for name in names) and not {"-E", "--preserve-env"} & set(names):
        passed = {word.removeprefix("--env=").removeprefix("-e") for word in before}
        env = {name: value for name, value in env.items() if name in passed}
    for word in before:
        if word.startswith("--export="):
            env = _exported_by_srun(env, word.partition("=")[2].split(","))
    env = {} if "--cleanenv" in before else env
    if "env" in names:
        gone = {word.removeprefix("--unset=").removeprefix("-u") for word in before}
        env = {name: value for name, value in env.items() if name not in gone}
        env = {} if {"-i", "-", "--ignore-environment"} & set(before) else env
    return env


def _exported_by_srun(env: Mapping[str, str], listed: Sequence[str]) -> dict[str, str]:
    """What `srun --export` lets through, ALL or the names it lists, and what it sets."""
    passed = {n: value for n, value in env.items() if "ALL" in listed or n in listed}
    return {**passed, **dict(variables(listed))}


def _exported(text: str, place: int) -> dict[str, str]:
    """What statements before `place` export; a block that is over may have been passed by."""
    frames: list[dict[str, str | None]] = [{}]
    plain: dict[str, str] = {}
    every = False
    aside = _elsewhere(text, max(0, place - REACH), place)
    for match in list(_EVENT.finditer(text, max(0, place - REACH), place))[-MAX_EVENTS:]:
        if any(start <= match.start() < end for start, end in aside):
            continue
        if match["opens"]:
            frames.append({})
        elif match["all"]:
            every = match["all"][0] == "-"
        elif match["name"]:
            frames[-1].update(_statement(text, match, plain, every))
        elif len(frames) > 1:
            frames[-2].update(dict.fromkeys(frames.pop()))
            frames += [{}] if match["turns"] else []
    found = {name: value for frame in frames for name, value in frame.items()}
    return {name: value for name, value in found.items() if value is not None}


def _last(matches: Iterator[re.Match[str]]) -> Iterable[re.Match[str]]:
    return deque(matches, MAX_ASIDE)


def _elsewhere(text: str, floor: int, place: int) -> list[tuple[int, int]]:
    """Where text before `place` is not run there: files it writes, subshells, unused functions."""
    found = [match.span() for match in _last(_SUBSHELL.finditer(text, floor, place))]
    for match in _last(_HEREDOC.finditer(text, floor, place)):
        closing = re.compile(rf"^[ \t]*{match['end']}[ \t]*$", re.MULTILINE)
        last = closing.search(text, match.end(), place)
        found += [(match.end(), last.end())] if last else []
    for match in _last(_FUNCTION.finditer(text, floor, place)):
        end = text.find("\n}", match.end(), place)
        call = re.compile(rf"(?:^|[;&|({{])[ \t]*{match['name']}\b(?![ \t]*\()", re.MULTILINE)
        if end >= 0 and not call.search(text, end, place):
            found.append((match.end(), end))
    return found


def _statement(
    text: str, match: re.Match[str], plain: dict[str, str], every: bool
) -> dict[str, str | None]:
    """What the statement that names a variable does to it: {} nothing, None takes it away."""
    name, place = match["name"], match.start()
    line = command_start(text, place, MAX_BEFORE)
    before = text[line:place]
    if _COMMENT.match(before + "SGLANG_"):
        return {}
    sure = _sure(before)
    before = _BETWEEN.split(before)[-1].replace("\\\n", " ")
    value = _VALUE.match(text, match.end())
    if _UNSET.fullmatch(before):
        return {name: None}
    if _EXPORT.fullmatch(before):
        held = unquote(value[1]) if value else plain.get(name)
        return {name: held if sure else None}
    if _IN_CODE.fullmatch(text, line, place):
        return _in_code(text, match, line)
    if not (value and _PLAIN.fullmatch(before) and _ALONE.match(text, value.end())):
        return {}
    plain[name] = unquote(value[1])
    return {name: plain[name]} if every and sure else {}


def _sure(before: str) -> bool:
    """Whether what stands before a statement on its line lets it run whatever happens."""
    if _CONDITION.match(before) or "||" in before:
        return False
    return all(_SUCCEEDS.match(command) for command in before.split("&&")[:-1])


def _in_code(text: str, match: re.Match[str], line: int) -> dict[str, str | None]:
    """What a line of Python code sets in a mapping of variables."""
    code = _CODE_VALUE.match(text, match.end())
    sure = code and not _under_condition(text, line, match.start())
    return {match["name"]: code[1] if code and sure else None} if code else {}


def _under_condition(text: str, line: int, place: int) -> bool:
    """Whether the line of Python code that begins at `line` is part of an if or a loop."""
    indent = len(text[line:place]) - len(text[line:place].lstrip())
    above = text[max(0, line - MAX_ABOVE) : line].split("\n") if indent else []
    outer = (a for a in reversed(above) if a.strip() and len(a) - len(a.lstrip()) < indent)
    return bool(_PYTHON_BLOCK.match(next(outer, "")))


def _declared(text: str, place: int) -> dict[str, str]:
    """Variables of the unit, the supervised program or the image that the command belongs to."""
    start, end = max(0, place - REACH), place + REACH
    for section in _SECTION.finditer(text, start, end):
        if section.start() > place:
            end = section.start()
            break
        start = section.start()
    lines = _DECLARES.finditer(text, start, end)
    return {name: unquote(value) for line in lines for name, value in _DECLARED.findall(line[0])}


def doubts(text: str, env: Mapping[str, str], name: str, on: Sequence[str]) -> Iterator[str]:
    """A note where a text speaks of the switch `name`, or of files that may set it, in vain."""
    value = env.get(name, "")
    if value.lower() in on:
        return
    if name in text and (not value or re.search(r"[$`%{<]", value)):
        yield f"{name}: in the text, but not known to be on for each command: taken as off"
    files = _FILES.search(text[:MAX_SEARCHED])
    if files:
        yield f"{files[0].strip(' :=')}: what it sets is not known; {name} is taken as off"
