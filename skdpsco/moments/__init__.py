"""Means and covariances that are released once, and what follows from them at no cost."""

from .least_squares import WeightPath
from .private_moments import PrivateMoments
from .query import MomentsQuery
from .released import ReleasedMoments

__all__ = ["MomentsQuery", "PrivateMoments", "ReleasedMoments", "WeightPath"]
