"""Where a notebook ran: one line for the reader."""

from __future__ import annotations

import os
import platform


def where_it_ran() -> str:
    """Device, torch and Python versions, and the number of CPU cores of this machine."""
    import torch

    if torch.cuda.is_available():
        device = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    else:
        device = "CPU only"
    versions = f"torch {torch.__version__.split('+')[0]}, Python {platform.python_version()}"
    return f"{device}, {os.cpu_count()} CPU cores, {versions}"
