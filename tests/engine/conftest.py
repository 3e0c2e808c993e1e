"""Whether SGLang itself is set up here; where it must be, a missing one is a failure."""

import os

import pytest

from eagerbuf.engine.environment import why_not


@pytest.fixture
def needs():
    """needs(release): skip without that release, or fail where EAGERBUF_ENGINE=required."""

    def check(release):
        missing = why_not(release)
        if missing and os.environ.get("EAGERBUF_ENGINE") == "required":
            pytest.fail(missing)
        if missing:
            pytest.skip(missing)

    return check
