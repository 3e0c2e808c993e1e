"""What the notebook on the other consumers shows: live where the wheels are cached, else recorded.

`python -m tests.upstream.consumer_evidence` records it anew, fetching what it needs first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd
from pandas import DataFrame

from eagerbuf import EngineConfig
from eagerbuf.config import FIELDS
from eagerbuf.consumers.tokens import needed_tokens
from notebooks.site.outputs import write_whole
from tests.upstream import consumers, wheels
from tests.upstream.consumer_formulas import LONGEST, compared
from tests.upstream.consumers import (
    BUDGET,
    CAPACITY,
    DEEPEP_BUDGET,
    DEEPEP_CAPACITY,
    TOPOLOGY,
    Consumers,
)
from tests.upstream.evidence import FOLDER, recorded
from tests.upstream.wheels import FLASHINFER, Wheel, sglang

RELEASES = ("0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23")  # those that the number concerns
PINNED = {"0.5.22": Wheel("flashinfer-python", "0.7.1"), "0.5.23": wheels.FLASHINFER_NEW}
BACKENDS = (  # with the variable that sets its capacity, and the start-up checks it meets
    ("flashinfer", CAPACITY, (TOPOLOGY, BUDGET)),
    ("deepep_v2", DEEPEP_CAPACITY, (DEEPEP_BUDGET,)),
)
NAME = b"max_prefill_buffer_tokens"
CASES = 60  # of each formula
SHAPE = (7168, 8)  # hidden size and top-k of DeepSeek-V3
CONFIG = EngineConfig(
    4096,
    128,
    tp_size=8,
    dp_size=8,
    pp_size=4,
    enable_dp_attention=True,
    enable_dynamic_chunking=True,
    moe_a2a_backend="flashinfer",
)
REMEDY = int(needed_tokens(CONFIG))
ROW: dict[str, Any] = {name: getattr(CONFIG, name) for name in FIELDS} | {
    "attn_dp_size": 8,
    "ep_size": 1,
    "context_len": LONGEST,
}


def flashinfer(release: str) -> Wheel:
    """The FlashInfer that a release pins if it is cached, else the one that is always wanted."""
    pinned = PINNED.get(release, FLASHINFER)
    return pinned if pinned.cached else FLASHINFER


def live() -> list[str]:
    """The releases that can be run now."""
    return [v for v in RELEASES if sglang(v).cached and flashinfer(v).cached]


def sources() -> str:
    """Which releases are run live, in one line."""
    now = live()
    if not now:
        return "no released wheel is cached (make upstream gets them): all results are recorded"
    others_ = [v for v in RELEASES if v not in now]
    return f"live from the wheels of {', '.join(now)}; recorded: {', '.join(others_) or 'none'}"


def workspaces() -> DataFrame:
    """The same command on every release: release, workspace_bytes, eager_prefill (its path)."""
    return _shown("consumer_workspaces", workspaces_of).astype({"workspace_bytes": int})


def starts() -> DataFrame:
    """Start-up checks: release, backend, max_prefill_tokens, variable, answer ("accepted", why)."""
    return _shown("consumer_starts", starts_of)


def readers() -> DataFrame:
    """The files of each release that name the number: release, file (under srt/)."""
    return _shown("consumer_readers", readers_of)


def comparisons() -> DataFrame:
    """Ours against theirs on seeded cases: release, formula, cases, differ."""
    return _shown("consumer_comparisons", comparisons_of).astype({"cases": int, "differ": int})


def _shown(name: str, ask: Callable[[str], Iterator[dict[str, Any]]]) -> DataFrame:
    kept, now = recorded(name), live()
    parts = [
        DataFrame(list(ask(v))).astype(str) if v in now else kept[kept.release == v]
        for v in RELEASES
    ]
    return pd.concat(parts, ignore_index=True)


@cache
def release(version: str) -> Consumers:
    return Consumers(sglang(version), flashinfer(version))


def workspaces_of(version: str) -> Iterator[dict[str, Any]]:
    asked = release(version)
    asked.apply(ROW)
    size = asked.workspace(CONFIG.tp_size, *SHAPE)
    path = asked.eager_prefill(5, 8)
    yield {"release": version, "workspace_bytes": size, "eager_prefill": path}


def starts_of(version: str) -> Iterator[dict[str, Any]]:
    """Every pair of flag and variable through the checks that the release has for the backend."""
    for backend, variable, checks in BACKENDS:
        if not all(release(version).room.has(check, consumers.HOOK) for check in checks):
            continue
        for flag in (CONFIG.max_prefill_tokens, REMEDY):
            for value in (None, REMEDY):
                row = {**ROW, "max_prefill_tokens": flag, "moe_a2a_backend": backend}
                release(version).apply(row, **({variable: value} if value else {}))
                said = [refusal for check in checks if (refusal := release(version).start(check))]
                yield {
                    "release": version,
                    "backend": backend,
                    "max_prefill_tokens": flag,
                    "variable": value or "unset",
                    "answer": said[0] if said else "accepted",
                }


def readers_of(version: str) -> Iterator[dict[str, Any]]:
    wheel = sglang(version)
    for path in sorted(wheel.manifest["files"]):
        if NAME in (wheel.folder / path).read_bytes():
            yield {"release": version, "file": path.removeprefix("sglang/srt/")}


def comparisons_of(version: str) -> Iterator[dict[str, Any]]:
    for name, differ in compared(release(version), version, CASES).items():
        yield {"release": version, "formula": name, "cases": CASES, "differ": differ}


def main() -> int:
    """Record everything anew."""
    needed = [*map(sglang, RELEASES), FLASHINFER, *PINNED.values()]
    wheels.fill(needed, lambda line: print(line, file=sys.stderr, flush=True))
    for name, ask in (
        ("consumer_workspaces", workspaces_of),
        ("consumer_starts", starts_of),
        ("consumer_readers", readers_of),
        ("consumer_comparisons", comparisons_of),
    ):
        rows = [row for version in RELEASES for row in ask(version)]
        text = DataFrame(rows).to_csv(index=False, lineterminator="\n")
        write_whole(FOLDER / f"{name}.csv", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
