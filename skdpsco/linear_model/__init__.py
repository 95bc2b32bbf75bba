"""Private linear models."""

from .lasso import PrivateLasso
from .logistic import PrivateLogisticL1

__all__ = ["PrivateLasso", "PrivateLogisticL1"]
