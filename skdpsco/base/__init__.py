"""What all private estimators share."""

from skdpsco._validation import check_X, check_X_y

from .labels import encode_classes
from .private_estimator import PrivateEstimator
from .transformer import ColumnTransform

__all__ = ["ColumnTransform", "PrivateEstimator", "check_X", "check_X_y", "encode_classes"]
