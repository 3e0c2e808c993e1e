"""`python -m tests.engine.record`: run what data/engine_runs.jsonl lacks, and add it.

With names of studies all runs of those anew. One engine after the other; a run that is still
going when its time is over is not recorded.
"""

from __future__ import annotations

import datetime
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from eagerbuf.engine.environment import ROOT, engine_folder, known_releases
from eagerbuf.engine.recorded import FILE, STUDIES, RecordedRun

PATH = Path(ROOT, "data", FILE)
SHORT = ("--chunked-prefill-size", "512", "--max-running-requests", "16")
PP = ("--pp-size", "2", "--enable-dynamic-chunking", *SHORT)
PP_TP = ("--pp-size", "2", "--tp-size", "2", "--enable-dynamic-chunking", *SHORT)
DP = ("--tp-size", "4", "--dp-size", "2", "--enable-dp-attention")
DP += ("--chunked-prefill-size", "1024", "--max-running-requests", "14")
OFF = ("--disable-radix-cache",)
HEADS = {"num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 16}
ONE_RANK = "tests/engine/switches/one_rank.py"
AUTOTUNE = "tests/engine/switches/autotune.py"
DOCUMENTED = ("--pp-size", "4", "--enable-dynamic-chunking")
DOCUMENTED += ("--chunked-prefill-size", "12288", "--max-running-requests", "128")
TWO, FULL = [[1000, 8], [30, 8]], [[20, 24]] * 14
TELLING = ("0.5.20", "0.5.21", "0.5.22", "0.5.23")  # a failed profile is broadcast


def asked() -> Iterator[dict[str, Any]]:
    """Every run there is to record, as the first columns of the file."""
    yield _run("documented", "0.5.14", DOCUMENTED, "pr28386")
    yield _run("documented", "0.5.14", DOCUMENTED, None, [[20000, 4]])
    for release in known_releases():
        for rule in (None, "pr28386"):
            for off in ((), OFF):
                yield _run("matrix", release, (*PP, *off), rule, TWO, model=HEADS)
    for release in TELLING:
        yield _run("one rank alone", release, PP_TP, switches={"fail_alone": 1})
        told = {"rank": 1, "agree": True}
        yield _run("agreement", release, PP_TP, requests=TWO, switches={ONE_RANK: told})
    for release in ("0.5.14", "0.5.18", "0.5.20"):
        yield _run("small vocabulary", release, PP, requests=TWO, model={"vocab_size": 8000})
    for rule in (None, "pr28386"):
        yield _run("batch axis", "0.5.14", DP, rule, FULL)
        yield _run("autotune", "0.5.14", DP, rule, FULL, switches={AUTOTUNE: 1})


def _run(
    study: str,
    release: str,
    flags: Sequence[str],
    rule: str | None = None,
    requests: Sequence[Sequence[int]] = (),
    *,
    model: Mapping[str, Any] | None = None,
    switches: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "study": study,
        "release": release,
        "rule": rule,
        "flags": list(flags),
        "model": dict(model or {}),
        "switches": dict(switches or {}),
        "requests": [list(pair) for pair in requests],
    }


def ended(report: Mapping[str, Any]) -> dict[str, Any]:
    """How a run ended, as the other columns: from `EngineReport.to_dict()`."""
    blocked = {rank["tag"]: rank["blocked_in"] for rank in report["ranks"] if rank["blocked_in"]}
    size = report["sizes"][0]["sizes"] if report["sizes"] else {}
    return {
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
        "outcome": report["outcome"],
        "failure": report["failure"],
        "blocked_in": blocked,
        "max_bs": size.get("max_bs"),
        "max_num_tokens": size.get("max_num_token"),
        "seconds": round(report["seconds"], 1),
    }


def versions() -> str:
    """What the releases ran on."""
    where = [str(engine_folder() / "packages")]
    (transformers,) = metadata.distributions(name="transformers", path=where)
    torch = metadata.version("torch")
    return f"Python {platform.python_version()}, torch {torch}, transformers {transformers.version}"


def write(rows: Sequence[Mapping[str, Any]]) -> None:
    """The file, study by study."""
    order = sorted(rows, key=lambda row: STUDIES.index(row["study"]))
    PATH.write_text("".join(json.dumps(row) + "\n" for row in order), "utf-8")


def kept() -> list[dict[str, Any]]:
    """The rows that are there."""
    lines = PATH.read_text("utf-8").splitlines() if PATH.is_file() else []
    return [json.loads(line) for line in lines]


def run(row: Mapping[str, Any]) -> dict[str, Any]:
    """One run, made now."""
    unknown = dict.fromkeys(field.name for field in fields(RecordedRun))
    return {**row, **ended(RecordedRun(**unknown | row).again().to_dict())}


def main(studies: Sequence[str]) -> None:
    """Run and write; a row is there as soon as its run has ended."""
    rows = {key(row): row for row in kept() if row["study"] not in studies}
    wanted = {key(row): row for row in asked()}
    for key in wanted.keys() - rows.keys():
        done = run(wanted[key])
        print(*(done[name] for name in ("study", "release", "rule", "outcome", "failure")))
        if done["outcome"] != "overtime":
            rows[key] = done
            write([rows[key] for key in wanted if key in rows])


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes a run the one it is."""
    names = ("study", "release", "rule", "flags", "switches", "model")
    return tuple(json.dumps(row[name]) for name in names)


if __name__ == "__main__":
    main(sys.argv[1:])
