"""What the private transformers share."""

from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from skdpsco._base import PrivateEstimator
from skdpsco._validation import check_columns, check_features, check_width

from .bounds import PublicBoundsScaler

CLIPPED = "columns are clipped to their public bounds, lower and upper"


@contextmanager
def planning(estimator: PrivateEstimator, n_samples: int, n_features: int):
    """Say what to change where the noise that is needed has no grid.

    Raises
    ------
    ValueError
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"There is no plan for epsilon={estimator.epsilon!r}, delta={estimator.delta!r}, "
            f"{n_samples} records and {n_features} features. {error}"
        ) from error


def public_scaler(lower: Any, upper: Any, feature_range=(-1.0, 1.0)) -> PublicBoundsScaler:
    """A scaler whose output is an array, whatever scikit-learn is configured to give."""
    scaler = PublicBoundsScaler(lower, upper, feature_range)
    return scaler.set_output(transform="default")


class ColumnTransform(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Base of private maps of single columns, each within public bounds; see the subclasses."""

    lower: Any
    upper: Any

    def _check(self, X, reset: bool, named: bool = True) -> np.ndarray:
        X = check_features(self, X, reset) if named else check_width(self, X)
        if sparse.issparse(X):
            raise ValueError(
                f"X is sparse, but {type(self).__name__} moves zeros: make it dense, with "
                "X.toarray(), or use PublicBoundsScaler with symmetric bounds."
            )
        return X

    def _bounds(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            check_columns("lower", self.lower, n_features),
            check_columns("upper", self.upper, n_features),
        )
