"""Differentially private convex optimisation with scikit-learn's interface."""

from skdpsco._config import config_context, get_config, set_config
from skdpsco._random import PrivacyWarning, UtilityWarning
from skdpsco._versions import __version__ as __version__
from skdpsco._versions import show_versions
from skdpsco.additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.data.schema import Schema
from skdpsco.data.units import draw_records
from skdpsco.group_dro import PrivateGroupDRO
from skdpsco.linear_model import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.minimax import PrivateMinimaxClassifier, PrivateMinimaxRegressor
from skdpsco.model_selection import PrivateGridSearchCV
from skdpsco.moments import PrivateMoments
from skdpsco.preprocessing.table import TableEncoder, make_private_pipeline
from skdpsco.privacy import Budget, BudgetExceededError, Ledger
from skdpsco.synthesis import Bins, PrivateSynthesizer
from skdpsco.variational import solve_variational_inequality

__all__ = [
    "Bins",
    "Budget",
    "BudgetExceededError",
    "Ledger",
    "PrivacyWarning",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateElasticNet",
    "PrivateGammaRegressor",
    "PrivateGridSearchCV",
    "PrivateGroupDRO",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearClassifier",
    "PrivateLinearDiscriminantAnalysis",
    "PrivateLinearRegressor",
    "PrivateLinearSVC",
    "PrivateLogisticL1",
    "PrivateLogisticRegression",
    "PrivateMinimaxClassifier",
    "PrivateMinimaxRegressor",
    "PrivateMoments",
    "PrivateMonotoneGLM",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSynthesizer",
    "RowBlocks",
    "Schema",
    "TableEncoder",
    "UtilityWarning",
    "config_context",
    "draw_records",
    "get_config",
    "make_private_pipeline",
    "set_config",
    "show_versions",
    "solve_variational_inequality",
]
