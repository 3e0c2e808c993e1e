"""A switch: at the first batch, tell which functions of SGLang are not the wheel's own."""

import inspect
import sys
from functools import wraps
from types import FunctionType

from sitecustomize import after, tell


def turn_on(release_folder):
    @after("sglang.srt.model_executor.runner.eager_runner")
    def watch(module):
        load = module.EagerRunner.load_batch

        @wraps(load)
        def told(self, *args, **kwargs):
            if not hasattr(self, "_told"):
                self._told = True
                tell(foreign=foreign(release_folder), files=files(release_folder))
            return load(self, *args, **kwargs)

        module.EagerRunner.load_batch = told


def modules():
    return {n: m for n, m in list(sys.modules.items()) if n.startswith("sglang.") and m}


def files(folder):
    """Modules of SGLang that come from elsewhere than its wheel."""
    places = {name: getattr(module, "__file__", None) for name, module in modules().items()}
    return sorted(name for name, file in places.items() if file and not file.startswith(folder))


def foreign(folder):
    """Functions and methods whose code lies in the folder of stand-ins and switches."""
    found = set()
    for module in modules().values():
        for holder in [module, *filter(inspect.isclass, list(vars(module).values()))]:
            if holder is module or holder.__module__ == module.__name__:
                found |= {f"{holder.__name__}.{name}" for name in _replaced(holder, folder)}
    return sorted(found)


def _replaced(holder, folder):
    for name, value in list(vars(holder).items()):
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(value, FunctionType):  # some other objects look as if they wrapped one
            file = inspect.unwrap(value).__code__.co_filename
            if "/engine/" in file and not file.startswith(folder):
                yield name
