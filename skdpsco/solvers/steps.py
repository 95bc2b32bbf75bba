"""The useful number of steps, and compiled calls of the kernels of a set."""

import math

import numpy as np

from skdpsco._kernels import njit
from skdpsco.constraints.sets import minimiser, project

__all__ = ["MOST_PLANNED", "move_into", "steps_to_try", "whole_steps", "write_minimiser"]

MOST_PLANNED = 10_000  # that solvers choose; by hand, for time
# Share of the Frank-Wolfe steps that minimise the bound, which is for the worst case; fitted on
# data like those of examples/benchmarks/l1_accuracy.py
FRANK_WOLFE_SHARE = 0.05


def steps_to_try(most: int, n_tried: int) -> list[int]:
    """About ``n_tried`` numbers of steps from 1 to ``most``, in a geometric sequence."""
    return np.unique(np.rint(np.geomspace(1, most, n_tried)).astype(int)).tolist()


def whole_steps(useful: float) -> int:
    """Number of Frank-Wolfe steps at which the bound on the excess risk is smallest.

    Raises
    ------
    ValueError
        If the bound overflows.
    """
    if not useful < math.inf:
        raise ValueError(
            "The loss or the constraint is too large or too small for float64, as the bound on the "
            "excess risk overflows; rescale them."
        )
    return max(1, round(min(FRANK_WOLFE_SHARE * useful ** (2.0 / 3.0), MOST_PLANNED)))


@njit
def move_into(constraint, w):
    """Move ``w`` to the nearest point of the set, in place."""
    project(constraint, w)


@njit
def write_minimiser(constraint, G, out):
    """Write a point of the set that minimises the product with ``G``."""
    minimiser(constraint, G, out)
