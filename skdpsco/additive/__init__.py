"""Private additive models."""

from .models import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from .pairs import PairFunction
from .shapes import ShapeFunction

__all__ = ["PairFunction", "PrivateAdditiveClassifier", "PrivateAdditiveRegressor", "ShapeFunction"]
