"""Transformers whose output is safe to fit a private model on."""

from .bounds import PublicBoundsScaler, RowClipper
from .categorical import CategoricalDomainEncoder

__all__ = ["CategoricalDomainEncoder", "PublicBoundsScaler", "RowClipper"]
