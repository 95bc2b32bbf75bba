"""Transformers whose output is safe to fit a private model on."""

from .bounds import ColumnClipper, PublicBoundsScaler, RowClipper
from .categorical import CategoricalDomainEncoder
from .clipper import PrivateQuantileClipper
from .pca import PrivatePCA
from .scaler import PrivateStandardScaler
from .selector import PrivateFeatureSelector
from .splines import PrivateSplineTransformer
from .table import TableEncoder, make_private_pipeline

__all__ = [
    "CategoricalDomainEncoder",
    "ColumnClipper",
    "PrivateFeatureSelector",
    "PrivatePCA",
    "PrivateQuantileClipper",
    "PrivateSplineTransformer",
    "PrivateStandardScaler",
    "PublicBoundsScaler",
    "RowClipper",
    "TableEncoder",
    "make_private_pipeline",
]
