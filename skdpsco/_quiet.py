"""Calls of other libraries on data, with errors that do not show the data."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context

__all__ = ["quietly", "score_by"]

T = TypeVar("T")

# How messages begin that name shapes, types, dtypes and columns, but no value.
_PUBLIC = (
    "Classification metrics can't handle",
    "Expected a 2-dimensional container but got",
    "Feature names are only supported",
    "Input X contains",
    "Input y contains",
    "Only sparse matrices with 32-bit",
    "Sparse data was passed",
    "Support for labels represented as bytes",
    "The feature names should match",
    "This ",  # estimator is not fitted, requires y
    "Unable to allocate",
    "X has ",
    "fill value must be 0",
    "scipy.sparse does not support dtype",
    "y should be a 1d array, got an array of shape",
)

# Messages that show no value either but do not name the argument, and what is said instead.
_UNNAMED = {
    "Expected unique column names": "The columns of a data frame must have different names.",
    "Found array with": "X has the wrong shape.",
    "Found input variables with inconsistent numbers of samples": (
        "X and y must hold the same number of records."
    ),
    "Input contains": "y must hold labels, none of them missing.",
    "Unknown label type": "y must hold labels.",
}


def quietly(
    instead: str | Callable[[Exception], str],
    function: Callable[..., T],
    *args: Any,
    **options: Any,
) -> T:
    """The result of the function; if it fails, an error that shows no value of its arguments.

    Parameters
    ----------
    instead : str or callable
        Message in place of one that may show a value; or a function that makes it from the error.
    function : callable
        A function of a library, or one that calls libraries only.
    *args, **options

    Raises
    ------
    ValueError, TypeError
        Raised when no other error is being handled, so that none is attached to it: services that
        collect errors show `__context__` too.
    """
    try:
        # Values are always checked to be finite, however scikit-learn was configured: privacy
        # depends on it. A sum within scikit-learn may overflow, and a warning about that would tell
        # of a record.
        with np.errstate(all="ignore"), config_context(assume_finite=False):
            return function(*args, **options)
    except Exception as error:
        failure = _public(error, instead)
    try:
        raise failure
    finally:
        del failure  # it refers to this frame


def score_by(metric: Callable[..., Any], y: Any, predicted: np.ndarray, weights: Any) -> Any:
    """Compute a metric of scikit-learn without its errors, which could show targets."""
    instead = "y must hold one target per record, of the kind that the model predicts."
    return quietly(instead, metric, y, predicted, sample_weight=weights)


def _public(error: Exception, instead: str | Callable[[Exception], str]) -> Exception:
    if str(error).startswith("Input X contains") and callable(instead):
        return ValueError(instead(error))
    for beginning, about in _UNNAMED.items():
        if str(error).startswith(beginning):
            return ValueError(f"{about} {error}")
    if str(error).startswith(_PUBLIC) or isinstance(error, (MemoryError, ImportError)):
        error.__cause__ = error.__context__ = None
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(instead if isinstance(instead, str) else instead(error))
