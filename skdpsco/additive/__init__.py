"""Private additive models."""

from .models import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from .shapes import ShapeFunction

__all__ = ["PrivateAdditiveClassifier", "PrivateAdditiveRegressor", "ShapeFunction"]
