"""Constraint sets: kernels, and the public constants that sensitivities are made of."""

from .norms import lp_norm, regularity
from .sets import (
    L1Ball,
    L2Ball,
    LpBall,
    Polytope,
    Simplex,
    coordinate,
    in_double_precision,
    minimiser,
    n_vertices,
    project,
    vertex,
)

__all__ = [
    "L1Ball",
    "L2Ball",
    "LpBall",
    "Polytope",
    "Simplex",
    "coordinate",
    "in_double_precision",
    "lp_norm",
    "minimiser",
    "n_vertices",
    "project",
    "regularity",
    "vertex",
]
