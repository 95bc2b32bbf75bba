"""Columns of a table as an additive model reads them: numbers that may be missing, and codes."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from skdpsco._validation import read_X
from skdpsco.data.columns import CATEGORY, NUMBER
from skdpsco.data.frames import BOOLEANS, NUMBERS, kind_of, numbers_of, open_frame, read_quietly
from skdpsco.data.schema import Schema

__all__ = ["ColumnRecords", "TableColumn", "read_columns"]

CLOSEST = 2.0**-30  # of two bounds, relative to the larger one: densities have thousands of parts


class TableColumn(NamedTuple):
    """What is public about one column.

    Parameters
    ----------
    name : str
    bounds : tuple of two floats, or None
        Declared bounds of numbers; None if they are to be found, or for categories.
    values : tuple
        Declared categories, or False and True; empty for numbers.
    """

    name: str
    bounds: tuple[float, float] | None = None
    values: tuple[Any, ...] = ()


class ColumnRecords(NamedTuple):
    """Records of a table.

    Parameters
    ----------
    columns : tuple of TableColumn
    numbers : ndarray of shape (n_samples, number of columns of numbers), float64
        NaN where a number is missing. Numbers beyond declared bounds are clipped to them.
    codes : ndarray of shape (n_samples, number of other columns), int64
        Places among the declared values; -1 for what is missing or not declared.
    """

    columns: tuple[TableColumn, ...]
    numbers: np.ndarray
    codes: np.ndarray


def read_columns(model: Any, X: Any, schema: Schema | None, reset: bool) -> ColumnRecords:
    """Read the columns of an array or a frame; ``reset`` says that it is that of the fit.

    Raises
    ------
    TypeError
        If X is not an array or a frame, a column that the schema does not declare holds no numbers,
        or the dtype of a column cannot hold what is declared.
    ValueError
        If X lacks a column or has others than in the fit, or holds an infinite number, or bounds of
        a column are so close that they cannot be divided.
    """
    if schema is None:
        options = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"}
        X = read_X(X, validate_data, model, X, reset=reset, **options)
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        columns = tuple(TableColumn(str(name)) for name in names)
        return ColumnRecords(columns, X, np.empty((len(X), 0), np.int64))
    frame = open_frame("X", X)
    if reset:
        others = (schema.target, schema.groups, schema.person)
        names = [name for name in frame.columns if name not in others]
        model.n_features_in_ = len(names)
        model.feature_names_in_ = np.array(names, dtype=object)
    known = dict.fromkeys([*schema.features, *model.feature_names_in_])
    absent = [name for name in known if name not in frame.columns]
    if absent:
        raise ValueError(f"X lacks the columns {absent}.")
    if not (len(frame) and len(model.feature_names_in_)):
        raise ValueError("X must hold at least one record, and one column that is a feature.")
    return _columns_of_frame(frame, schema, list(model.feature_names_in_))


def _columns_of_frame(frame: Any, schema: Schema, names: list[str]) -> ColumnRecords:
    columns, numbers, codes = [], [], []
    for name in names:
        column, known = frame[name], schema.columns.get(name)
        if known is None:
            if kind_of(column) not in (NUMBERS, BOOLEANS):
                raise TypeError(f"X: column {name!r} holds no numbers: declare its categories.")
            values, bounds = read_quietly(numbers_of, column), None
        elif unfit := known.unfit(column):
            raise TypeError(f"X does not fit the schema: {unfit}.")
        else:
            values = read_quietly(known.read, column)[0]
            bounds = known.bounds if known.kind == NUMBER else None
        if known is not None and known.kind != NUMBER:
            columns.append(TableColumn(name, None, tuple(known.values())))
            codes.append(values if known.kind == CATEGORY else np.nan_to_num(values, nan=-1.0))
            continue
        if np.isinf(values).any():
            raise ValueError(f"X: column {name!r} must not hold infinite numbers.")
        if bounds and bounds[1] - bounds[0] < CLOSEST * max(map(abs, bounds)):
            raise ValueError(f"schema: bounds of column {name!r} are too close, got {bounds}.")
        columns.append(TableColumn(name, bounds))
        numbers.append(values if bounds is None else np.clip(values, *bounds))
    n = len(frame)
    return ColumnRecords(
        tuple(columns),
        np.column_stack(numbers) if numbers else np.empty((n, 0)),
        np.column_stack(codes).astype(np.int64) if codes else np.empty((n, 0), np.int64),
    )
