"""Every file of data/ is checked when it is read: damaged, it names file, line and reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import _csv as schema
from eagerbuf import releases
from eagerbuf._data import data_path
from eagerbuf.model import SCHEMA as MODEL_SCHEMA
from eagerbuf.model import read_models
from eagerbuf.read import options
from eagerbuf.simulate import workloads
from eagerbuf.studies import deployments

Loads = Callable[[bytes, Path], Any]


def from_file(load: Callable[[Path], Any]) -> Loads:
    """A loader of a path, for bytes."""

    def loads(data: bytes, folder: Path) -> Any:
        path = folder / "t.csv"
        path.write_bytes(data)
        return load(path)

    return loads


FILES: dict[str, tuple[Loads, dict[str, schema.Reads], tuple[str, ...]]] = {
    "releases.csv": (from_file(releases.load_releases), releases.SCHEMA, ()),
    "deployments.csv": (
        from_file(deployments.load_deployments),
        deployments.SCHEMA,
        deployments.OPTIONAL,
    ),
    "logs.csv": (
        from_file(deployments.load_deployments),
        deployments.SCHEMA,
        deployments.OPTIONAL,
    ),
    "models.csv": (lambda data, _: read_models(data, "t.csv"), MODEL_SCHEMA, ()),
    "workload_quantiles.csv": (from_file(workloads.load_workloads), workloads.SCHEMA, ()),
    "flags.csv": (lambda data, _: options.read_options(data, "t.csv"), options.SCHEMA, ()),
}
WRONG = {  # what no such field may hold
    "release": ("0.5", "v0.5.14", "latest", ""),
    "newest_file": ("2026-13-01", "2026-6-1", "26.06.2026", ""),
    "eager_runner": ("true", "1", "", "Yes"),
    "sizing_rule": ("pr1", "PR28677", "none"),
    "source": ("", " x", "x "),
    "name": ("", " "),
    "chunked_prefill_size": ("8k", "1e3", "--1", "08192", "9" * 16),
    "cp_zigzag": ("True", "0"),
    "smooth_factor": ("nan", "inf", "-0.5", "0,5", "1e999"),
    "tp_size": ("0", "-1", "3.0"),
    "workload": ("", " a"),
    "requests": ("0", "1.5", "-3", "x", "1000000000"),
    "quantile": ("1.1", "nan", "-0.1", "", "0.0.5"),
    "prompt_tokens": ("0", "", "1_000", "\u0661"),
    "option": ("tp", "--", "--tp size", ""),
    "args": ("2", "", "**"),
    "first": ("0.5", "0.5.14.", "main", ""),
    "last": ("0.5.1", "newest"),
    "program": ("", "client"),
    "model": (" x", " "),
    "kv_bytes_per_token": ("0.5", "many", "-1"),
    "attention": ("mha", ""),
    "layers": ("0", "", "6.1"),
    "full_every": ("0", ""),
    "other_layers": ("window",),
    "kv_heads": ("0", "8.0"),
    "kv_lora_rank": ("0", "512.5"),
    "num_experts": ("-1", "", "many"),
    "kv_dtype_bytes": ("0", "5", ""),
}


def stored(name: str) -> list[str]:
    return data_path(name).read_text(encoding="utf-8").splitlines()


def joined(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def why(name: str, data: bytes, folder: Path) -> str:
    """The one line that refuses the file."""
    with pytest.raises(ValueError, match=r"^t\.csv, line \d+: .") as error:
        FILES[name][0](data, folder)
    text = str(error.value)
    assert len(text) < 700
    assert text.isprintable()
    return text


def number(text: str) -> int:
    return int(re.findall(r"line (\d+): ", text)[0])


def columns(name: str) -> list[str]:
    return stored(name)[0].split(",")


@pytest.mark.parametrize("name", FILES)
def test_every_row_names_its_source(name: str, tmp_path: Path) -> None:
    found = FILES[name][0](joined(stored(name)), tmp_path)
    items = found.values() if isinstance(found, dict) else found
    assert all(item.source for item in items)


def test_no_file_of_the_folder_is_without_a_schema() -> None:
    names = {path.name for path in data_path("releases.csv").parent.glob("*.csv")}
    read_elsewhere = names - set(FILES)
    for name in read_elsewhere:  # those have tests of their own
        text = "".join(p.read_text("utf-8") for p in Path(__file__).parents[1].rglob("test_*.py"))
        assert name in text, f"no test reads data/{name}"


@pytest.mark.parametrize("name", FILES)
def test_byte_order_marks_and_windows_line_ends_change_nothing(name: str, tmp_path: Path) -> None:
    loads = FILES[name][0]
    good = joined(stored(name))
    assert loads(b"\xef\xbb\xbf" + good, tmp_path) == loads(good, tmp_path)
    assert loads(good.replace(b"\n", b"\r\n"), tmp_path) == loads(good, tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_column_missing_renamed_doubled_or_moved(name: str, tmp_path: Path) -> None:
    head, *body = stored(name)
    names = head.split(",")
    for at, column in enumerate(names):
        without = ",".join(names[:at] + names[at + 1 :])
        renamed = [*names[:at], column.upper(), *names[at + 1 :]]
        swapped = sorted(names, key=lambda n, c=column: n != c) if at else names[::-1]
        for changed in (without, ",".join(renamed), f"{head},{column}", ",".join(swapped)):
            text = why(name, joined([changed, *body]), tmp_path)
            left_out = changed == without and column in FILES[name][2]
            assert left_out or (number(text) == 1 and "columns must be" in text)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("line", [2, 4, -1])
def test_a_field_too_few_or_too_many(name: str, line: int, tmp_path: Path) -> None:
    lines = stored(name)
    at = line - 1 if line > 0 else len(lines) - 1
    for changed in (lines[at].rpartition(",")[0], lines[at] + ",", "", lines[at].split(",")[0]):
        damaged = [*lines[:at], changed, *lines[at + 1 :]]
        assert number(why(name, joined(damaged), tmp_path)) == at + 1


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_in_its_last_lines(name: str, tmp_path: Path) -> None:
    good = joined(stored(name))
    for end in range(len(good) - 60, len(good)):
        if good[end - 1 : end] != b"\n":
            text = why(name, good[:end], tmp_path)
            assert number(text) == good.count(b"\n", 0, end) + 1


@pytest.mark.parametrize("name", FILES)
def test_a_field_its_column_cannot_have(name: str, tmp_path: Path) -> None:
    lines = stored(name)
    fields = lines[3].split(",")[: len(columns(name)) - 1]
    for at, column in enumerate(columns(name)[:-1]):
        for wrong in WRONG.get(column, ("\u2028", " x")):
            quoted = f'"{wrong}"' if "," in wrong else wrong
            damaged = [*fields[:at], quoted, *fields[at + 1 :], "a"]
            text = why(name, joined([*lines[:3], ",".join(damaged), *lines[4:]]), tmp_path)
            assert number(text) == 4
            assert column in text or "control" in text
    for wrong in WRONG["source"]:
        text = why(name, joined([*lines[:3], ",".join([*fields, wrong])]), tmp_path)
        assert (number(text), "source=" in text) == (4, True)


@pytest.mark.parametrize("name", FILES)
def test_a_row_given_twice(name: str, tmp_path: Path) -> None:
    lines = stored(name)
    for at in (1, len(lines) // 2, len(lines) - 1):
        text = why(name, joined([*lines, lines[at]]), tmp_path)
        assert number(text) == len(lines) + 1
        assert name == "workload_quantiles.csv" or f"stands in line {at + 1} too" in text


def junk() -> Iterator[tuple[bytes, str]]:
    yield b"\x00", "control character"
    yield b"\x1b[1m", "control character"
    yield b"\r", "control character"
    yield "\u2028".encode(), "control character"
    yield "\ufeff".encode(), "control character"
    yield b"\xff", "not UTF-8"
    yield b"\xc3", "not UTF-8"
    yield b'"', "not CSV"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("piece", "words"), [*junk()])
def test_what_no_table_holds(name: str, piece: bytes, words: str, tmp_path: Path) -> None:
    lines = [line.encode() for line in stored(name)]
    damaged = [*lines[:2], lines[2].replace(b",", b"," + piece, 1), *lines[3:]]
    text = why(name, b"\n".join(damaged) + b"\n", tmp_path)
    assert number(text) == 3
    assert words in text


@pytest.mark.parametrize("name", FILES)
def test_empty_files_and_others(name: str, tmp_path: Path) -> None:
    head = stored(name)[0]
    for data in (b"", b"\n", b"PK\x03\x04", b"<html>\n", b"\xff\xfea\x00", head.encode() + b"\n"):
        assert number(why(name, data, tmp_path)) == 1
    assert "no rows" in why(name, head.encode() + b"\n", tmp_path)


def test_what_the_rows_say_together(tmp_path: Path) -> None:
    lines = stored("releases.csv")
    assert number(why("releases.csv", joined([*lines[:3], lines[4], lines[3]]), tmp_path)) == 5
    only_main = [lines[0], next(line for line in lines if line.startswith("main"))]
    assert "no release" in why("releases.csv", joined(only_main), tmp_path)
    options_ = stored("flags.csv")
    turned = options_[1].split(",")
    turned[2:4] = "0.5.23", "0.5.9"
    assert "is after last" in why("flags.csv", joined([options_[0], ",".join(turned)]), tmp_path)


@pytest.mark.parametrize("name", FILES)
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 30)),
        min_size=1,
        max_size=3,
    )
)
def test_any_damage(
    name: str, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, bytes, int]]
) -> None:
    """The file is read, or refused in one line that names it."""
    data = joined(stored(name)[:300])
    for at, piece, cut in changes:
        start = int(at * len(data))
        data = data[:start] + piece + data[start + cut :]
    try:
        FILES[name][0](data, tmp_path_factory.getbasetemp())
    except ValueError as error:
        reason = str(error)
    else:
        return
    assert re.match(r"t\.csv, line \d+: .", reason)
    assert reason.isprintable()
