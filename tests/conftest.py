"""Property tests: no deadline (machines differ), the same examples on every CI run; a quick end."""

import gc
import os

from hypothesis import Phase, settings

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


def pytest_sessionfinish() -> None:
    """Collect a worker's garbage before it reports its end; what survives is left alone after.

    pytest collects once more after that report, to tell of exceptions in finalizers. Over all that
    the tests have loaded it can take seconds on a busy machine, and execnet presses Ctrl-C in a
    worker that has not ended within 5 s: a warning with a traceback, and nothing has failed.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        gc.collect()
        gc.freeze()
