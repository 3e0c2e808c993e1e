"""`python -m eagerbuf` is the `eagerbuf` command."""

import sys

from eagerbuf.cli import main

sys.exit(main())
