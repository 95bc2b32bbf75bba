"""Tables column by column: reading and writing arrays, and frames of pandas and polars."""

from collections.abc import Collection
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from skdpsco._validation import dtype_name, is_missing, read_X
from skdpsco.data.frames import dates_as_days, dates_of

__all__ = [
    "PANDAS",
    "POLARS",
    "ColumnTable",
    "as_list",
    "assemble",
    "columns_in",
    "is_dates",
    "never_missing",
    "public_dtype",
    "read_table",
    "taken",
    "typed",
]

PANDAS, POLARS = "pandas", "polars"
DAYS = np.dtype("datetime64[D]")  # of columns that are read as days and written as dates
PYTHON: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": int,
    "float": float,
}  # keys are how the names of dtypes begin


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns, and the public facts about them.

    Parameters
    ----------
    library : {"pandas", "polars"} or None
        The library of the frame; None for an array.
    names : list or None
        Labels of the columns of a frame.
    dtypes : list
        One dtype per column; None for the natural dtype of its values.
    columns : list of array-like
    """

    library: str | None
    names: list[Any] | None
    dtypes: list[Any]
    columns: list[Any] = field(default_factory=list)

    def label(self, j: int) -> str:
        """Name of a column in messages."""
        return repr(j if self.names is None else self.names[j])

    def position(self, name: str) -> int:
        """Position of a column.

        Raises
        ------
        ValueError
            If no column, or several columns, have the name.
        """
        names = self.names or []
        if names.count(name) != 1:
            raise ValueError(f"X must have one column of the name {name!r}.")
        return names.index(name)

    def of(self, library: str) -> "ColumnTable":
        """The same table in another library; the dtypes of arrays are used for pandas, too."""
        if library == self.library:
            return self
        names = [f"x{j}" for j in range(len(self.dtypes))] if self.names is None else self.names
        kept = library == PANDAS and self.library is None
        dtypes = [dtype if kept or is_dates(dtype) else None for dtype in self.dtypes]
        return ColumnTable(library, list(map(str, names)), dtypes)

    @property
    def dates(self) -> list[Any]:
        """Labels of the columns of dates."""
        pairs = zip(self.names or (), self.dtypes, strict=False)
        return [name for name, dtype in pairs if is_dates(dtype)]


def is_dates(dtype: Any) -> bool:
    """Whether the dtype of a `ColumnTable` is that of dates."""
    return isinstance(dtype, np.dtype) and dtype == DAYS


def never_missing(dtype: Any) -> bool:
    """Whether a dtype, of NumPy or sparse, has no value that means "missing"."""
    dtype = getattr(dtype, "subtype", dtype)
    return isinstance(dtype, np.dtype) and dtype.kind in "biu"


def read_table(estimator: Any, X: Any, dates: Collection[str] = ()) -> ColumnTable:
    """Read the columns of X, and set the number and the names of features on the estimator.

    Columns with the names ``dates`` become days.

    Raises
    ------
    TypeError, ValueError
        If X is not a table, or does not have the columns of the fit, or ``dates`` hold others.
    """
    X = dates_as_days(X, dates)
    is_frame = hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "iter_rows"))
    if not is_frame:
        dtype = X.dtype if isinstance(getattr(X, "dtype", None), np.dtype) else None
        if dtype is not None and not dtype.isnative:
            dtype = dtype.newbyteorder("=")
            X = X.astype(dtype)
        kept = object if dtype is None else None  # otherwise lists would become strings
        values = read_X(X, validate_data, estimator, X, dtype=kept, ensure_all_finite=False)
        columns = columns_in(values)
        return ColumnTable(None, None, [dtype] * len(columns), columns)
    read_X(X, validate_data, estimator, X, skip_check_array=True)
    if 0 in X.shape:
        raise ValueError(f"X must have at least one row and one column, got shape {X.shape}.")
    library = PANDAS if hasattr(X, "iloc") else POLARS
    columns = columns_in(X)
    names = list(X.columns)
    dtypes = [DAYS if n in dates else c.dtype for n, c in zip(names, columns, strict=True)]
    return ColumnTable(library, names, dtypes, columns)


def columns_in(X: Any) -> list[Any]:
    """The columns of an array or a frame."""
    cells = getattr(X, "iloc", X)
    return [cells[:, j] for j in range(X.shape[1])]


def public_dtype(dtype: Any, library: str | None, declared: list[Any]) -> Any:
    """A dtype in which declared values replace what it reveals about actual values."""
    known = [value for value in declared if not is_missing(value)]
    if isinstance(dtype, np.dtype):
        return np.dtype("U") if dtype.kind == "U" else dtype
    if library == PANDAS and hasattr(dtype, "categories"):
        import pandas as pd

        categories = pd.Index(known)
        inner = dtype.categories.dtype
        if inner.kind in "biuf" and categories.dtype.kind in "biuf":
            same = categories.astype(inner)
            categories = same if same.tolist() == known else categories
        elif inner.kind == "O" and isinstance(inner, np.dtype):
            categories = categories.astype(object)
        return pd.CategoricalDtype(categories, dtype.ordered)
    if library == PANDAS and str(dtype).startswith("Sparse"):
        return type(dtype)(dtype.subtype)  # with the natural fill value
    if library == POLARS and str(dtype).startswith("Enum"):
        return type(dtype)(known)
    return dtype


def typed(values: Any, library: str | None, dtype: Any) -> Any:
    """Values as an array, or a library's array, of a dtype; None for the natural dtype."""
    if is_dates(dtype):  # of a frame, since columns of arrays have no names by which to declare
        return import_module(str(library)).Series(dates_of(values))
    objects = np.asarray(values).tolist()
    for beginning, convert in PYTHON.items():
        if dtype_name(dtype).startswith(beginning):  # libraries may refuse 1 for True
            objects = [_converted(value, convert) for value in objects]
    if library == POLARS:
        import polars as pl

        return pl.Series("", [None if is_missing(v) else v for v in objects], dtype=dtype)
    strings = isinstance(dtype, np.dtype) and dtype.kind == "U"  # as wide as needed
    dtype = None if strings else dtype
    if library == PANDAS:
        import pandas as pd

        return pd.Series(objects, dtype=dtype)
    if dtype is None:
        found = np.array(objects)
        if found.dtype.kind in "biuf" or all(isinstance(value, str) for value in objects):
            return found
        dtype = object
    return np.fromiter(objects, dtype=dtype, count=len(objects))


def _converted(value: Any, convert: Any) -> Any:
    if isinstance(value, (bool, int, float)) and not is_missing(value):
        with np.errstate(all="ignore"):
            try:
                other = convert(value)
            except OverflowError:  # an infinity, or a huge integer
                return value
        return other if other == value else value
    return value


def taken(column: Any, positions: np.ndarray) -> Any:
    """The entries of a column at some positions."""
    if hasattr(column, "iloc"):
        return column.iloc[positions].reset_index(drop=True)
    return column[positions]


def as_list(column: Any) -> list[Any]:
    """Python objects of an array or column."""
    return column.tolist() if hasattr(column, "tolist") else column.to_list()


def assemble(columns: list[Any], table: ColumnTable) -> Any:
    """An array or a frame of columns made by `typed`."""
    if table.library == POLARS:
        import polars as pl

        return pl.DataFrame([c.alias(n) for c, n in zip(columns, table.names or [], strict=True)])
    if table.library == PANDAS:
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = table.names
        return frame
    kinds = {column.dtype.kind for column in columns}
    if kinds <= set("biuf") or kinds == {"U"}:
        return np.stack(columns, axis=1)
    out = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out
