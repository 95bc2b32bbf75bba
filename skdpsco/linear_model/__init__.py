"""Private linear models."""

from .elastic_net import PrivateElasticNet, PrivateRidge
from .lasso import PrivateLasso
from .logistic import PrivateLogisticL1
from .logistic_regression import PrivateLogisticRegression

__all__ = [
    "PrivateElasticNet",
    "PrivateLasso",
    "PrivateLogisticL1",
    "PrivateLogisticRegression",
    "PrivateRidge",
]
