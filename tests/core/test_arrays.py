"""One arithmetic for numbers and columns: whichever argument is a column, the answer is one."""

import numpy as np
import pytest

from eagerbuf._arrays import ceil_align, is_column, largest, smallest, where

COLUMN = np.array([2, 3])


@pytest.mark.parametrize(
    ("condition", "yes", "no", "expected"),
    [
        (True, 1, 0, 1),
        (False, 1, 0, 0),
        (True, False, True, False),
        (True, 1, COLUMN, [1, 1]),
        (False, 1, COLUMN, [2, 3]),
        (True, COLUMN, 1, [2, 3]),
        (False, COLUMN, 1, [1, 1]),
        (np.array([True, False]), 1, 0, [1, 0]),
        (np.array([True, False]), False, True, [False, True]),
        (np.array([True, False]), COLUMN, 9, [2, 9]),
        (np.bool_(True), 1, 0, 1),
    ],
)
def test_where(condition, yes, no, expected):
    found = where(condition, yes, no)
    assert is_column(found) == isinstance(expected, list)
    assert np.asarray(found).tolist() == expected


def test_what_is_a_column():
    assert [is_column(x) for x in (COLUMN, np.array([]), 1, True, None, np.int64(3))] == [
        *(True, True),
        *(False, False, False, False),
    ]


def test_the_largest_and_the_smallest():
    assert (largest(3, 1, 2), smallest(3, 1, 2)) == (3, 1)
    assert (largest(1), smallest(1)) == (1, 1)
    assert largest(1, COLUMN, np.array([5, 0])).tolist() == [5, 3]
    assert smallest(COLUMN, 2, np.array([5, 0])).tolist() == [2, 0]


def test_alignment():
    assert [ceil_align(x, 4) for x in (-1, 0, 1, 4, 5)] == [0, 0, 4, 4, 8]
    assert ceil_align(COLUMN, np.array([2, 2])).tolist() == [2, 4]
    for bad in (0, -4):
        with pytest.raises(ValueError, match=f"multiple={bad}: .* at least 1"):
            ceil_align(8, bad)
