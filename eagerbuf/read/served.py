"""The model that a launch command or a start-up log names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from eagerbuf.read.launch import Launch
from eagerbuf.read.text import pattern, places

MAX_PLACES = 256  # of the model's name in a log
MAX_NAME = 300  # characters from a field's name to the end of its value

_FLAGS = ("--model-path", "--model")
_FIELD = pattern(r"model_path[\"']?\s*[=:]\s*[\"']([^\"'\n]+)[\"']")


def served_model(launches: Sequence[Launch], text: str) -> str | None:
    """The model's path or name: the commands' if they agree on one, else the last of a log."""
    named = {name for launch in launches for name in _argument(launch.argv)}
    if named:
        return named.pop() if len(named) == 1 else None
    for place in reversed(places(text, "model_path")[-MAX_PLACES:]):
        field = _FIELD.match(text, place, place + MAX_NAME)
        if field:
            return field[1]
    return None


def _argument(argv: Sequence[str]) -> Iterator[str]:
    """The value of the last flag that names the model, if there is one."""
    joined = tuple(f"{flag}=" for flag in _FLAGS)
    found = [value for flag, value in pairwise(argv) if flag in _FLAGS]
    found += [word.partition("=")[2] for word in argv if word.startswith(joined)]
    yield from found[-1:]
