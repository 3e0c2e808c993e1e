"""Arithmetic written once that serves one number and a whole column (numpy array) of them.

`Int` stands for either: a function from `Int` to `Int` gives an int for ints and an array for
arrays. Where both are mixed the first argument is the column.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    Column = NDArray[Any]  # of int64, of bool for flags: numpy's arithmetic does not keep which

Int = TypeVar("Int", int, "Column")


def is_column(value: object) -> TypeIs[Column]:
    """Whether `value` is an array with at least one axis (an int, a bool and None are not)."""
    return getattr(value, "ndim", 0) > 0


def where(condition: Any, yes: Int, no: Int | int) -> Int:
    """`yes` where the condition holds, else `no`; element by element if any of them is a column.

    `condition`: a bool or a column of them (Any: what numpy tells of comparisons).
    """
    if type(yes) is int is type(no) and type(condition) is bool:  # the usual case, made quick
        return yes if condition else no
    if is_column(condition) or is_column(yes) or is_column(no):
        import numpy as np

        return np.where(condition, yes, no)  # type: ignore[return-value]
    return yes if condition else no


def largest(first: Int, *others: Int | int) -> Int:
    """The largest of the values, element by element."""
    return reduce(lambda a, b: where(a >= b, a, b), others, first)


def smallest(first: Int, *others: Int | int) -> Int:
    """The smallest of the values, element by element."""
    return reduce(lambda a, b: where(a <= b, a, b), others, first)


def ceil_align(x: Int, multiple: Int | int) -> Int:
    """The smallest multiple of `multiple` that is at least `x`.

    Both are whole numbers (of tokens, requests) or columns of them; a scalar `multiple` below 1
    raises ValueError. Same values as SGLang's `ceil_align`.
    """
    if not is_column(multiple) and multiple < 1:
        raise ValueError(f"multiple={multiple}: alignment needs a multiple of at least 1")
    return -(-x // multiple) * multiple
