"""Stacks as people may read them: paths relative to a package, the blocking calls in one line."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_BEGINS = r"(?<![\w.:/-])"
_PATH = re.compile(_BEGINS + r"/[^\s\"':,;()\[\]]+")
_FRAME = re.compile(
    r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<call>.+)$', re.MULTILINE
)
_WRAPPERS = ("torch/distributed/c10d_logger.py", "torch/utils/_contextlib.py")


def _roots(more: Iterable[str]) -> list[str]:
    """Folders that packages are imported from, the most specific one first."""
    named = [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    package = str(Path(__file__).resolve().parent.parent.parent)
    roots = {os.path.abspath(p) for p in [*named, *filter(None, sys.path), package, *more]}
    return sorted(roots - {"/"}, key=len, reverse=True)


def relative(text: str, roots: Iterable[str] = ()) -> str:
    """The text with every absolute path made relative to the package that it belongs to.

    `roots` are further folders that packages are imported from. A path under no known folder keeps
    its last two parts. Known folders may have blanks in them.
    """
    known = re.compile(f"{_BEGINS}(?:{'|'.join(map(re.escape, _roots(roots)))})/")
    return _PATH.sub(_last_two, known.sub("", text))


def _last_two(match: re.Match[str]) -> str:
    return "/".join(match[0].split("/")[-2:]).lstrip("/")


def blocked_in(stack: str, outermost: Iterable[str] = ()) -> str:
    """The calls of a stack, innermost first, joined with " < ", down to one of `outermost`."""
    calls: list[str] = []
    for frame in _FRAME.finditer(relative(stack)):
        if frame["call"] in outermost:
            break
        if frame["path"] not in _WRAPPERS:
            calls.append(frame["call"])
    return " < ".join(calls)
