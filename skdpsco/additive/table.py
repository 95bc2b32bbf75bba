"""Columns of a table as an additive model reads them: numbers that may be missing, and codes."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from skdpsco._validation import read_X
from skdpsco.data.columns import CATEGORY, NUMBER
from skdpsco.data.frames import BOOLEANS, NUMBERS, kind_of, numbers_of, open_frame, read_quietly
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.data.schema import Schema

__all__ = ["CLOSEST", "ColumnRecords", "TableColumn", "codes_of", "read_blocks", "read_columns"]

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
    dates : bool
        Whether the numbers are days, read from dates.
    missing : bool
        Whether it is declared that values may be missing.
    """

    name: str
    bounds: tuple[float, float] | None = None
    values: tuple[Any, ...] = ()
    dates: bool = False
    missing: bool = False


class ColumnRecords(NamedTuple):
    """Records of a table.

    Parameters
    ----------
    columns : tuple of TableColumn
    values : ndarray of shape (n_samples, n_columns), float64, or RowBlocks of such arrays
        Numbers, clipped to declared bounds, and places among the declared values of other columns.
        NaN stands for what is missing or not declared.
    """

    columns: tuple[TableColumn, ...]
    values: Any


def codes_of(column: np.ndarray) -> np.ndarray:
    """Places among declared values as integers; -1 for what is missing."""
    return np.nan_to_num(column, nan=-1.0).astype(np.int64)


class TableReader:
    """Reads frames of the columns that a fit has seen as arrays; see `ColumnRecords`."""

    def __init__(self, schema: Schema, names: list[str]) -> None:
        self.schema: Schema = schema
        self.names: list[str] = names

    def transform(self, X: Any) -> np.ndarray:
        """The values of a frame."""
        values: np.ndarray = _records_of(open_frame("X", X), self.schema, self.names).values
        return values


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
        return ColumnRecords(_undeclared(getattr(model, "feature_names_in_", None), X.shape[1]), X)
    frame = open_frame("X", X)
    if reset:
        others = (schema.target, schema.groups, schema.person)
        names = [name for name in frame.columns if name not in others]
        model.n_features_in_ = len(names)
        model.feature_names_in_ = np.array(names, dtype=object)
    if not (len(frame) and len(model.feature_names_in_)):
        raise ValueError("X must hold at least one record, and one column that is a feature.")
    return _records_of(frame, schema, list(model.feature_names_in_))


def read_blocks(model: Any, blocks: RowBlocks, schema: Schema | None) -> ColumnRecords:
    """Read the columns of blocks, one record of which is looked at.

    Raises
    ------
    TypeError, ValueError
        As for `read_columns`, also if blocks are sparse.
    """
    if blocks.sparse:
        raise TypeError("X must hold dense blocks: additive models do not read sparse matrices.")
    if schema is None:
        model.n_features_in_ = blocks.n_features
        if blocks.feature_names is not None:
            model.feature_names_in_ = np.array(blocks.feature_names, dtype=object)
        columns = _undeclared(blocks.feature_names, blocks.n_features)
        return ColumnRecords(columns, blocks.checked_numeric())
    blocks = blocks.as_frames()
    columns = read_columns(model, blocks.first, schema, reset=True).columns
    return ColumnRecords(columns, blocks.map(TableReader(schema, list(model.feature_names_in_))))


def _undeclared(names: Any, n_columns: int) -> tuple[TableColumn, ...]:
    """Columns of numbers without declared bounds."""
    names = [f"x{j}" for j in range(n_columns)] if names is None else map(str, names)
    return tuple(map(TableColumn, names))


def _records_of(frame: Any, schema: Schema, names: list[str]) -> ColumnRecords:
    absent = [n for n in dict.fromkeys([*schema.features, *names]) if n not in frame.columns]
    if absent:
        raise ValueError(f"X lacks the columns {absent}.")
    columns, values = [], np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        column, known = frame[name], schema.columns.get(name)
        if known is None:
            if kind_of(column) not in (NUMBERS, BOOLEANS):
                raise TypeError(f"X: column {name!r} holds no numbers: declare it in the schema.")
            x, bounds = read_quietly(numbers_of, column), None
        elif unfit := known.unfit(column):
            raise TypeError(f"X does not fit the schema: {unfit}.")
        else:
            x = read_quietly(known.read, column)[0]
            bounds = known.bounds if known.kind == NUMBER else None
        if known is not None and known.kind != NUMBER:
            columns.append(TableColumn(name, None, tuple(known.values()), missing=known.missing))
            values[:, j] = np.where(x < 0, np.nan, x) if known.kind == CATEGORY else x
            continue
        if np.isinf(x).any():
            raise ValueError(f"X: column {name!r} must not hold infinite numbers.")
        if bounds and bounds[1] - bounds[0] < CLOSEST * max(map(abs, bounds)):
            raise ValueError(f"schema: bounds of column {name!r} are too close, got {bounds}.")
        columns.append(TableColumn(name, bounds, dates=known is not None and known.dates))
        values[:, j] = x if bounds is None else np.clip(x, *bounds)
    return ColumnRecords(tuple(columns), values)
