"""Transformers whose output is safe to fit a private model on."""

from .bounds import PublicBoundsScaler, RowClipper
from .categorical import CategoricalDomainEncoder
from .clipper import PrivateQuantileClipper
from .scaler import PrivateStandardScaler
from .selector import PrivateFeatureSelector

__all__ = [
    "CategoricalDomainEncoder",
    "PrivateFeatureSelector",
    "PrivateQuantileClipper",
    "PrivateStandardScaler",
    "PublicBoundsScaler",
    "RowClipper",
]
