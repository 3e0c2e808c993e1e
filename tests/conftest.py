"""Property tests: no deadline (machines differ), and the same examples on every CI run."""

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
