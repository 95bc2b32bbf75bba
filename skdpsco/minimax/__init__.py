"""Models for the worst of several losses, classes or targets."""

from .minimax_classifier import PrivateMinimaxClassifier
from .minimax_regressor import PrivateMinimaxRegressor

__all__ = ["PrivateMinimaxClassifier", "PrivateMinimaxRegressor"]
