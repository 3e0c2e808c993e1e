"""The tables of data/ hold what they must, and one that cannot be read names file and line."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import _csv
from eagerbuf.consumers.known import CONSUMERS
from eagerbuf.model import models
from eagerbuf.read import options
from eagerbuf.releases import releases
from eagerbuf.simulate.workloads import _workloads
from eagerbuf.studies.deployments import deployments, log_lines
from tests.core.shipped import DATA, SCHEMAS, problems


def stored(file: str) -> list[str]:
    return (DATA / file).read_text(encoding="utf-8").splitlines()


def joined(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("file", SCHEMAS)
def test_a_shipped_table_holds_what_it_must(file: str) -> None:
    assert list(problems(file, (DATA / file).read_bytes())) == []


def test_every_table_of_the_folder_is_checked() -> None:
    assert {path.name for path in DATA.glob("*.csv")} == set(SCHEMAS)


def test_every_row_names_its_source() -> None:
    loaded = [releases(), models(), options.table(), deployments(), log_lines(), CONSUMERS]
    for items in (*loaded, _workloads().values()):
        assert len(items) > 1
        assert all(item.source for item in items)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("releases.csv", "0.5.14,2026-06-26,yes,pr28677", "0.5.14,2026-06-26,yes,pr1"),
        ("releases.csv", "0.5.14,2026-06-26,yes", "0.5.14,2026-06-26,no"),
        ("releases.csv", "0.5.14,2026-06-26", "0.5.14,2026-13-26"),
        ("releases.csv", "0.5.14,2026-06-26", "0.5.14,2025-06-26"),
        ("releases.csv", "0.5.14,", "v0.5.14,"),
        ("releases.csv", "0.5.13,", "0.5.12,"),
        ("models.csv", "DeepSeek-V3,mla,61", "DeepSeek-V3,mha,61"),
        ("models.csv", "DeepSeek-V3,mla,61", "DeepSeek-V3,gqa,61"),
        ("models.csv", "DeepSeek-V3,mla,61", "DeepSeek-V3,mla,0"),
        ("models.csv", "DeepSeek-V2,mla,60", "DeepSeek-V3,mla,60"),
        ("models.csv", "gqa,48,4,linear", "gqa,48,4,"),
        ("models.csv", "gqa,48,4,linear", "gqa,48,49,linear"),
        ("models.csv", "gqa,48,4,linear,2,256,,", "gqa,48,4,linear,2,256,512,"),
        ("models.csv", "2048,512,10,2", "2048,8,10,2"),
        ("models.csv", "2048,512,10,2", "2048,512,0,2"),
        ("models.csv", ",2,https://github.com/openai", ",2,a blog of openai"),
        ("workload_quantiles.csv", ",0.01,", ",0.011,"),
        ("workload_quantiles.csv", "azure-2023-code", "azure-2023-codes"),
        ("flags.csv", "0.5.9,0.5.23", "0.5.23,0.5.9"),
        ("flags.csv", "--allowed-media-domains,+", "--allowed-media-domains,2"),
        ("consumers.csv", "0.5.14,allocates", "0.5.23,allocates"),
        ("consumers.csv", "0.5.22,allocates,layers", "0.5.21,allocates,layers"),
        ("consumers.csv", ",allocates,", ",keeps,"),
        ("consumers.csv", "--dsv4-attn-backend trtllm\n", "dsv4-attn-backend trtllm\n"),
        ("glossary.csv", "admit|admits", "admit||admits"),
        ("deployments.csv", "DeepSeek-V3,", "DeepSeek-V9,"),
        ("deployments.csv", ",12288,128,", ",12288,0128,"),
        ("logs.csv", "\n", " \n"),
        ("logs.csv", "name,", "title,"),
    ],
)
def test_the_checks_see_what_is_wrong(file: str, old: str, new: str) -> None:
    text = (DATA / file).read_text(encoding="utf-8")
    assert old in text
    assert list(problems(file, text.replace(old, new, 1).encode()))


# --- loading ---


def read(file: str, data: bytes) -> list[dict[str, object]]:
    lines = data.decode("utf-8-sig").splitlines(keepends=True)
    return list(_csv.read(lines, file, SCHEMAS[file]))


@pytest.mark.parametrize("file", SCHEMAS)
def test_loading_gives_what_the_standard_reader_reads(file: str) -> None:
    found = _csv.table(file, SCHEMAS[file])
    for row, plain in zip(found, csv.DictReader(stored(file)), strict=True):
        assert list(row) == list(SCHEMAS[file])
        for column, value in row.items():
            text = plain.get(column, "")
            if isinstance(value, bool):
                assert text == ("yes" if value else "no")
            else:
                assert value == (None if text == "" else type(value)(text)) or column in (
                    "flags",
                    "other_forms",
                )


@pytest.mark.parametrize("file", SCHEMAS)
def test_byte_order_marks_and_windows_line_ends_change_nothing(file: str) -> None:
    good = joined(stored(file))
    assert read(file, b"\xef\xbb\xbf" + good) == read(file, good)
    assert read(file, good.replace(b"\n", b"\r\n")) == read(file, good)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["release,x"], "line 1: column 'x' is unknown"),
        (["release,eager_runner", "0.5.1"], "line 2: must have 2 fields, has 1"),
        (["release,eager_runner", "0.5.1,yes,no"], "line 2: must have 2 fields, has 3"),
        (["release,eager_runner", "0.5.1,maybe"], "line 2: eager_runner: 'maybe' must be yes or"),
        (["release", "0.5.1"], "line 2: eager_runner: '' must be yes or no"),
    ],
)
def test_what_cannot_be_read_names_file_line_and_reason(lines: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=f"^releases.csv, {re.escape(words)}"):
        read("releases.csv", joined(lines))


def test_a_number_that_is_none_is_named() -> None:
    lines = [*stored("models.csv")[:1], stored("models.csv")[1].replace(",61,", ",6l,")]
    with pytest.raises(ValueError, match=r"^models\.csv, line 2: layers: .*'6l'"):
        read("models.csv", joined(lines))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"data file none\.csv is missing"):
        _csv.table("none.csv", {})


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(SCHEMAS)),
    st.lists(st.tuples(st.floats(0, 1), st.text(max_size=3), st.integers(0, 30)), max_size=3),
)
def test_any_damage_is_read_or_refused_by_name(
    file: str, changes: list[tuple[float, str, int]]
) -> None:
    text = "\n".join(stored(file)[:40]) + "\n"
    for at, piece, cut in changes:
        start = int(at * len(text))
        text = text[:start] + piece + text[start + cut :]
    assert re.match(rf"$|{file}, line \d+: .", refusal(file, text))


def refusal(file: str, text: str) -> str:
    try:
        list(_csv.read(text.splitlines(keepends=True), file, SCHEMAS[file]))
    except ValueError as error:
        return str(error)
    except csv.Error:  # a line end inside a field
        return ""
    return ""
