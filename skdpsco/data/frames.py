"""Frames of pandas, polars, Arrow and others, which narwhals reads, one column at a time."""

from collections.abc import Callable, Collection
from datetime import date, datetime, timezone
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
    "DATES",
    "HOLD_DATES",
    "NUMBERS",
    "OBJECTS",
    "TEXT",
    "dates_as_days",
    "dates_of",
    "day_of",
    "days_of",
    "kind_of",
    "missing_in",
    "numbers_of",
    "objects_of",
    "open_frame",
    "read_quietly",
]

# What a column may hold according to its dtype, which is public.
NUMBERS, BOOLEANS, TEXT, CATEGORICAL = "numbers", "booleans", "text", "categories"
DATES, OBJECTS, OTHER = "dates", "objects", "other values"
HOLD_DATES = (DATES, TEXT, OBJECTS)
EPOCH = date(1970, 1, 1).toordinal()  # in days, of NumPy's dates


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
    own = getattr(column.to_native(), "dtype", None)
    if own == np.dtype(object):
        return OBJECTS
    dtype = column.dtype
    if dtype == narwhals.Boolean:
        return BOOLEANS
    if dtype == narwhals.String:
        return TEXT
    if dtype in (narwhals.Categorical, narwhals.Enum):
        return CATEGORICAL
    if str(own).startswith("period"):
        return DATES
    if dtype in (narwhals.Object, narwhals.Unknown):
        return OTHER if str(own).startswith(("interval", "complex")) else OBJECTS
    if dtype in (narwhals.Date, narwhals.Datetime):
        return DATES
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


def day_of(value: Any) -> float:
    """The number of a date's day, which is 1 for 0001-01-01; NaN for what is no date.

    No date of our time is 0, which models of numbers treat as special. Times of day are dropped,
    after those with a time zone have been turned into UTC. Strings have the form 2024-01-31. A
    period of pandas is its first day.
    """
    try:
        if type(value).__name__ == "Period":
            value = value.start_time
        if isinstance(value, np.datetime64):
            days = value.astype("datetime64[D]").astype(np.int64)
            return np.nan if np.isnat(value) else float(days + EPOCH)
        if isinstance(value, str):  # some versions of Python read other forms, too
            value = date.fromisoformat(value) if value[4:8:3] == "--" else None
        elif isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(timezone.utc)
        return float(value.toordinal()) if isinstance(value, date) else np.nan
    except Exception:  # objects may raise anything
        return np.nan


def days_of(column: Any) -> np.ndarray:
    """The days of a column of dates, as `day_of` has them; NaN for what is missing or no date."""
    with np.errstate(all="ignore"):
        values = column.to_numpy()  # in UTC, if the dtype has a time zone
        if values.dtype.kind == "M":
            days = values.astype("datetime64[D]")
            return np.where(np.isnat(days), np.nan, days.astype(np.int64) + float(EPOCH))
        return np.array([day_of(value) for value in values.tolist()], dtype=np.float64)


def dates_of(days: Any) -> np.ndarray:
    """The dates of days, as datetime64[D]; NaT for NaN or None."""
    days = np.asarray(days, dtype=np.float64)
    dates = (np.nan_to_num(days).astype(np.int64) - EPOCH).astype("datetime64[D]")
    return np.where(np.isnan(days), np.datetime64("NaT"), dates)


def dates_as_days(X: Any, names: Collection[str]) -> Any:
    """A frame whose columns of these names hold days, or NaN, in place of dates.

    Raises
    ------
    TypeError
        If the dtype of such a column cannot hold dates.
    ValueError
        If a value is no date.
    """
    if not names or not hasattr(X, "columns"):
        return X
    import narwhals

    frame = open_frame("X", X)
    for name in [name for name in frame.columns if name in names]:
        column = frame[name]
        legal = f"X must hold dates, or strings such as '2024-01-31', in column {name!r}"
        if kind_of(column) not in HOLD_DATES:
            raise TypeError(f"{legal}, got dtype {str(column.dtype).partition('(')[0]}.")
        days, lost = read_quietly(days_of, column), read_quietly(missing_in, column)
        if (np.isnan(days) & ~lost).any():
            raise ValueError(f"{legal}, but it holds other values, too.")
        new = narwhals.new_series(name, days, narwhals.Float64, backend=frame.implementation)
        frame = frame.with_columns(new)
    return frame.to_native()


def objects_of(column: Any) -> np.ndarray:
    """The values of a column as Python objects."""
    values = column.to_list()
    return np.fromiter(values, dtype=object, count=len(values))


def missing_in(column: Any) -> np.ndarray:
    """Where a column holds None, NaN, NaT or pandas.NA."""
    kind = kind_of(column)
    if kind in (NUMBERS, BOOLEANS, DATES):
        return np.isnan(days_of(column) if kind == DATES else numbers_of(column))
    return np.fromiter(map(_is_lost, column.to_list()), dtype=bool, count=len(column))


def _is_lost(value: Any) -> bool:
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return type(value).__name__ == "NaTType" or is_missing(value)


def read_quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Apply a function to columns; errors of libraries do not show their values."""
    return quietly("X must be a data frame whose columns can be read.", function, *args)
