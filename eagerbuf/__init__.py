"""eagerbuf: how SGLang's eager runner sizes its static input buffers, reproduced and settled."""

from importlib import import_module
from os.path import splitext

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """Public name -> the module it lives in, from the lines of __init__.pyi."""
    with open(f"{splitext(__file__)[0]}.pyi", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in lines}


_HOME = _homes()
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> object:
    """Load a module when one of its names is first used, so that importing costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'eagerbuf' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
