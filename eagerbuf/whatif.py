"""One deployment looked at from all sides: its shapes, its ceilings, other chunks and releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eagerbuf.check import Report, check
from eagerbuf.config import EngineConfig
from eagerbuf.releases import releases

if TYPE_CHECKING:
    from pandas import DataFrame

    from eagerbuf.read import Reading

DOCUMENTED = """\
export SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR=0.65
python3 -m sglang.launch_server \\
  --model-path my/model --trust-remote-code \\
  --nnodes 4 --node-rank 0 --tp 8 --pp-size 4 \\
  --port 30000 --dist-init-addr 10.0.0.1:5000 \\
  --disable-radix-cache --mem-fraction-static 0.8 \\
  --max-running-requests 128 --chunked-prefill-size 12288 --enable-dynamic-chunking
"""
CHUNKS = (1024, 2048, 4096, 6144, 8192, 12288, 16384, 24576, 32768)


def shape_table(report: Report) -> DataFrame:
    """The largest shape of every producer, as `worst_shapes` gives it, one row each.

    Columns: producer, num_tokens (tokens) and bs (requests; <NA>: not known), copied (into the
    static buffers), in_scheduler (the scheduler or its profiler makes it), formula.
    """
    import pandas as pd

    columns = ["producer", "num_tokens", "bs", "copied", "in_scheduler", "formula"]
    frame = pd.DataFrame(list(report.shapes), columns=columns)
    return frame.astype({"num_tokens": "Int64", "bs": "Int64"})


def other_chunks(source: Reading | EngineConfig, chunks: Sequence[int] = CHUNKS) -> DataFrame:
    """The verdict for other chunks (tokens of one rank) in every release with an eager runner.

    Columns: release, chunk, capacity and largest (tokens: the buffer, and the largest batch that
    is copied), verdict; the stretch of main before 0.5.14 comes first. ValueError naming the
    fields without which nothing can be sized.
    """
    import pandas as pd

    config = _config(source)
    rows = [
        {"release": known.release, "chunk": chunk, **_sized(config, chunk, known.release)}
        for known in releases()
        if known.eager_runner
        for chunk in chunks
    ]
    return pd.DataFrame(rows)


def _config(source: Reading | EngineConfig) -> EngineConfig:
    if isinstance(source, EngineConfig):
        return source
    if source.config is None:
        raise ValueError(f"{', '.join(source.unknown)}: not known; give them to read_config")
    return source.config


def _sized(config: EngineConfig, chunk: int, release: str) -> dict[str, Any]:
    report = check(replace(config, chunked_prefill_size=chunk), release)
    assert report.rule is not None
    copied = [s.num_tokens or 0 for s in report.shapes if s.copied and s.in_scheduler]
    capacity = report.rules[report.rule].bound.max_num_tokens
    return {"capacity": capacity, "largest": max(copied), "verdict": report.verdict}
