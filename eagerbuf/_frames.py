"""A table of configurations as columns: the bridge from a DataFrame to the sizing formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerbuf.config import DEFAULTS, FIELDS, FLAGS, LEAST, MOST, OPTIONAL, Unchecked, check_layout

if TYPE_CHECKING:
    from pandas import DataFrame, Index, Series

    from eagerbuf._arrays import Column
    from eagerbuf.config import Columns


def config_columns(frame: DataFrame) -> Columns:
    """Validated columns of `frame`, one configuration a row; ValueError names column and row."""
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"column {twice[0]!r} is there twice")
    unknown = [name for name in frame.columns if name not in FIELDS]
    if unknown:
        raise ValueError(f"column {unknown[0]!r} is no field of EngineConfig: {', '.join(FIELDS)}")
    columns: Columns = Unchecked(**{name: _column(frame, name) for name in FIELDS})
    check_layout(columns)
    return columns


def nullable(index: Index, **columns: tuple[Column, Column]) -> DataFrame:
    """A DataFrame of Int64 columns from (values, mask of the missing ones)."""
    import pandas as pd

    arrays = {name: pd.arrays.IntegerArray(*column, copy=True) for name, column in columns.items()}
    return pd.DataFrame(arrays, index=index, copy=False)


def _column(frame: DataFrame, name: str) -> Column:
    import numpy as np

    if name not in frame.columns:
        if name not in DEFAULTS:
            raise ValueError(f"column {name!r} is missing and has no default")
        return np.broadcast_to(_default(name), len(frame))
    series = frame[name]
    if name == "moe_a2a_backend":
        return series.to_numpy(object) if _are_names(series) else _texts(series)
    plain = _plain(series)
    return _numbers(series) if plain is None else plain


def _default(name: str) -> Any:
    """What a missing value stands for: the field's default (int, bool or str), 0 for None."""
    default = DEFAULTS[name]
    return 0 if default is None else default


def _are_names(series: Series) -> bool:
    """Whether `_texts` would find nothing to refuse or to fill: each value is looked at once."""
    try:
        values = set(series.to_numpy(object))
    except TypeError:  # a value without a hash
        return False
    return all(isinstance(value, str) and bool(value) for value in values)


def _texts(series: Series) -> Column:
    series = series.astype(object)  # a column of categories takes no default
    series = series.mask(series.isna(), _default("moe_a2a_backend"))
    bad = ~series.map(lambda value: isinstance(value, str) and bool(value)).to_numpy(bool)
    _refuse(series, bad, 'give a backend name, "none" for no all-to-all')
    values: Column = series.to_numpy(object)
    return values


def _plain(series: Series) -> Column | None:
    """What `_numbers` would give for numpy numbers of which none is refused, else None."""
    name, values = str(series.name), series.to_numpy()
    if name in FLAGS:
        return values if values.dtype == bool else None
    if values.dtype == "int64":
        return values if _allowed(values, name) else None
    return _whole(values, name) if values.dtype == "float64" else None


def _whole(values: Column, name: str) -> Column | None:
    import numpy as np

    missing = np.isnan(values)
    required = name not in DEFAULTS and name not in OPTIONAL
    if not _allowed(values, name) or (required and missing.any()):
        return None
    default = _default(name) if name in DEFAULTS else 0
    whole = np.where(missing, default, values).astype("int64")
    return whole if (missing | (whole == values)).all() else None


def _allowed(values: Column, name: str) -> bool:
    """Whether each number that is not missing is in the range of the field."""
    least = -MOST if LEAST[name] is None else LEAST[name]
    return not ((values < least).any() or (values > MOST).any())


def _numbers(series: Series) -> Column:
    """The column as int64 (bool for flags), each value checked as EngineConfig checks one."""
    import numpy as np
    import pandas as pd

    name, series = str(series.name), series.astype(object)
    missing = series.isna().to_numpy(bool)
    if name not in DEFAULTS and name not in OPTIONAL:
        _refuse(series, missing, "a value is required")
    filled = series.mask(missing, _default(name) if name in DEFAULTS else 0)
    if name not in FLAGS:
        flags = series.map(lambda value: isinstance(value, (bool, np.bool_))).to_numpy(bool)
        _refuse(series, flags, "give a whole number, not a flag")
    numbers = pd.to_numeric(filled, errors="coerce")
    bad = (numbers.isna() | (numbers != numbers.round()) | (numbers.abs() > MOST)).to_numpy(bool)
    whole = f"give a whole number of at most {MOST}"
    _refuse(series, bad, "give True or False" if name in FLAGS else whole)
    values: Column = numbers.to_numpy("int64")
    if name in FLAGS:
        _refuse(series, (values != 0) & (values != 1), "give True or False")
        return values.astype(bool)
    least = LEAST[name]
    if least is not None:
        _refuse(series, (values < least) & ~missing, f"must be at least {least}")
    return values


def _refuse(series: Series, bad: Column, rule: str) -> None:
    if bad.any():
        place = int(bad.argmax())
        value, row = series.iloc[place], series.index[place]
        raise ValueError(f"{series.name}={value!r} (row {row}): {rule}")
