"""Where the package's data files are: inside an installed wheel, or in `data/` of a checkout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # imported where a Path is asked for: a check of a command needs none

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_PLACES = (os.path.join(_PACKAGE, "data"), os.path.join(os.path.dirname(_PACKAGE), "data"))


def data_path(name: str) -> Path:
    """Path of the data file `name`; FileNotFoundError naming it if the installation lacks it."""
    from pathlib import Path

    return Path(_find(name))


def read_data(name: str) -> bytes:
    """What the data file `name` holds; FileNotFoundError as for `data_path`."""
    with open(_find(name), "rb") as file:
        return file.read()


def _find(name: str) -> str:
    for place in _PLACES:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"data file {name} is missing from this installation of eagerbuf")
