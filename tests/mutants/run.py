"""Runs the tests on one mutant in a forked process, which never touches the files."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from tests.mutants.mutate import ROOT, Mutant

# of processor time for one test, and for one of many examples: an endless loop counts as killed
LIMIT_S, MANY_LIMIT_S = 3.0, 20.0


def preload() -> None:
    """Import what the tests need and no mutant changes, once for all forks."""
    for name in ("numpy", "pandas", "hypothesis", "pytest", "yaml", "_pytest.assertion.rewrite"):
        importlib.import_module(name)
    assert "eagerbuf" not in sys.modules


class _Limits:
    """Has the system end the process in a test that takes too long."""

    @staticmethod
    def pytest_runtest_protocol(item: Any) -> None:
        many = hasattr(getattr(item, "obj", None), "hypothesis")
        signal.setitimer(signal.ITIMER_PROF, MANY_LIMIT_S if many else LIMIT_S)


class _Source(importlib.abc.InspectLoader):
    """Loads one module from the mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def get_source(self, fullname: str) -> str:
        del fullname
        return self.mutant.source

    def is_package(self, fullname: str) -> bool:
        del fullname
        return self.mutant.path.name == "__init__.py"

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.mutant.path)
        code: CodeType = compile(self.mutant.source, str(self.mutant.path), "exec")
        exec(code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        if fullname != self.mutant.module:
            return None
        spec = importlib.util.spec_from_loader(fullname, _Source(self.mutant))
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(self.mutant.path.parent))
        return spec


def survives(mutant: Mutant | None, tests: Sequence[str]) -> bool:
    """Whether all tests pass on the mutant (None: on the code as it is)."""
    child = os.fork()
    if child == 0:
        os._exit(_child(mutant, tests))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _child(mutant: Mutant | None, tests: Sequence[str]) -> int:
    """The exit status of pytest."""
    os.chdir(ROOT)
    os.environ["CI"] = "true"  # the same hypothesis examples each time
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    import pytest

    options = ["-x", "-q", "--hypothesis-profile=mutants"]
    options += [f"-pno:{plugin}" for plugin in ("cacheprovider", "nbval", "xdist", "benchmark")]
    try:
        return int(pytest.main([*options, *tests], plugins=[_Limits()]))
    except BaseException:
        return 1
