"""Property tests: no deadline (machines differ), the same examples on every CI run; a quick end."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
# a mutant is dead at the first example that fails: no smaller one is looked for
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of the stored notebooks, which are not run for it."""
    import nbformat

    from notebooks.site.execute import Executed, notebook_paths
    from notebooks.site.html import write_pages

    folder, found = tmp_path_factory.mktemp("pages"), notebook_paths(NOTEBOOKS)
    write_pages([Executed(p, nbformat.read(p, as_version=4), 0.0) for p in found], folder)
    return folder


def pytest_sessionfinish() -> None:
    """Collect a worker's garbage before it reports its end; what survives is left alone after.

    pytest collects once more after that report, to tell of exceptions in finalizers. Over all that
    the tests have loaded it can take seconds on a busy machine, and execnet presses Ctrl-C in a
    worker that has not ended within 5 s: a warning with a traceback, and nothing has failed.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        gc.collect()
        gc.freeze()
