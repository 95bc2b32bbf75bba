"""The useful number of steps, and projection onto a set."""

import math
from typing import NamedTuple

from skdpsco._kernels import njit
from skdpsco.constraints.sets import project

__all__ = ["move_into", "whole_steps"]


class FrankWolfeTuning(NamedTuple):
    """Constants of the automatic number of steps.

    Parameters
    ----------
    share : float
        Share of the steps that minimise the bound, which is for the worst case. It was fitted on
        data like those of examples/benchmarks/l1_accuracy.py.
    most : int
        Largest number of steps; chosen by hand, for time.
    """

    share: float = 0.05
    most: int = 10_000


FRANK_WOLFE = FrankWolfeTuning()


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
    return max(1, round(min(FRANK_WOLFE.share * useful ** (2.0 / 3.0), FRANK_WOLFE.most)))


@njit
def move_into(constraint, w):
    """Move ``w`` to the nearest point of the set, in place."""
    project(constraint, w)
