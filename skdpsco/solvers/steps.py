"""The number of steps that pays, and projection onto a set."""

import math

from skdpsco._kernels import njit
from skdpsco.constraints.sets import project

MOST_AUTOMATIC_STEPS = 10_000  # limit of the automatic rule


def whole_steps(useful: float) -> int:
    """Number of Frank-Wolfe steps at which the bound on the excess risk is smallest.

    Raises
    ------
    ValueError
        If the bound overflows.
    """
    if not useful < math.inf:
        raise ValueError("The bound on the excess risk overflows.")
    # The bound is for the worst case: on data, about a twentieth of its steps is best.
    return max(1, round(min(0.05 * useful ** (2.0 / 3.0), MOST_AUTOMATIC_STEPS)))


@njit
def move_into(constraint, w):
    """Move ``w`` to the nearest point of the set, in place."""
    project(constraint, w)
