"""`make fuzz`: each reader fed for so many seconds, guided by the code that its inputs reach.

What breaks one stays in build/fuzz/<reader>/; kept in tests/fuzz/found it is read by every test.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

READERS = ("config", "log", "trace", "command")
BUILD = Path("build/fuzz")


def fuzzed(reader: str, seconds: str) -> list[Path]:
    """Feed one reader and tell in a line how it went; the inputs that broke it."""
    folder = (BUILD / reader).resolve()
    before = set(folder.glob("*-*"))
    command = [sys.executable, "-m", "tests.fuzz.guided", reader, seconds, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    broke = sorted(set(folder.glob("*-*")) - before)
    runs = re.findall(r"Done (\d+) runs|^#(\d+)\s", done.stderr, re.MULTILINE)
    reached = re.findall(r"cov: (\d+)", done.stderr)
    if not runs:
        sys.exit(f"fuzz: {reader} did not start\n{done.stderr[-2000:]}")
    count = max(int(number) for pair in runs for number in pair if number)
    print(f"fuzz: {reader}, {count:,} inputs, {(reached or ['?'])[-1]} places reached", flush=True)
    if broke:
        print(done.stderr[-3000:])
    return broke


def main() -> int:
    """0 if nothing broke, else 1 and the names of the inputs."""
    seconds, *readers = sys.argv[1:] or ["60"]
    broke = [path for reader in readers or READERS for path in fuzzed(reader, seconds)]
    for path in broke:
        print(f"fuzz: broken by {path.relative_to(Path.cwd())}")
    return int(bool(broke))


if __name__ == "__main__":
    sys.exit(main())
