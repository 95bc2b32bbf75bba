"""Differentially private convex optimisation with scikit-learn's interface."""

from skdpsco._blocks import RowBlocks
from skdpsco._random import PrivacyWarning, UtilityWarning
from skdpsco.linear_model import (
    PrivateElasticNet,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skdpsco.minimax import PrivateGroupDRO, PrivateSynthesizer
from skdpsco.model_selection import PrivateGridSearchCV
from skdpsco.privacy import Budget, BudgetExceededError, Ledger

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetExceededError",
    "Ledger",
    "PrivacyWarning",
    "PrivateElasticNet",
    "PrivateGridSearchCV",
    "PrivateGroupDRO",
    "PrivateLasso",
    "PrivateLinearClassifier",
    "PrivateLinearRegressor",
    "PrivateLogisticL1",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "PrivateSynthesizer",
    "RowBlocks",
    "UtilityWarning",
]
