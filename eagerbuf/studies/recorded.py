"""The recorded batches that ship with the package: recorded_runs.csv and recorded_batches.csv."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from eagerbuf._csv import Reads, maybe, table
from eagerbuf.config import MOST, EngineConfig
from eagerbuf.simulate.workloads import sample_requests
from eagerbuf.studies.deployments import NamedDeployment, find_deployment

if TYPE_CHECKING:
    from pandas import DataFrame

RUNS: dict[str, Reads] = {
    "run": int,
    "deployment": str,
    "workload": str,
    "requests": maybe(int),
    "most_output": maybe(int),
    "scaled": str,
    "a": maybe(float),
    "b": maybe(float),
    "c": maybe(float),
    "release": str,
    "date": str,
    "source": str,
}
SHAPE: tuple[str, ...] = ("kind", "num_tokens", "bs", "padded_num_tokens", "padded_bs")
BATCHES: dict[str, Reads] = {
    "run": int,
    "rank": int,
    **dict.fromkeys(SHAPE, int),
    "kind": str,
    "batches": int,
}
START_UP = "start-up"  # the workload of the probes
STATIC = ", chunks static as the fit failed"  # on a busy machine it may find no quadratic term


@dataclass(frozen=True)
class Setup:
    """How a named deployment was run on two cores: what differs from it, and SGLang's flags."""

    deployment: str
    scaled: str
    changed: dict[str, Any]  # fields of EngineConfig
    flags: str
    model: dict[str, Any] = field(default_factory=dict)
    requests: int = 200  # of each workload, so many that some wait for others to finish

    def of(self, config: EngineConfig) -> EngineConfig:
        """The deployment's configuration as it was run."""
        return replace(config, **self.changed)


_QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 4}
_STAGES = {"num_attention_heads": 4, "head_dim": 8}  # a profile that sees the quadratic term
SETUPS = (
    Setup(
        "dynamic 12288 / TP8 / PP4",
        "TP 1 in place of 8",
        {"tp_size": 1},
        "--pp-size 4 --chunked-prefill-size 12288 --enable-dynamic-chunking "
        "--max-running-requests 128 --max-total-tokens 3080960 --context-length 131072",
        _STAGES,
        requests=140,
    ),
    Setup(
        "dynamic 18432 / TP4 / PP8",
        "TP 1 in place of 4, PP 4 in place of 8",
        {"tp_size": 1, "pp_size": 4},
        "--pp-size 4 --chunked-prefill-size 18432 --enable-dynamic-chunking --page-size 64 "
        "--max-running-requests 128 --max-total-tokens 3080960 --context-length 131072",
        _STAGES,
        requests=140,
    ),
    Setup(
        "DP attention / TP8 / DP2 / EAGLE",
        "TP 4 in place of 8, no speculation, no overlap",
        {"tp_size": 4, "num_tokens_per_bs": 1},
        "--tp-size 4 --dp-size 2 --enable-dp-attention --chunked-prefill-size 8192 "
        "--max-running-requests 250 --max-total-tokens 665690 --context-length 32768 "
        "--disable-overlap-schedule",
        {"head_dim": 4},
    ),
    Setup(
        "context parallel / TP8 / CP8",
        "attention TP 8 in place of CP 8 (both pad to 8), no overlap",
        {"attn_cp_size": 1},
        "--tp-size 8 --moe-dense-tp-size 1 --chunked-prefill-size 8192 "
        "--max-running-requests 100 --max-total-tokens 1061980 --context-length 163840 "
        "--disable-overlap-schedule",
        _QWEN,
    ),
)


def as_run() -> tuple[NamedDeployment, ...]:
    """The recorded deployments with the settings they were recorded under (see `Setup.scaled`)."""
    known = set(recorded_runs().deployment)
    named = ((setup, find_deployment(setup.deployment)) for setup in SETUPS)
    return tuple(
        replace(each, config=setup.of(each.config)) for setup, each in named if each.name in known
    )


def served(deployment: str, workload: str, requests: int, most_output: int) -> DataFrame:
    """What a run serves: of so many `requests` drawn, those that the deployment's context holds.

    No output is longer than `most_output` tokens.
    """
    drawn = sample_requests(workload, requests).drop(columns="arrival_s")
    drawn["output_tokens"] = drawn.output_tokens.clip(1, most_output)
    context = find_deployment(deployment).config.context_len or MOST
    return drawn[drawn.prompt_tokens + most_output < context - 8]


@cache
def recorded_runs() -> DataFrame:
    """One row a run: deployment, workload, requests, what was scaled, the fit, release, date."""
    import pandas as pd

    numbers = {"requests": "Int64", "most_output": "Int64", **dict.fromkeys("abc", "float64")}
    return pd.DataFrame(table("recorded_runs.csv", RUNS)).astype(numbers)


@cache
def recorded_batches() -> DataFrame:
    """Every batch that was recorded, in order; rows of equal batches that followed each other.

    Columns: deployment, workload ("start-up" for the probes), rank, kind (prefill | mixed |
    decode | probe | idle), num_tokens and bs as the scheduler sent them, padded_num_tokens and
    padded_bs as they come to the buffers, batches.
    """
    import pandas as pd

    runs = recorded_runs()[["run", "deployment", "workload"]]
    rows = pd.DataFrame(table("recorded_batches.csv", BATCHES))
    return runs.merge(rows, on="run").drop(columns="run")
