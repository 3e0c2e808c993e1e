"""Outputs are written whole or not at all, whatever fails and whenever."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebooks.site import readme
from notebooks.site.execute import Executed, save
from notebooks.site.outputs import write_whole

OLD = b"what was there"


class Full:
    """A file that takes half of what is written, then fails."""

    def __init__(self, file: Any, error: BaseException) -> None:
        self.file, self.error = file, error

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        raise self.error


def fill_up(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    opened: Callable[..., Any] = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *args: Full(opened(*args), error))


FAILURES = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("there", [True, False])
def test_a_write_that_fails_half_way_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, there: bool
) -> None:
    path = tmp_path / "page.html"
    if there:
        path.write_bytes(OLD)
    fill_up(monkeypatch, error)
    with pytest.raises(type(error)):
        write_whole(path, "new " * 10_000)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("page.html", OLD)] * there


@pytest.mark.parametrize("step", ["replace", "fsync", "fchmod"])
def test_a_failure_at_any_step_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "page.html"
    path.write_bytes(OLD)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="Input/output"):
        write_whole(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_a_process_killed_while_it_writes_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    new = b"x" * 2_000_000
    code = (
        "import sys; from pathlib import Path; from notebooks.site.outputs import write_whole\n"
        "print('ready', flush=True)\n"
        f"while True: write_whole(Path({str(path)!r}), b'x' * {len(new)})"
    )
    for delay in (0.0, 0.002, 0.005, 0.01, 0.05):
        path.write_bytes(OLD)
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout
        child.stdout.readline()
        time.sleep(delay)
        child.kill()
        child.wait()
        child.stdout.close()
        assert path.read_bytes() in (OLD, new)


def test_a_full_disk_as_the_system_says_it(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the kernel cuts the write."""
    path = tmp_path / "page.html"
    path.write_bytes(OLD)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    code = (
        "from pathlib import Path; from notebooks.site.outputs import write_whole\n"
        f"write_whole(Path({str(path)!r}), b'x' * 1_000_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_text_bytes_permissions_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    write_whole(path, "\u00e9\n")
    (tmp_path / "usual").touch()
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, b"\x00\xff")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\x00\xff", 0o640)
    assert link.is_symlink()


def test_a_long_name_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)
    write_whole(path, b"1")
    assert path.read_bytes() == b"1"
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "a", b"1")


def test_a_notebook_saved_on_a_full_disk_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "01.ipynb"
    path.write_bytes(OLD)
    run = Executed(path, nbformat.v4.new_notebook(), 0.0)
    fill_up(monkeypatch, FAILURES[0])
    with pytest.raises(OSError, match="No space"):
        save(run)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_a_readme_refreshed_on_a_full_disk_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "README.md"
    text = f"a\n{readme.START}\n{readme.END}\nb\n"
    path.write_text(text)
    monkeypatch.setattr(readme, "table", lambda _: "rows")
    monkeypatch.setattr(readme, "picture", lambda _: b"png")
    fill_up(monkeypatch, FAILURES[0])
    with pytest.raises(OSError, match="No space"):
        readme.refresh(path, tmp_path)
    assert [p.read_text() for p in tmp_path.iterdir()] == [text]
