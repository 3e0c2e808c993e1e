"""Stacks as people may read them: paths relative to a package, the blocking calls in one line."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path

_BEGINS = r"(?<![\w.:/-])"
_PATH = re.compile(_BEGINS + r"/[^\s\"':,;()\[\]]+")
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+ in (?P<function>.+)$', re.MULTILINE)
_WRAPPERS = ("torch/distributed/c10d_logger.py", "torch/utils/_contextlib.py")
_OUTERMOST = ("run_rank",)


def _roots() -> list[str]:
    """Folders that packages are imported from, the most specific one first."""
    named = [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    package = str(Path(__file__).resolve().parents[3])
    roots = {os.path.abspath(path) for path in [*named, *filter(None, sys.path), package]}
    return sorted(roots - {"/"}, key=len, reverse=True)


def relative(text: str) -> str:
    """The text with every absolute path made relative to the package that it belongs to.

    A path under no known package keeps its last two parts. Known folders may have blanks in them.
    """
    known = re.compile(f"{_BEGINS}(?:{'|'.join(map(re.escape, _roots()))})/")
    return _PATH.sub(_last_two, known.sub("", text))


def _last_two(match: re.Match[str]) -> str:
    return "/".join(match[0].split("/")[-2:]).lstrip("/")


def blocked_in(stack: str) -> str:
    """The calls of a stack, innermost first, joined with " < ", down to the rank's own start."""
    calls: list[str] = []
    for frame in _FRAME.finditer(relative(stack)):
        if frame["function"] in _OUTERMOST:
            break
        if frame["path"] not in _WRAPPERS:
            calls.append(frame["function"])
    return " < ".join(calls)
