"""What the private transformers share."""

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from skdpsco._validation import check_features, check_width
from skdpsco.base.private_estimator import PrivateEstimator

CLIPPED = "columns are clipped to their public bounds, lower and upper"


class ColumnTransform(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Base of private maps of single columns, each within public bounds; see the subclasses."""

    def _check(self, X, reset: bool, named: bool = True) -> np.ndarray:
        X = check_features(self, X, reset) if named else check_width(self, X)
        if sparse.issparse(X):
            raise ValueError(
                f"X is sparse, but {type(self).__name__} moves zeros: make it dense, with "
                "X.toarray(), or use PublicBoundsScaler with symmetric bounds."
            )
        return X
