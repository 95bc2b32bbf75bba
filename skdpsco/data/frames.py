"""Frames of pandas, polars, Arrow and others, which narwhals reads, one column at a time."""

from collections.abc import Callable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from skdpsco._quiet import quietly
from skdpsco._validation import is_missing
from skdpsco.privacy._checks import library

__all__ = [
    "BOOLEANS",
    "CATEGORICAL",
    "NUMBERS",
    "OBJECTS",
    "TEXT",
    "kind_of",
    "missing_in",
    "numbers_of",
    "objects_of",
    "open_frame",
    "read_quietly",
]

# What a column may hold according to its dtype, which is public.
NUMBERS, BOOLEANS, TEXT, CATEGORICAL = "numbers", "booleans", "text", "categories"
OBJECTS, OTHER = "objects", "other values"


def open_frame(name: str, frame: Any) -> Any:
    """Open a frame with narwhals, and check that its columns have different names.

    Raises
    ------
    ImportError
        If narwhals is not installed.
    TypeError
        If ``frame`` is not a frame in memory.
    ValueError
        If two columns have the same name.
    """
    narwhals = library(
        "narwhals", "Frames are read with narwhals, which is not installed: pip install narwhals"
    )
    message = (
        f"{name} must be a data frame in memory, of pandas, polars or Arrow, whose columns have "
        f"different names; got {type(frame).__name__}."
    )
    opened = quietly(message, narwhals.from_native, frame, eager_only=True)
    if len(set(opened.columns)) < len(opened.columns):
        raise ValueError(message)
    return opened


def kind_of(column: Any) -> str:
    """What a column of narwhals may hold according to its dtype."""
    import narwhals

    # narwhals looks at the values of a column of objects to find out whether they are strings.
    if getattr(column.to_native(), "dtype", None) == np.dtype(object):
        return OBJECTS
    dtype = column.dtype
    if dtype == narwhals.Boolean:
        return BOOLEANS
    if dtype == narwhals.String:
        return TEXT
    if dtype in (narwhals.Categorical, narwhals.Enum):
        return CATEGORICAL
    if dtype in (narwhals.Object, narwhals.Unknown):
        return OBJECTS
    return NUMBERS if dtype.is_numeric() else OTHER


def numbers_of(column: Any) -> np.ndarray:
    """The float64 numbers of a column; NaN for what is missing or not a number."""
    with np.errstate(all="ignore"):
        values = column.to_numpy()
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        return np.array([_as_number(value) for value in values.tolist()], dtype=np.float64)


def _as_number(value: Any) -> float:
    is_number: bool = isinstance(value, (Real, Decimal))
    try:
        return float(value) if is_number else np.nan
    except OverflowError:  # a long int
        return np.inf if value > 0 else -np.inf
    except Exception:  # a signalling NaN
        return np.nan


def objects_of(column: Any) -> np.ndarray:
    """The values of a column as Python objects."""
    values = column.to_list()
    return np.fromiter(values, dtype=object, count=len(values))


def missing_in(column: Any) -> np.ndarray:
    """Where a column holds None, NaN or pandas.NA."""
    if kind_of(column) in (NUMBERS, BOOLEANS):
        return np.isnan(numbers_of(column))
    return np.fromiter(map(is_missing, column.to_list()), dtype=bool, count=len(column))


def read_quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Apply a function to columns; errors of libraries do not show their values."""
    return quietly("X must be a data frame whose columns can be read.", function, *args)
