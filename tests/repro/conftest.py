"""Triton beside the environment, as SGLang on a CPU must not find it there."""

import importlib.util
import os
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]


@pytest.fixture
def triton_env(tmp_path) -> dict[str, str]:
    """An environment in which triton can be imported; skips without one, or fails if required."""
    beside = HOME / ".triton"
    if not (beside.is_dir() or importlib.util.find_spec("triton")):
        missing = "no triton here: make triton"
        (pytest.fail if os.environ.get("EAGERBUF_TRITON") == "required" else pytest.skip)(missing)
    path = os.pathsep.join([str(HOME), *([str(beside)] if beside.is_dir() else [])])
    return os.environ | {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path)}
