"""Columns that need no conversion take a shorter way than others: both give the same answers."""

import numpy as np
import pandas as pd
import pytest

from eagerbuf import size_many
from eagerbuf._frames import _plain, config_columns
from eagerbuf.config import DEFAULTS

KINDS = (  # required, optional, with a default, from 0, a flag, a text
    "max_running_requests",
    "chunked_prefill_size",
    "max_total_num_tokens",
    "page_size",
    "max_prefill_tokens",
    "cp_zigzag",
    "moe_a2a_backend",
)
VALUES = (
    [1, 2, 4],
    [1.0, 2.0, 4.0],
    [2, 0, 1],
    [2, -1, 1],
    [1.5, 2, 3],
    [np.nan, 2, 4],
    [np.inf, 1, 2],
    [2**40, 1, 1],
    [2**40 + 1, 1, 1],
    [-(2.0**41), 1, 1],
    [True, False, True],
    ["none", "deepep", "none"],
    ["", "none", "x"],
    [None, "none", "x"],
    [["a"], "none", "x"],
)


def answer(frame):
    """Sizes, or the error without the value, which an object column shows in its own way."""
    try:
        return size_many(frame, "pr28677").to_dict()
    except ValueError as error:
        return str(error).split("(row")[-1]


@pytest.mark.parametrize("field", KINDS)
def test_numbers_and_objects_give_the_same(field):
    for values in VALUES:
        rows = {"chunked_prefill_size": 8, "max_running_requests": 4}
        frame = pd.DataFrame(rows, index=["a", "b", "c"]).assign(**{field: values})
        assert answer(frame) == answer(frame.astype(object)), values


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("moe_a2a_backend", pd.Categorical([None, "deepep", "deepep"])),
        ("moe_a2a_backend", pd.array([None, "deepep", "none"], "string")),
        ("page_size", pd.Categorical([None, 64, 1])),
        ("max_prefill_tokens", pd.arrays.SparseArray([0, 0, 5])),
        ("max_total_num_tokens", pd.array([None, 5, 7], "Int64")),
        ("enable_dp_attention", pd.array([None, True, False], "boolean")),
    ],
)
def test_columns_of_other_kinds_are_read_as_their_values(field, values):
    rows = {"chunked_prefill_size": 8, "max_running_requests": 5, "tp_size": 2, "dp_size": 2}
    frame = pd.DataFrame(rows, index=["a", "b", "c"]).assign(**{field: values})
    for rule in ("pr28677", "tight"):
        assert size_many(frame, rule).equals(size_many(frame.assign(**{field: list(values)}), rule))


def test_a_refused_value_is_shown_as_it_was_given():
    frame = pd.DataFrame({"chunked_prefill_size": [8, 16], "max_running_requests": [4, 0]})
    with pytest.raises(ValueError, match=r"^max_running_requests=0 \(row 1\): must be at least 1$"):
        size_many(frame, "tight")
    with pytest.raises(ValueError, match=r"cp_zigzag='yes' \(row 0\): give True or False$"):
        size_many(frame.assign(max_running_requests=4, cp_zigzag="yes"), "tight")


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("page_size", [1.5, 2.5], r"page_size=1.5 \(row 0\): give a whole number of at most 10995"),
        ("page_size", [1.0, 2.5], r"page_size=2.5 \(row 1\): give a whole number"),
        ("page_size", [1.0, 2.0**41 + 0.5], r"page_size=219902325555.*5 \(row 1\): give a whole"),
        ("chunked_prefill_size", [8, -1.5], r"chunked_prefill_size=-1.5 \(row 1\): give a whole"),
        ("page_size", [1, 2**40 + 1], r"page_size=1099511627777 \(row 1\): give a whole number"),
        ("chunked_prefill_size", [-(2**40) - 1, 1], r"=-1099511627777 \(row 0\): give a whole"),
        ("page_size", [1, "many"], r"page_size='many' \(row 1\): give a whole number"),
        ("page_size", [1, True], r"page_size=True \(row 1\): give a whole number, not a flag"),
        ("cp_zigzag", [0, -1], r"cp_zigzag=-1 \(row 1\): give True or False"),
        ("cp_zigzag", [2, 1], r"cp_zigzag=2 \(row 0\): give True or False"),
        ("moe_a2a_backend", ["none", ["a"]], r"=\['a'\] \(row 1\): give a backend name"),
        ("moe_a2a_backend", ["", "none"], r"='' \(row 0\): give a backend name"),
        ("moe_a2a_backend", ["none", 3], r"=3 \(row 1\): give a backend name"),
        ("max_running_requests", [4, None], r"\(row 1\): a value is required"),
    ],
)
def test_what_is_refused_and_why(field, values, message):
    frame = pd.DataFrame({"chunked_prefill_size": [8, 16], "max_running_requests": [4, 5]})
    for given in (values, pd.Series(values, dtype=object)):
        with pytest.raises(ValueError, match=message):
            size_many(frame.assign(**{field: given}), "pr28677")


def test_the_first_unknown_column_is_named():
    frame = pd.DataFrame(
        {"chunked_prefill_size": [8], "max_running_requests": [4], "tp": 1, "x": 2}
    )
    with pytest.raises(ValueError, match="column 'tp' is no field"):
        size_many(frame, "tight")
    twice = pd.concat([frame[["max_running_requests", "chunked_prefill_size"]]] * 2, axis=1)
    with pytest.raises(ValueError, match="column 'max_running_requests' is there twice"):
        size_many(twice, "tight")
    with pytest.raises(ValueError, match="column 'max_running_requests' is there twice"):
        size_many(twice.iloc[:, [0, 1, 2]], "tight")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("page_size", [1, 2**40]),
        ("page_size", [1.0, 64.0]),
        ("context_len", [np.nan, 4096.0]),
        ("page_size", [np.nan, 64.0]),
        ("chunked_prefill_size", [-(2.0**40), np.nan]),
        ("max_running_requests", [1.0, 2.0**40]),
        ("cp_zigzag", [True, False]),
    ],
)
def test_plain_columns_take_the_short_way(field, values):
    short = _plain(pd.Series(values, name=field))
    expected = [DEFAULTS.get(field) or 0 if value != value else value for value in values]
    assert short.tolist() == expected
    for other in (pd.Series(values, dtype=object), pd.Series([2**41])):
        assert _plain(other.rename(field)) is None


def test_narrow_columns_are_widened():
    """Products of two of them would not fit."""
    for dtype in ("int8", "int32", "uint8", "float32"):
        column = pd.Series([100, 64], name="page_size", dtype=dtype)
        assert _plain(column) is None
        frame = pd.DataFrame({"chunked_prefill_size": [8, 8], "max_running_requests": column})
        assert config_columns(frame).max_running_requests.dtype == "int64"


def test_a_number_that_is_not_given_is_zero():
    frame = pd.DataFrame({"chunked_prefill_size": [None, 8], "max_running_requests": [4, 4]})
    for chunks in (pd.Series([None, 8], dtype=object), [np.nan, 8.0], pd.array([None, 8], "Int64")):
        columns = config_columns(frame.assign(chunked_prefill_size=chunks))
        assert columns.chunked_prefill_size.tolist() == [0, 8]
        assert columns.context_len.tolist() == [0, 0]
        assert columns.page_size.tolist() == [1, 1]


def test_columns_of_defaults_change_nothing():
    frame = pd.DataFrame({"chunked_prefill_size": [8, 16], "max_running_requests": [4, 5]})
    given = {name: value for name, value in DEFAULTS.items() if value is not None}
    assert answer(frame) == answer(frame.assign(**given))


def test_an_empty_table_has_no_sizes():
    frame = pd.DataFrame({"chunked_prefill_size": [], "max_running_requests": []})
    sizes = size_many(frame, "tight")
    assert len(sizes) == 0
    assert sizes.dtypes.astype(str).tolist() == ["Int64", "Int64"]


def test_a_result_can_be_written_to_and_shares_nothing():
    frame = pd.DataFrame({"chunked_prefill_size": [8, 16], "max_running_requests": [4, 5]})
    sizes = size_many(frame, "pr28386")
    sizes.loc[0, "max_bs"] = 99
    assert frame.max_running_requests.tolist() == [4, 5]
