"""Means and covariances that are released once, and what follows from them at no cost."""

from .least_squares import Path
from .private_moments import PrivateMoments
from .released import ReleasedMoments

__all__ = ["Path", "PrivateMoments", "ReleasedMoments"]
