"""Arithmetic written once that serves one value and a whole column (numpy array) of values."""

from __future__ import annotations

from functools import reduce
from typing import Any


def is_column(value: Any) -> bool:
    """Whether `value` is an array with at least one axis (an int, a bool and None are not)."""
    return getattr(value, "ndim", 0) > 0


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`; element by element if any of them is a column."""
    if type(yes) is int is type(no) and type(condition) is bool:  # the usual case, made quick
        return yes if condition else no
    if is_column(condition) or is_column(yes) or is_column(no):
        import numpy as np

        return np.where(condition, yes, no)
    return yes if condition else no


def largest(first: Any, *others: Any) -> Any:
    """The largest of the values, element by element."""
    return reduce(lambda a, b: where(a >= b, a, b), others, first)


def smallest(first: Any, *others: Any) -> Any:
    """The smallest of the values, element by element."""
    return reduce(lambda a, b: where(a <= b, a, b), others, first)


def ceil_align(x: Any, multiple: Any) -> Any:
    """The smallest multiple of `multiple` that is at least `x`.

    Both are whole numbers or columns of them, `multiple` >= 1; a scalar `multiple` below 1 raises
    ValueError. Same values as SGLang's `ceil_align`.
    """
    if not is_column(multiple) and multiple < 1:
        raise ValueError(f"multiple={multiple}: alignment needs a multiple of at least 1")
    return -(-x // multiple) * multiple
