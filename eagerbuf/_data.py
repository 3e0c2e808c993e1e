"""Where the package's data files are: inside an installed wheel, or in `data/` of a checkout."""

from __future__ import annotations

from pathlib import Path

_PLACES = (Path(__file__).parent / "data", Path(__file__).parent.parent / "data")


def data_path(name: str) -> Path:
    """Path of the data file `name`; FileNotFoundError naming it if the installation lacks it."""
    for place in _PLACES:
        if (place / name).is_file():
            return place / name
    raise FileNotFoundError(f"data file {name} is missing from this installation of eagerbuf")
