"""`python -m tests.repro.slow_part`: as `eagerbuf.repro.gpu`, but "copies" stops after one row."""

import subprocess
import sys
import time

from eagerbuf.repro.gpu import __main__ as program

COPY = {"num_tokens": 1, "nbytes": 72, "us": 2.5, "gb_s": 0.03, "device_gb_s": 54}


def stops(_device, _scale):
    """One row, then nothing more, with a process of its own that does not end either."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)  # of the slow part"])
    yield COPY
    time.sleep(60)


if __name__ == "__main__":
    program.PARTS["copies"] = (stops, 60.0)
    sys.exit(program.main())
