"""`python -m eagerbuf.repro.gpu`: every part on the GPU, into one file; no make, no network.

`--wheels FOLDER` holds wheels of what the machine lacks, and in FOLDER/engine those of SGLang.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eagerbuf.repro.gpu.parts import PARTS, Scale, Skipped, rehearsal
from eagerbuf.repro.gpu.record import SCHEMA

PROGRAM = "eagerbuf.repro.gpu"
ROOT = Path(__file__).resolve().parents[3]


def main(argv: Sequence[str] | None = None) -> int:
    """Run every part, or be one; exit status 0 if none failed."""
    options = _parser().parse_args(argv)
    if options.part:
        return _be(options.part, options)
    record: dict[str, Any] = {"schema": SCHEMA, "recorded": _today(), "parts": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="eagerbuf-") as folder:
        env = _unpacked(options.wheels, Path(folder))
        for name in options.parts.split(","):
            record["parts"][name] = _run(name, options, Path(folder), env)
            _write(options.out, record)
    print(f"recorded in {options.out}", file=sys.stderr)
    return int(any(part["status"] in ("failed", "overtime") for part in record["parts"].values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m eagerbuf.repro.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu.json")
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS), help="names with commas between them")
    parser.add_argument("--rehearse", action="store_true", help="small sizes")
    parser.add_argument("--limit-s", type=float, help="of each part, in place of its own")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    return parser


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def _be(name: str, options: argparse.Namespace) -> int:
    """Run one part in this process, each row on the disk as soon as it is found."""
    scale = rehearsal() if options.rehearse else Scale()
    with options.rows.open("a", buffering=1) as file:
        try:
            for row in PARTS[name][0](options.device, scale):
                file.write(json.dumps({"row": row}, allow_nan=False) + "\n")
        except Skipped as why:
            file.write(json.dumps({"skipped": str(why)}) + "\n")
    return 0


def _run(
    name: str, options: argparse.Namespace, folder: Path, env: dict[str, str]
) -> dict[str, Any]:
    """One part in a process of its own, ended at its limit; what it found until then is kept."""
    print(f"{name} …", file=sys.stderr, flush=True)
    rows, start = folder / f"{name}.jsonl", time.monotonic()
    limit_s = options.limit_s or PARTS[name][1]
    command = [sys.executable, "-m", PROGRAM, "--part", name, "--rows", str(rows)]
    command += ["--device", options.device, *(["--rehearse"] if options.rehearse else [])]
    status, said = _ended(command, env, folder / f"{name}.stderr", limit_s)
    lines = rows.read_text().splitlines() if rows.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]
    if skipped := [line["skipped"] for line in told if "skipped" in line]:
        status, said = "skipped", skipped[0]
    print(f"{name}: {status} {said}", file=sys.stderr, flush=True)
    found = [line["row"] for line in told if "row" in line]
    seconds = round(time.monotonic() - start, 3)
    return {"status": status, "said": said, "seconds": seconds, "rows": found}


def _ended(
    command: list[str], env: dict[str, str], stderr: Path, limit_s: float
) -> tuple[str, str]:
    """The part's status and, if it is not "done", why; nothing of it lives when this returns."""
    with stderr.open("wb") as file:
        child = subprocess.Popen(
            command, env=env, stdout=file, stderr=file, cwd=ROOT, start_new_session=True
        )
    try:
        code = child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return "overtime", f"ended after {limit_s:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    last = (stderr.read_text(errors="replace").strip().splitlines() or [""])[-1]
    return ("failed", last or f"exit code {code}") if code else ("done", "")


def _unpacked(wheels: Path | None, folder: Path) -> dict[str, str]:
    """The environment of the parts, with the wheels in it."""
    paths, env = [str(ROOT), str(folder / "packages")], dict(os.environ)
    for wheel in sorted(wheels.glob("*.whl")) if wheels else []:
        _unpack(wheel, folder / "packages")
    for wheel in sorted((wheels / "engine").glob("*.whl")) if wheels else []:
        release = "-".join(wheel.name.split("-")[:2])
        _unpack(wheel, folder / "engine" / (release if release[:7] == "sglang-" else "packages"))
        env["EAGERBUF_ENGINE_DIR"] = str(folder / "engine")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, env.get("PYTHONPATH")]))
    return env


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)


def _write(path: Path, record: dict[str, Any]) -> None:
    """Whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(record, indent=1) + "\n")
    half.replace(path)


if __name__ == "__main__":
    sys.exit(main())
