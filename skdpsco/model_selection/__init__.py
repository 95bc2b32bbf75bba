"""Choosing parameters, and assessing models, under one privacy budget."""

from .scorers import PrivateScorer, make_private_scorer
from .search import PrivateGridSearchCV
from .validation import PrivateScore, private_cross_val_score

__all__ = [
    "PrivateGridSearchCV",
    "PrivateScore",
    "PrivateScorer",
    "make_private_scorer",
    "private_cross_val_score",
]
