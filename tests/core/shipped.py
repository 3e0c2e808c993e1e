"""What the tables of data/ must hold, beyond what loading them asks: every field, every row.

Loading is simple because the tables are ours; these checks are what makes that safe.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import groupby, pairwise
from pathlib import Path

from eagerbuf.config import FIELDS, FLAGS
from eagerbuf.consumers.known import SCHEMA as CONSUMER
from eagerbuf.consumers.workspace import SINCE
from eagerbuf.model import SCHEMA as MODEL
from eagerbuf.model import find_model
from eagerbuf.read.options import SCHEMA as OPTION
from eagerbuf.read.options import version
from eagerbuf.releases import SCHEMA as RELEASE
from eagerbuf.releases import releases
from eagerbuf.simulate.workloads import QUANTILES
from eagerbuf.simulate.workloads import SCHEMA as WORKLOAD
from eagerbuf.sizing import RULES
from eagerbuf.studies.deployments import SCHEMA as DEPLOYMENT
from eagerbuf.studies.glossary import SCHEMA as TERM
from eagerbuf.studies.recorded import BATCHES, RUNS

DATA = Path(__file__).parents[2] / "data"
SCHEMAS = {
    "releases.csv": RELEASE,
    "deployments.csv": DEPLOYMENT,
    "logs.csv": DEPLOYMENT,
    "models.csv": MODEL,
    "workload_quantiles.csv": WORKLOAD,
    "flags.csv": OPTION,
    "consumers.csv": CONSUMER,
    "glossary.csv": TERM,
    "recorded_runs.csv": RUNS,
    "recorded_batches.csv": BATCHES,
}
PARTIAL = ("deployments.csv", "logs.csv")  # whose columns may be some of the schema's
UNIQUE = {
    "workload_quantiles.csv": ("workload", "quantile"),
    "flags.csv": ("option", "program", "first"),
}
ALIKE = ("recorded_batches.csv",)  # whose rows may be equal
TEXT, YES = r"\S(.*\S)?", "yes|no"
COUNT, MAYBE = r"[1-9]\d{0,14}", r"([1-9]\d{0,14})?"
NUMBERED = r"\d{1,6}(\.\d{1,6}){2}(\.post\d{1,6})?"
FORMS = {
    "release": rf"{NUMBERED}(rc\d+)?|main [ -~]+",
    "newest_file": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "sizing_rule": f"({'|'.join(RULES)})?",
    "chunked_prefill_size": r"-1|[1-9]\d*",
    "smooth_factor": r"(\d(\.\d+)?)?",
    "kv_bytes_per_token": r"([1-9]\d*(\.\d+)?)?",
    "moe_a2a_backend": r"[a-z0-9_]*",
    "quantile": r"[01]\.\d{1,3}",
    "option": r"--?[A-Za-z0-9][A-Za-z0-9_-]*",
    "args": r"[01?*+]",
    "first": NUMBERED,
    "last": NUMBERED,
    "program": "server|bench",
    "since": NUMBERED,
    "other_forms": r"([^|]+(\|[^|]+)*)?",
    "kind": "allocates|checks|tunes",
    "flags": r"((--[a-z0-9-]+ |[A-Z0-9_]+=)\w+( or |$))*",
    "attention": "gqa|mla",
    "other_layers": "(sliding|linear)?",
    "num_experts": r"0|[1-9]\d{0,5}",
    "num_experts_per_tok": r"0|[1-9]\d{0,5}",
    "kv_dtype_bytes": "[1-4]",
    **dict.fromkeys(
        ("workload", "name", "source", "active", "formula", "tight", "executed", "term", "meaning"),
        TEXT,
    ),
    **dict.fromkeys(("requests", "duration_s", "prompt_tokens", "output_tokens"), COUNT),
    **dict.fromkeys(("layers", "full_every", "hidden_size"), COUNT),
    **dict.fromkeys(("kv_heads", "head_dim", "kv_lora_rank", "rope_head_dim"), MAYBE),
}
WHOLE = r"0|[1-9]\d{0,14}"
RECORDED = {
    **dict.fromkeys(("deployment", "workload", "scaled", "source"), TEXT),
    **dict.fromkeys(("run", "batches"), COUNT),
    **dict.fromkeys(("requests", "most_output"), MAYBE),
    **dict.fromkeys(("a", "b", "c"), r"(-?\d{1,4}(\.\d{1,20})?(e-\d\d)?)?"),
    "release": NUMBERED,
    "date": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "kind": "prefill|decode|probe|idle",
    **dict.fromkeys(("rank", "num_tokens", "bs", "padded_num_tokens", "padded_bs"), WHOLE),
}
Rows = list[dict[str, str]]


def form(file: str, column: str) -> str:
    """The pattern that every field of a column matches whole."""
    if file.startswith("recorded_"):
        return RECORDED[column]
    if column == "model":
        return TEXT if file == "models.csv" else f"({TEXT})?"
    if file == "models.csv" and column == "source":
        return r"https://\S+"
    if column in FORMS:
        return FORMS[column]
    flag = column in FLAGS or file == "releases.csv"
    return (f"({YES})?" if column in FIELDS else YES) if flag else MAYBE


def problems(file: str, data: bytes) -> Iterator[str]:
    """What is wrong with a shipped table, each with its line."""
    text = data.decode("utf-8")
    if not text.endswith("\n") or re.search(r"[^ -~\n]", text):
        yield "not plain lines of printable ASCII"
    header, *found = csv.reader(StringIO(text), strict=True)
    known = list(SCHEMAS[file])
    lacks = [name for name in known if name not in header]
    if header != [name for name in known if name in header] or (
        lacks and file not in ("deployments.csv", "logs.csv")
    ):
        yield "line 1: the columns are not those of the schema, in its order"
    rows = [dict(zip(header, fields, strict=True)) for fields in found]
    for line, row in enumerate(rows, 2):
        for column, field in row.items():
            if not re.fullmatch(form(file, column), field):
                yield f"line {line}: {column}={field!r}"
    keys = [tuple(row[c] for c in UNIQUE.get(file, header[:1])) for row in rows]
    keys = [] if file in ALIKE else keys
    yield from (f"line {keys.index(key) + 2}: twice" for key in {*keys} if keys.count(key) > 1)
    if file in TOGETHER:
        yield from TOGETHER[file](rows)


def _releases(rows: Rows) -> Iterator[str]:
    for line, row in enumerate(rows, 2):
        if (row["eager_runner"] == "yes") != bool(row["sizing_rule"]):
            yield f"line {line}: a release has a sizing_rule exactly if it has an eager_runner"
    for line, (before, row) in enumerate(pairwise(rows), 3):
        if row["newest_file"] < before["newest_file"]:
            yield f"line {line}: newest_file is before that of the row above"


def _models(rows: Rows) -> Iterator[str]:
    for line, row in enumerate(rows, 2):
        for names, kind in ((("kv_heads", "head_dim"), "gqa"), (("kv_lora_rank",), "mla")):
            if any(bool(row[name]) != (row["attention"] == kind) for name in names):
                yield f"line {line}: {names} are for {kind}"
        if bool(row["rope_head_dim"]) != (row["attention"] == "mla"):
            yield f"line {line}: rope_head_dim is for mla"
        layers, every = int(row["layers"]), int(row["full_every"])
        if every > layers or (every > 1) != bool(row["other_layers"]):
            yield f"line {line}: full_every and other_layers"
        experts, chosen = int(row["num_experts"]), int(row["num_experts_per_tok"])
        if chosen > experts or (experts > 0) != (chosen > 0):
            yield f"line {line}: num_experts_per_tok"


def _workloads(rows: Rows) -> Iterator[str]:
    for name, group in groupby(rows, lambda row: row["workload"]):
        own = list(group)
        if [float(row["quantile"]) for row in own] != list(QUANTILES):
            yield f"{name}: the quantiles are not 0 to 1 in steps of 0.005"
        for before, row in pairwise(own):
            if any(row[c] != before[c] for c in ("requests", "duration_s", "source")):
                yield f"{name} {row['quantile']}: another trace"
            if any(int(row[c]) < int(before[c]) for c in ("prompt_tokens", "output_tokens")):
                yield f"{name} {row['quantile']}: fewer tokens than the quantile before"


def _flags(rows: Rows) -> Iterator[str]:
    for line, row in enumerate(rows, 2):
        if version(row["first"]) > version(row["last"]):
            yield f"line {line}: first is after last"


def _consumers(rows: Rows) -> Iterator[str]:
    order = [release.release for release in releases()]
    places = [order.index(row["since"]) for row in rows]
    if places != sorted(places):
        yield "not oldest first"
    workspace = next(row for row in rows if "all-to-all" in row["name"])
    if workspace["since"] != SINCE:
        yield f"the workspace is there since {SINCE}"


def _deployments(rows: Rows) -> Iterator[str]:
    for line, row in enumerate(rows, 2):
        if row.get("model"):
            try:
                find_model(row["model"])
            except ValueError as error:
                yield f"line {line}: {error}"


TOGETHER: dict[str, Callable[[Rows], Iterator[str]]] = {
    "releases.csv": _releases,
    "models.csv": _models,
    "workload_quantiles.csv": _workloads,
    "flags.csv": _flags,
    "consumers.csv": _consumers,
    "deployments.csv": _deployments,
    "logs.csv": _deployments,
}
