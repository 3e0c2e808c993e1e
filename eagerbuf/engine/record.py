"""Real batches: what SGLang's own scheduler sends to the eager runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eagerbuf.engine.environment import INSIDE
from eagerbuf.engine.report import EngineReport
from eagerbuf.engine.run import Lists, run_engine
from eagerbuf.predictor import ChunkSizePredictor

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ["step", "rank", "kind", "num_tokens", "bs", "padded_num_tokens", "padded_bs"]
QUIET_S = 60.0  # a long prompt of a busy machine is quiet, not a hang


class NotServed(RuntimeError):
    """The engine did not come to serve the requests; the message is how it ended."""


def record_batches(
    requests: Any,
    release: str = "0.5.14",
    *,
    flags: Sequence[str] = (),
    rule: str | None = None,
    stall_s: float = QUIET_S,
    limit_s: float = 300.0,
) -> DataFrame:
    """What the scheduler of a released SGLang sends for `requests`: the columns of `replay`.

    `requests` (prompt_tokens, output_tokens) all wait before the first batch, each with as many
    output tokens as it says; `flags` and `rule` are those of `run_engine`. One row a batch that is
    loaded into the static buffers: kind is prefill, mixed, decode, probe (of the latency profile)
    or idle (a data-parallel rank without requests, padded like the others). `attrs["model"]` is
    the latency model that dynamic chunking fitted, {} without one. NotServed where the engine ends
    otherwise than by serving them, and what `run_engine` raises.
    """
    options: dict[str, Any] = {"flags": flags, "rule": rule, "stall_s": stall_s, "limit_s": limit_s}
    report = serve_and_record(Lists([requests]), release, **options)
    frame = batches_of(report)
    return frame[COLUMNS].reset_index(drop=True)


def batches_of(report: EngineReport) -> DataFrame:
    """The batches of a recorded run; `requests` numbers the lists, 0 for the probes."""
    frame = report.batches.reindex(columns=["requests", *COLUMNS])
    order = frame.sort_values(["requests", "step", "rank"], kind="stable")
    order.attrs["model"] = _fit(report)
    return order


def _fit(report: EngineReport) -> dict[str, float]:
    """The latency model, from the samples (SGLang logs its own fit of them in three digits)."""
    if report.model.empty:
        return {}
    fitted = ChunkSizePredictor().fit(report.samples.num_tokens, report.samples.latency_ms)
    return {name: float(getattr(fitted, name)) for name in "abc"}


def serve_and_record(
    requests: Lists,
    release: str,
    *,
    arithmetic: bool = False,
    **options: Any,
) -> EngineReport:
    """Serve and record; the attention of served requests is computed only with `arithmetic`."""
    switches = {str(INSIDE / "batches.py"): arithmetic}
    quiet = {"stall_s": QUIET_S, **options}
    report = run_engine(release, requests=requests, switches=switches, **quiet)
    if report.outcome != "completed":
        raise NotServed(f"SGLang {release}: {report.outcome}, {report.failure or 'no word of why'}")
    return report
