"""Checks of what users pass in. The only file that imports private names of scikit-learn."""

from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

# Products of bounds, sample sizes and Lipschitz constants must stay finite in float64.
SMALLEST, LARGEST = 1e-100, 1e100
# Noise grows with every step: automatic rules ask for far fewer, and a path keeps all its points.
MAX_ITER = 10_000

PRIVATE_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "delta": [Interval(Real, 0, 1, closed="neither")],
    "ledger": [None, HasMethods(["charge"])],
    "random_state": ["random_state"],
}
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    **PRIVATE_CONSTRAINTS,
    "radius": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "feature_bound": [Interval(Real, 0, None, closed="neither"), "array-like"],
    "n_iter": [StrOptions({"auto"}), Interval(Integral, 1, MAX_ITER, closed="both")],
    "solver": [
        StrOptions({"stagewise", "frank-wolfe", "frank-wolfe-laplace", "noisy-frank-wolfe"}),
        HasMethods(["plan", "run"]),
    ],
    "fit_intercept": ["boolean"],
    "verbose": ["verbose"],
}
TARGET_CONSTRAINTS: dict[str, list[Any]] = {
    "target_bound": [None, Interval(Real, 0, None, closed="neither")]
}
CLASSES_CONSTRAINTS: dict[str, list[Any]] = {"classes": [None, "array-like"]}


def check_bound(name: str, value: Any) -> float:
    """A positive number that is neither NaN nor beyond what float64 sums can hold.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a positive number, got {value!r}.")
    if not SMALLEST <= float(value) <= LARGEST:
        raise ValueError(f"{name} must be in [{SMALLEST:g}, {LARGEST:g}], got {value!r}.")
    return float(value)


def check_feature_bound(value: Any, n_features: int) -> np.ndarray:
    """One bound per column, from a number or from one number per column.

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(value, Real):
        return np.full(n_features, check_bound("feature_bound", value))
    try:
        bounds = np.asarray(value)
    except ValueError:  # ragged lists
        bounds = np.asarray(None)
    if bounds.dtype.kind not in "iuf":
        raise TypeError(
            f"feature_bound must be a positive number, or a list of one number per column of X; "
            f"got {value!r}."
        )
    if bounds.shape != (n_features,):
        raise ValueError(
            f"feature_bound must be a positive number or have shape ({n_features},), one per "
            f"column of X; got shape {bounds.shape}."
        )
    bounds = bounds.astype(np.float64)
    wrong = np.flatnonzero(~((bounds >= SMALLEST) & (bounds <= LARGEST)))
    if len(wrong) > 0:
        raise ValueError(
            f"Every feature_bound must be in [{SMALLEST:g}, {LARGEST:g}]; that of column "
            f"{wrong[0]} is {bounds[wrong[0]]:g}."
        )
    return bounds


def check_n_iter(value: Any) -> int | None:
    """Number of steps, None for "auto".

    Raises
    ------
    TypeError
    """
    if isinstance(value, str):
        return None
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"n_iter must be 'auto' or an int in [1, {MAX_ITER}], got {value!r}.")
    return int(value)


def check_fit_params(fit_params: dict[str, Any]) -> None:
    """Refuse sample weights, which change every sensitivity, and unknown names.

    Raises
    ------
    ValueError, TypeError
    """
    if fit_params.pop("sample_weight", None) is not None:
        raise ValueError(
            "sample_weight is not supported: a weighted record has another influence than the one "
            "that the noise was calibrated for. Pass sample_weight=None."
        )
    if fit_params:
        raise TypeError(f"fit() got unexpected arguments {sorted(fit_params)}.")


def check_X_y(estimator: Any, X: Any, y: Any, y_numeric: bool) -> tuple[Any, np.ndarray]:
    """Finite float64 X, a C-ordered array or CSR matrix, and a one-dimensional y.

    Raises
    ------
    ValueError, TypeError
    """
    _refuse_complex("y", getattr(y, "dtype", None))
    with _about_X(X):
        X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, order="C")
    return X, check_target(y) if y_numeric else y


def check_X(estimator: Any, X: Any) -> Any:
    """X for a prediction: finite, with the features of the fit."""
    with _about_X(X):
        return validate_data(
            estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )


def _refuse_complex(name: str, dtype: Any) -> None:
    # scikit-learn refuses it too, but prints the data.
    if getattr(dtype, "kind", None) == "c":
        raise ValueError(f"Complex data not supported: {name} must be real, got {dtype}.")


@contextmanager
def _about_X(X: Any):
    """Refuse dates, which NumPy would take for numbers, and say what to do about text."""
    for dtype in X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]:
        is_temporal = getattr(dtype, "is_temporal", None)  # polars
        if getattr(dtype, "kind", None) in ("m", "M") or (is_temporal and is_temporal()):
            raise ValueError(f"X must be numeric, got {dtype}. Turn dates into numbers first.")
        _refuse_complex("X", dtype)
    try:
        # Finiteness is a matter of privacy, whatever scikit-learn was configured to assume; and a
        # sum that it takes may overflow, of which only the values of a record could be the cause.
        with np.errstate(all="ignore"), config_context(assume_finite=False):
            yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            "X must be numeric, but contains text. Encode text first, with OneHotEncoder for "
            "instance."
        ) from error
    except OverflowError as error:
        raise ValueError("X contains a number that is too large for float64.") from error


def check_target(y: Any) -> np.ndarray:
    """Finite float64 targets.

    Raises
    ------
    ValueError
    """
    y = np.asarray(y)
    if y.dtype.kind not in "biufO":
        raise ValueError(f"y must be numeric, got dtype {y.dtype}.")
    try:
        with np.errstate(all="ignore"):  # of a long double
            y = y.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError("y must be numeric, but contains something else.") from error
    if not np.isfinite(y).all():
        raise ValueError("y must be finite, but contains NaN, None or infinity.")
    return y


def encode_classes(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and the index of every label among them.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    classes : array-like or None
        The public labels; with None those that occur in y, of which there must be two.

    Returns
    -------
    classes : ndarray of shape (n_classes,), sorted
    index : ndarray of shape (n_samples,), int64

    Raises
    ------
    ValueError
    """
    if classes is None:
        check_classification_targets(y)  # else not asked: it warns about how many labels occur
        classes, index = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "This classifier needs at least two classes, but y contains only one class. If "
                "others are possible, declare all of them: classes=[...]."
            )
        return classes, index
    message = (
        "classes must be a list of at least two different labels, all numbers or all strings, got "
        f"{classes!r}."
    )
    try:
        # NumPy would turn numbers among strings, a NaN for instance, into strings.
        mixed = len({isinstance(c, str) for c in np.asarray(classes, dtype=object).flat}) > 1
        given = np.asarray(classes)
        unique = np.unique(given)
    except (TypeError, ValueError) as error:  # labels that cannot be sorted, ragged lists
        raise ValueError(message) from error
    if mixed or given.ndim != 1 or len(unique) != len(given) or len(given) < 2:
        raise ValueError(message)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(f"classes must be finite, got {classes!r}.")
    if (given.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        raise ValueError(
            f"classes must have the type of the labels in y: {given.dtype} against {y.dtype}."
        )
    index = np.searchsorted(unique, y).clip(max=len(unique) - 1)
    if not (unique[index] == y).all():
        # The labels themselves are not printed: which ones occur is private.
        raise ValueError(f"y contains labels that are not among classes={unique.tolist()!r}.")
    return unique, index
