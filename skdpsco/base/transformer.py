"""What the private transformers share."""

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import check_features, check_width
from skdpsco.base.private_estimator import PrivateEstimator

CLIPPED = "columns are clipped to their public bounds, lower and upper"


class ColumnTransform(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Base of private maps of single columns, each within public bounds; see the subclasses."""

    def fit(self, X: MatrixLike, y: TargetLike = None) -> Self:
        """Release the parameters of the map of every column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, which are clipped to the bounds.
        y : None
            Ignored.

        Returns
        -------
        self : object
            A fit that fails leaves the estimator as it was, with the results of an earlier fit.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or the input is sparse, or not finite and numeric; no
            noise has been drawn then.
        BudgetExceededError
            If the ledger's remaining budget is too small.
        """
        self._validate_params()
        draft = self._draft()
        draft._learn(draft._check(X, reset=True))
        return self._accept(draft)

    def _learn(self, X: np.ndarray) -> None:
        """Fit this draft on checked columns; warnings name the line that called `fit`."""
        raise NotImplementedError

    def _check(self, X, reset: bool, named: bool = True) -> np.ndarray:
        X = check_features(self, X, reset) if named else check_width(self, X)
        if sparse.issparse(X):
            raise ValueError(
                f"X is sparse, but {type(self).__name__} moves zeros: make it dense, with "
                "X.toarray(), or use PublicBoundsScaler with symmetric bounds."
            )
        return X
