"""Fits that begin at a linear model of other records: docs/proofs/public_start.md."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skdpsco._validation import LARGEST

__all__ = ["PublicStart", "checked_start", "clip_columns"]

LEGAL_INIT = "init must be a fitted linear model with coef_ and intercept_"


class PublicStart(NamedTuple):
    """The model that a fit begins at.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    names : ndarray of shape (n_features,) or None
        Names of the columns, if they were known.
    classes : ndarray or None
        Classes of a classifier.
    """

    coef: np.ndarray
    intercept: np.ndarray
    names: Any
    classes: Any

    def check(self, shape: tuple[int, int], names: Any, classes: Any, bounds: Any) -> None:
        """Compare it with a fit of coefficients of this shape, of these columns and classes.

        Raises
        ------
        ValueError
            If there are no declared bounds, or the model has other outputs, columns or classes.
        """
        n_outputs, n_features = shape
        if bounds is None:
            raise ValueError("feature_bound must be declared where a fit begins at init.")
        if self.coef.shape[1] != n_features:
            raise ValueError(
                f"init must have one coefficient for each of {n_features} columns of X, got "
                f"{self.coef.shape[1]}."
            )
        if len(self.coef) != n_outputs:
            raise ValueError(
                "init must be a model of one target, or of two classes."
                if n_outputs == 1
                else f"init must have a row of coef_ for each of {n_outputs} classes or targets."
            )
        if names is not None and self.names is not None and list(names) != list(self.names):
            raise ValueError("init must be a model of the columns of X, in the same order.")
        both = classes is not None and self.classes is not None
        if both and not np.array_equal(classes, self.classes):
            raise ValueError("init must be a model of the same classes.")

    def predict(self, X: Any, bounds: np.ndarray) -> np.ndarray:
        """Predictions of features that are clipped to their bounds: one column for each output.

        Those of a single output have one dimension.
        """
        clipped, one = clip_columns(X, -bounds, bounds), len(self.coef) == 1
        coef, intercept = (
            (self.coef[0], self.intercept[0]) if one else (self.coef.T, self.intercept)
        )
        with np.errstate(all="ignore"):  # tiny products underflow
            return safe_sparse_dot(clipped, coef, dense_output=True) + intercept

    def added(self, coef: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """Coefficients of the sum of this model and another, in the shapes of the other."""
        own = self.intercept if np.ndim(intercept) else float(self.intercept[0])
        return coef + self.coef.reshape(coef.shape), intercept + own


def checked_start(init: Any) -> PublicStart:
    """What a fit knows of the ``init`` that it got.

    Raises
    ------
    TypeError
        If it has no coefficients or no intercept, or they are not real numbers.
    ValueError
        If their shapes do not belong together, or they are not finite or too large.
    """
    if not (hasattr(init, "coef_") and hasattr(init, "intercept_")):
        raise TypeError(
            f"{LEGAL_INIT}, got {type(init).__name__}. In a pipeline, pass that of its last step."
        )
    coef, intercept = np.asarray(init.coef_), np.asarray(init.intercept_)
    if not {coef.dtype.kind, intercept.dtype.kind} <= set("biuf"):
        raise TypeError(f"{LEGAL_INIT}, of real numbers.")
    if coef.ndim not in (1, 2) or intercept.size not in (1, len(np.atleast_2d(coef))):
        raise ValueError(
            f"{LEGAL_INIT}: a vector or one row for each class, and a number for each."
        )
    if not (np.abs(np.append(coef, intercept)) <= LARGEST).all():
        raise ValueError(f"Numbers of init must be finite, in [-{LARGEST:g}, {LARGEST:g}].")
    coef = np.atleast_2d(coef).astype(np.float64)
    intercept = np.broadcast_to(intercept.ravel().astype(np.float64), len(coef))
    names, classes = (getattr(init, name, None) for name in ("feature_names_in_", "classes_"))
    return PublicStart(coef, intercept, names, classes)


def clip_columns(X: Any, low: np.ndarray, high: np.ndarray) -> Any:
    """Each column of X clipped to its interval; sparse if X is and all intervals contain zero."""
    if not sparse.issparse(X):
        return np.clip(X, low, high)
    if (low > 0.0).any() or (high < 0.0).any():  # zeros are clipped, too
        return np.clip(X.toarray(), low, high)
    X = sparse.csr_matrix(X, copy=True)
    # The product refuses an index beyond the columns; an error here would show it.
    bounds = (side.take(X.indices, mode="clip") for side in (low, high))
    X.data = np.clip(X.data, *bounds)
    return X
