"""What libraries do with data, and errors of theirs that do not show it."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context

T = TypeVar("T")

# How messages begin that name shapes, types, dtypes and columns, and no value.
_PUBLIC = (
    "Classification metrics can't handle",
    "Expected a 2-dimensional container but got",
    "Feature names are only supported",
    "Input contains",
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

# Others of which the same is true, and what they do not say.
_UNNAMED = {
    "Found array with": "X has the wrong shape.",
    "Found input variables with inconsistent numbers of samples": (
        "X and y must hold the same number of records."
    ),
    "Unknown label type": "y must hold labels.",
}

# What scikit-learn recommends, such as the means of the columns, would not be private.
MISSING = (
    "Input X contains NaN, and missing values are not supported. Put a public constant in their "
    "place, for instance with SimpleImputer(strategy='constant', fill_value=0.0, "
    "add_indicator=True): means and medians of the data are not private."
)


def quietly(
    instead: str | Callable[[Exception], str],
    function: Callable[..., T],
    *args: Any,
    **options: Any,
) -> T:
    """What the function returns; if it fails, an error that shows no value of its arguments.

    Parameters
    ----------
    instead : str or callable
        Message in place of one that is not known to show none; or makes it from the error.
    function : callable
        A function of a library, or one that calls libraries only.
    *args, **options

    Raises
    ------
    ValueError, TypeError
        Raised where no other error is being handled, so that none is attached to it: services that
        collect errors show `__context__` too.
    """
    try:
        # Finiteness is a matter of privacy, whatever scikit-learn was configured to assume; and a
        # sum that it takes may overflow, of which only the values of a record could be the cause.
        with np.errstate(all="ignore"), config_context(assume_finite=False):
            return function(*args, **options)
    except Exception as error:
        failure = _public(error, instead)
    try:
        raise failure
    finally:
        del failure  # it refers to this frame


def score_by(metric: Callable[..., Any], y: Any, predicted: np.ndarray, weights: Any) -> Any:
    """A metric of scikit-learn, whose errors could show targets."""
    instead = "y must hold one target per record, of the kind that the model predicts."
    return quietly(instead, metric, y, predicted, sample_weight=weights)


def _public(error: Exception, instead: str | Callable[[Exception], str]) -> Exception:
    if str(error).startswith("Input X contains NaN"):
        return ValueError(MISSING)
    for beginning, about in _UNNAMED.items():
        if str(error).startswith(beginning):
            return ValueError(f"{about} {error}")
    if str(error).startswith(_PUBLIC) or isinstance(error, (MemoryError, ImportError)):
        error.__cause__ = error.__context__ = None
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(instead if isinstance(instead, str) else instead(error))
