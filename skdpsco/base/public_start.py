"""Fits that begin at a linear model of other records: docs/proofs/public_start.md."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from skdpsco._validation import LARGEST

LEGAL_INIT = "init must be a fitted linear model with a vector coef_ and one number as intercept_"


class PublicStart(NamedTuple):
    """The model that a fit begins at.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
    intercept : float
    names : ndarray of shape (n_features,) or None
        Those of the columns, if they were known.
    """

    coef: np.ndarray
    intercept: float
    names: Any

    def predict(self, X: Any, names: Any, bounds: np.ndarray | None) -> np.ndarray:
        """Predictions for records with features of these names, clipped to their bounds.

        Raises
        ------
        ValueError
            If there are no declared bounds, or the model has other columns than X.
        """
        if bounds is None:
            raise ValueError("feature_bound must be declared where a fit begins at init.")
        if len(self.coef) != X.shape[1]:
            raise ValueError(
                f"init must have one coefficient for each of {X.shape[1]} columns of X, got "
                f"{len(self.coef)}."
            )
        if names is not None and self.names is not None and list(names) != list(self.names):
            raise ValueError("init must be a model of the columns of X, in the same order.")
        clipped = clip_columns(X, -bounds, bounds)
        with np.errstate(all="ignore"):  # tiny products underflow
            return safe_sparse_dot(clipped, self.coef, dense_output=True) + self.intercept


def checked_start(init: Any) -> PublicStart:
    """Coefficients and intercept of the ``init`` that a fit got.

    Raises
    ------
    TypeError
        If it has none, or they are not real numbers.
    ValueError
        If they are those of several targets or classes, or are not finite or too large.
    """
    if not (hasattr(init, "coef_") and hasattr(init, "intercept_")):
        raise TypeError(
            f"{LEGAL_INIT}, got {type(init).__name__}. In a pipeline, pass that of its last step."
        )
    coef, intercept = np.asarray(init.coef_), np.asarray(init.intercept_)
    if not {coef.dtype.kind, intercept.dtype.kind} <= set("biuf"):
        raise TypeError(f"{LEGAL_INIT}, of real numbers.")
    if intercept.size != 1 or coef.ndim == 0 or coef.size != coef.shape[-1]:
        raise ValueError(f"{LEGAL_INIT}: of one target, or of two classes.")
    if not (np.abs(np.append(coef, intercept)) <= LARGEST).all():
        raise ValueError(f"Numbers of init must be finite, in [-{LARGEST:g}, {LARGEST:g}].")
    names = getattr(init, "feature_names_in_", None)
    return PublicStart(coef.ravel().astype(np.float64), float(intercept.ravel()[0]), names)


def clip_columns(X: Any, low: np.ndarray, high: np.ndarray) -> Any:
    """Each column of X clipped to its interval; sparse if X and all intervals with a zero are."""
    if not sparse.issparse(X):
        return np.clip(X, low, high)
    if (low > 0.0).any() or (high < 0.0).any():  # zeros are clipped, too
        return np.clip(X.toarray(), low, high)
    X = sparse.csr_matrix(X, copy=True)
    # An index beyond the columns is for the product to refuse: an error here would show it.
    bounds = (side.take(X.indices, mode="clip") for side in (low, high))
    X.data = np.clip(X.data, *bounds)
    return X
