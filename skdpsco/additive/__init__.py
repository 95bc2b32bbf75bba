"""Private additive models."""

from .models import PrivateAdditiveClassifier, PrivateAdditiveRegressor

__all__ = ["PrivateAdditiveClassifier", "PrivateAdditiveRegressor"]
