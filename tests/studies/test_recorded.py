"""Batches of SGLang's own scheduler, as recorded: what they hold, and replay held against them."""

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

from eagerbuf import ChunkSizePredictor, EngineConfig, probe_lengths, replay
from eagerbuf.simulate.workloads import workload_names
from eagerbuf.studies.batch_fit import actual_shapes, ceilings, fit_table, recorded_shapes
from eagerbuf.studies.deployments import NamedDeployment, deployments
from eagerbuf.studies.recorded import (
    BATCHES,
    RUNS,
    SETUPS,
    SHAPE,
    START_UP,
    STATIC,
    as_run,
    recorded_batches,
    recorded_runs,
    served,
)
from eagerbuf.studies.recording import write

DATA = Path(__file__).parents[2] / "data"
CONFIGS = {each.name: each for each in as_run()}
SETUP = {each.deployment: each for each in SETUPS}
SERVED = [
    pytest.param(run, id=f"{run.deployment}, {run.workload}")
    for run in recorded_runs().itertuples()
    if run.workload != START_UP
]


def batches(run, rank):
    """Every batch of a rank, one by one."""
    rows = recorded_batches()
    own = rows[(rows.deployment == run.deployment) & (rows.workload == run.workload)]
    own = own[(own["rank"] == rank) & (own.kind != "idle")]
    return own.loc[own.index.repeat(own.batches), list(SHAPE)].to_numpy().tolist()


def replayed(run):
    deployment, options = CONFIGS[run.deployment], {}
    if run.a == run.a:  # the fit of its profile came out; else SGLang keeps chunks static
        predictor = ChunkSizePredictor(run.a, run.b, run.c)
        options = {"predictor": predictor, "smooth_factor": deployment.smooth_factor}
    requests = served(run.deployment, run.workload, int(run.requests), int(run.most_output))
    return replay(requests, deployment.config, progress=False, **options)


@pytest.mark.parametrize("run", SERVED)
def test_replay_makes_every_batch_that_sglang_made(run):
    frame = replayed(run)
    assert frame.attrs["dropped"] == frame.attrs["shortened"] == 0
    for rank in range(CONFIGS[run.deployment].config.attn_dp_size):
        mine = frame.loc[frame["rank"] == rank, list(SHAPE)].to_numpy().tolist()
        assert mine == batches(run, rank)


def test_a_deployment_served_each_workload_once_and_more_than_it_runs_at_a_time():
    runs = recorded_runs()
    order = [each.name for each in deployments() if each.name in CONFIGS]
    assert list(dict.fromkeys(runs.deployment)) == order
    for name, own in runs[runs.workload != START_UP].groupby("deployment"):
        assert list(own.workload) == [w for w in workload_names() if w in set(own.workload)]
        assert (own.requests > CONFIGS[name].config.max_running_requests).all()


def test_the_probes_are_those_of_the_latency_profile():
    rows = recorded_batches()
    for name, deployment in CONFIGS.items():
        probes = rows[(rows.deployment == name) & (rows.kind == "probe")]
        wanted = probe_lengths(deployment.config.chunk) if deployment.config.profiles else []
        assert list(probes.num_tokens.repeat(probes.batches)) == wanted


@pytest.mark.parametrize("rule", ["tight", "pr28677", "pr28894"])
def test_no_recorded_batch_is_over_the_buffer(rule):
    for named in (as_run(), deployments()):  # as they were run, and as they are
        fit = fit_table(recorded_shapes(), ceilings(named))
        assert fit[(fit.rule == rule) & (fit.overflowing > 0)].empty


def test_a_hundred_recorded_requests_outgrow_the_buffer_of_one_chunk():
    fit = fit_table(recorded_shapes(), ceilings(as_run()))
    outgrown = fit[(fit.rule == "pr28386") & (fit.overflowing > 0)].set_index("deployment")
    assert outgrown.slack_requests["context parallel / TP8 / CP8"] == 100 - 104


def test_shapes_are_recorded_where_they_can_be_and_replayed_elsewhere():
    yours = NamedDeployment("yours", EngineConfig(8192, 8), None, "")
    model = ChunkSizePredictor(1e-5, 0.02, 30.0)
    shapes = actual_shapes([yours, *deployments()], workload_names(), requests=5, predictor=model)
    origins = shapes.groupby("deployment", sort=False).origin.agg(set)
    assert list(origins.index) == ["yours", *(each.name for each in deployments())]
    for name, origin in origins.items():
        assert origin == {"recorded" if name in CONFIGS else "replayed"}
    recorded = shapes[shapes.origin == "recorded"]
    assert recorded.batches.sum() == recorded_batches().batches.sum()


def test_what_a_recording_says_of_itself():
    for run in recorded_runs().itertuples():
        assert run.release == "0.5.14"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.date)
        fitted = {value == value for value in (run.a, run.b, run.c)}
        unfitted = CONFIGS[run.deployment].config.profiles and fitted == {False}
        assert run.scaled == SETUP[run.deployment].scaled + (STATIC if unfitted else "")
        assert len(fitted) == 1


def test_the_tables_hold_whole_batches():
    rows = recorded_batches()
    assert (rows.batches > 0).all()
    assert set(rows.kind) <= {"prefill", "decode", "probe", "idle"}
    assert (rows.padded_num_tokens >= rows.num_tokens).all()
    assert (rows.padded_bs >= rows.bs).all()
    assert ((rows.num_tokens > 0) == (rows.kind != "idle")).all()
    for file, schema in (("recorded_runs.csv", RUNS), ("recorded_batches.csv", BATCHES)):
        with (DATA / file).open(encoding="ascii", newline="") as lines:
            assert next(csv.reader(lines)) == list(schema)
    assert sum((DATA / f"recorded_{name}.csv").stat().st_size for name in ("runs", "batches")) < 3e5


class Report:
    """A recorded run, without an engine."""

    release = "0.5.14"
    model = pd.DataFrame(columns=["a", "b", "c"])
    batches = pd.DataFrame(
        [
            (1, 0, 0, "prefill", 9, 2, 10, 2),
            (1, 2, 0, "decode", 2, 2, 2, 2),
            (1, 1, 0, "decode", 2, 2, 2, 2),
            (2, 0, 0, "prefill", 4, 1, 4, 1),
        ],
        columns=["requests", "step", "rank", *SHAPE],
    )


def test_a_recording_replaces_that_of_the_same_deployment(tmp_path):
    for setup in (SETUPS[3], SETUPS[2], SETUPS[3]):
        write(tmp_path, setup, Report())
    with (tmp_path / "recorded_runs.csv").open() as lines:
        runs = list(csv.DictReader(lines))
    assert [run["deployment"] for run in runs] == [SETUPS[2].deployment] * 2 + [
        SETUPS[3].deployment
    ] * 2
    with (tmp_path / "recorded_batches.csv").open() as lines:
        rows = list(csv.reader(lines))[1:]
    assert rows[:3] == [
        ["1", "0", "prefill", "9", "2", "10", "2", "1"],
        ["1", "0", "decode", "2", "2", "2", "2", "2"],
        ["2", "0", "prefill", "4", "1", "4", "1", "1"],
    ]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3", "4"]
