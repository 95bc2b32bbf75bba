"""Private linear models."""

from .discriminant_analysis import PrivateLinearDiscriminantAnalysis
from .elastic_net import PrivateElasticNet, PrivateRidge
from .huber_regressor import PrivateHuberRegressor
from .lasso import PrivateLasso
from .linear_classifier import PrivateLinearClassifier
from .linear_regressor import PrivateLinearRegressor
from .linear_svc import PrivateLinearSVC
from .links import Link
from .log_link import PrivateGammaRegressor, PrivatePoissonRegressor
from .logistic import PrivateLogisticL1
from .logistic_regression import PrivateLogisticRegression
from .monotone_glm import PrivateMonotoneGLM
from .quantile_regressor import PrivateQuantileRegressor

__all__ = [
    "Link",
    "PrivateElasticNet",
    "PrivateGammaRegressor",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearClassifier",
    "PrivateLinearDiscriminantAnalysis",
    "PrivateLinearRegressor",
    "PrivateLinearSVC",
    "PrivateLogisticL1",
    "PrivateLogisticRegression",
    "PrivateMonotoneGLM",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRidge",
]
