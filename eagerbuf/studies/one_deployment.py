"""One deployment and its variants: the largest shapes, other chunks, other releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eagerbuf.config import EngineConfig
from eagerbuf.diagnose.report import Report
from eagerbuf.diagnose.verdict import check
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
    """The largest shape of every batch source, as `worst_shapes` gives it, one row each.

    Columns: producer, num_tokens (tokens) and bs (requests; <NA>: not known), copied (into the
    static buffers), in_scheduler (the scheduler or its profiler makes it), formula.
    """
    import pandas as pd

    columns = ["producer", "num_tokens", "bs", "copied", "in_scheduler", "formula"]
    frame = pd.DataFrame(list(report.shapes), columns=columns)
    return frame.astype({"num_tokens": "Int64", "bs": "Int64"})


def other_chunks(source: Reading | EngineConfig, chunks: Sequence[int] = CHUNKS) -> DataFrame:
    """The verdict for other chunks (tokens of one rank) in every release with an eager runner.

    All else stays as `source` says, variables and benchmarks included; what a log shows of one
    start-up is left out. Columns: release, chunk, capacity (tokens of the buffer; `at_least`: it
    may be more), largest (tokens of the largest batch that is copied, <NA> where it is not known),
    verdict; the stretch of main before 0.5.14 comes first. ValueError naming the fields without
    which nothing can be sized.
    """
    import pandas as pd

    if isinstance(source, EngineConfig) or source.config is not None:
        sources = {chunk: _with_chunk(source, chunk) for chunk in chunks}
    else:
        raise ValueError(f"{', '.join(source.unknown)}: not known; give them to read_config")
    rows = [
        {"release": known.release, "chunk": chunk, **_sized(check(sources[chunk], known.release))}
        for known in releases()
        if known.eager_runner
        for chunk in chunks
    ]
    return pd.DataFrame(rows).astype({"largest": "Int64"})


def _with_chunk(source: Reading | EngineConfig, chunk: int) -> Reading | EngineConfig:
    if isinstance(source, EngineConfig):
        return replace(source, chunked_prefill_size=chunk)
    unknown = tuple(name for name in source.unknown if name != "chunked_prefill_size")
    values = {**source.values, "chunked_prefill_size": chunk}
    return replace(source, values=values, unknown=unknown, profile=None)


def _sized(report: Report) -> dict[str, Any]:
    assert report.rule is not None
    copied = [s.num_tokens for s in report.shapes if s.copied and s.in_scheduler]
    bound = report.rules[report.rule].bound
    return {
        "capacity": bound.max_num_tokens,
        "at_least": bound.at_least,
        "largest": None if None in copied else max(filter(None, copied), default=0),
        "verdict": report.verdict,
    }
