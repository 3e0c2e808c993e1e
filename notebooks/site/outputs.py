"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `path` (text as UTF-8); whatever fails, it holds either what it held or all of it.

    The content goes to a file of another name in the same folder, which then takes the place of
    `path` in one step and keeps its permissions; a link is followed. OSError as for any write.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    handle, part = tempfile.mkstemp(
        prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, _mode(target))
            os.fsync(handle)
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise


def _mode(path: Path) -> int:
    """The permissions of the file, or those that a new one gets."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
