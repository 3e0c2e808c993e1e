"""Batches of deployments, recorded or replayed, and how they fill each rule's buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from eagerbuf.config import EngineConfig
from eagerbuf.predictor import SMOOTH_FACTOR, ChunkSizePredictor, probe_lengths
from eagerbuf.sizing import RULES, buffer_size, padded_extend
from eagerbuf.studies.deployments import NamedDeployment
from eagerbuf.studies.recorded import START_UP, recorded_batches

if TYPE_CHECKING:
    from pandas import DataFrame

KEYS = ["deployment", "workload", "kind", "num_tokens", "bs"]


def actual_shapes(
    named: Iterable[NamedDeployment],
    workloads: Iterable[str],
    *,
    requests: int,
    predictor: ChunkSizePredictor,
    seed: int = 0,
) -> DataFrame:
    """Every batch of each workload under each deployment: as SGLang's own scheduler sent it.

    Columns: deployment, workload ("start-up": the profiler's probes), kind (prefill | mixed |
    decode | probe | idle), num_tokens and bs as they come to the static buffers, batches (how many
    had that shape), origin: recorded (see studies.recorded), or replayed, with so many `requests`
    sampled, where a deployment was not recorded.
    """
    import pandas as pd

    names, chosen = list(workloads), list(named)
    rows = recorded_shapes()
    known = rows[rows.deployment.isin([each.name for each in chosen])]
    known = known[known.workload.isin([*names, START_UP])]
    parts = [known.assign(origin="recorded")]
    rest = [each for each in chosen if each.name not in set(known.deployment)]
    if rest:
        shapes = replayed_shapes(rest, names, requests=requests, predictor=predictor, seed=seed)
        parts.append(shapes.assign(origin="replayed"))
    together = pd.concat(parts, ignore_index=True)
    places = {each.name: place for place, each in enumerate(chosen)}
    order = together.deployment.map(places).sort_values(kind="stable").index
    return together.loc[order].reset_index(drop=True)


def recorded_shapes() -> DataFrame:
    """The shapes of all recorded batches: the columns of `actual_shapes` but `origin`."""
    shape = {"padded_num_tokens": "num_tokens", "padded_bs": "bs"}
    rows = recorded_batches().drop(columns=["num_tokens", "bs"]).rename(columns=shape)
    return rows.groupby(KEYS, sort=False).batches.sum().reset_index()


def replayed_shapes(
    named: Iterable[NamedDeployment],
    workloads: Iterable[str],
    *,
    requests: int,
    predictor: ChunkSizePredictor,
    seed: int = 0,
) -> DataFrame:
    """The same of deployments replayed: `requests` sampled of each workload."""
    import pandas as pd

    names = list(workloads)
    parts = [
        frame
        for deployment in named
        for frame in (
            *_replayed(deployment, names, requests, predictor, seed),
            _probes(deployment),
        )
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows.groupby(KEYS, sort=False).size().rename("batches").reset_index()


def ceilings(named: Iterable[NamedDeployment]) -> DataFrame:
    """Capacity of every rule: columns deployment, rule, max_num_tokens, max_bs, nbytes."""
    import pandas as pd

    rows = [
        {
            "deployment": deployment.name,
            "rule": rule,
            "max_num_tokens": size.max_num_tokens,
            "max_bs": size.max_bs,
            "nbytes": size.nbytes,
        }
        for deployment in named
        for rule in RULES
        for size in [buffer_size(deployment.config, rule)]
    ]
    return pd.DataFrame(rows)


def fit_table(shapes: DataFrame, limits: DataFrame) -> DataFrame:
    """How the shapes fill each ceiling, one row a deployment and rule.

    Columns: deployment, rule, max_num_tokens, max_bs, most_tokens and most_requests (of any actual
    batch), slack_tokens, slack_requests (negative: the buffer is outgrown), overflowing (batches).
    """
    merged = shapes.merge(limits, on="deployment")
    over = (merged.num_tokens > merged.max_num_tokens) | (merged.bs > merged.max_bs)
    merged["overflowing"] = merged.batches.where(over, 0)
    keys = ["deployment", "rule", "max_num_tokens", "max_bs"]
    table = merged.groupby(keys, sort=False, as_index=False).agg(
        most_tokens=("num_tokens", "max"),
        most_requests=("bs", "max"),
        overflowing=("overflowing", "sum"),
    )
    table.insert(6, "slack_tokens", table.max_num_tokens - table.most_tokens)
    table.insert(7, "slack_requests", table.max_bs - table.most_requests)
    return table


def fit_one(
    config: EngineConfig, workload: str, requests: int, smooth_factor: float | None = None
) -> DataFrame:
    """`fit_table` of one deployment replayed on `requests` drawn from one workload."""
    named = [NamedDeployment("yours", config, smooth_factor, "")]
    limits = ceilings(named)
    model = ChunkSizePredictor(a=1e-5, b=0.02, c=30.0)  # fixed: no latency was measured
    shapes = replayed_shapes(named, [workload], requests=requests, predictor=model)
    return fit_table(shapes, limits).drop(columns="deployment")


def _replayed(
    deployment: NamedDeployment,
    workloads: list[str],
    requests: int,
    predictor: ChunkSizePredictor,
    seed: int,
) -> Iterator[DataFrame]:
    from eagerbuf.simulate.scheduler import replay
    from eagerbuf.simulate.workloads import sample_requests

    factor = deployment.smooth_factor
    for workload in workloads:
        batches = replay(
            sample_requests(workload, requests, seed=seed),
            deployment.config,
            predictor=predictor,
            smooth_factor=SMOOTH_FACTOR if factor is None else factor,
            progress=False,
        )
        padded = batches[["kind", "padded_num_tokens", "padded_bs"]]
        yield padded.set_axis(["kind", "num_tokens", "bs"], axis=1).assign(
            deployment=deployment.name, workload=workload
        )


def _probes(deployment: NamedDeployment) -> DataFrame:
    import pandas as pd

    config = deployment.config
    lengths = probe_lengths(config.chunk) if config.profiles else []
    frame = pd.DataFrame({"num_tokens": [padded_extend(config, n) for n in lengths]}, dtype="int64")
    return frame.assign(kind="probe", bs=1, deployment=deployment.name, workload=START_UP)
