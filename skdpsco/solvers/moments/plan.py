"""What `moments` releases, how often, and how the budget is shared."""

import math
from dataclasses import dataclass

from skdpsco.losses.library import Multinomial, Squared
from skdpsco.solvers.base import Plan
from skdpsco.solvers.penalized.problem import CompositeProblem

# Shares of mu**2: of the norm, or of the centre and two norms, then, of what is left, of the matrix
# or the curvature along the moment, without and with the mean there, then of the moment beside
# none, one and several rounds.
NORM_SHARE, MATRIX_SHARE, CURVATURE_SHARE, LINE_SHARE = 0.03, 0.15, 0.06, 0.15
CENTRE_SHARE, NORMS_SHARE = 0.03, 0.045
MOMENT_SHARES = (1.0, 0.7, 0.5)
REGRESSION_SHARES = (0.03, 0.5)  # norm and matrix, where moments are sufficient statistics
# Of records with a large norm, to search 2**N_COUNTS clipping norms; once rows are centred, fewer.
N_COUNTS, N_CENTRED_COUNTS = 5, 4


@dataclass(frozen=True)
class MomentsPlan(Plan):
    """Grids of all releases, in sums over rows that were divided by the clipping norm.

    Parameters
    ----------
    norm_grid, centre_grid, matrix_grid, curvature_grid, response_grid : float or None
        None for what is not released. Dense rows are centred where there is a centre_grid.
    line : bool
        Whether the mean along the moment is released with the curvature.
    moment_grid : float
    tolerated : float
        Count of records that the clipping norm may shorten.
    row_norm : float or None
        The clipping norm, if it is public.
    """

    moment_grid: float = 0.0
    norm_grid: float | None = None
    centre_grid: float | None = None
    matrix_grid: float | None = None
    curvature_grid: float | None = None
    response_grid: float | None = None
    line: bool = False
    tolerated: float = 0.0
    row_norm: float | None = None


def shares(problem, row_norm, matrix, T, centred):
    """Share of mu**2 of one release of every kind, and how many there are.

    ``matrix`` tells whether second moments are released, ``T`` is the number of rounds,
    ``centred`` whether a centre is.
    """
    squared = isinstance(problem.loss, Squared)
    norm, second = REGRESSION_SHARES if squared and matrix else (NORM_SHARE, MATRIX_SHARE)
    if not matrix:
        line = problem.loss.n_outputs == 1 and problem.intercept
        second = LINE_SHARE if line else CURVATURE_SHARE
    parts = {}
    left = 1.0
    if row_norm is None:
        count = N_COUNTS
        if centred:
            norm, count = NORMS_SHARE, N_COUNTS + N_CENTRED_COUNTS
            parts["centre"] = (CENTRE_SHARE, 1)
            left -= CENTRE_SHARE
        parts["norm"] = (norm / count, count)
        left -= norm
    share = left * second
    parts["matrix" if matrix else "curvature"] = (share, 1)
    left -= share
    moment = left * MOMENT_SHARES[min(T, 2)]
    parts["moment"] = (moment, 1)
    if T > 0:
        parts["responses"] = ((left - moment) / T, T)
    return parts


def bound_of(problem: CompositeProblem) -> float:
    """Largest l2 norm of a target: the derivatives of the loss where predictions are 0."""
    loss = problem.loss
    size = loss.lipschitz(0.0, problem.target_bound)
    if type(loss) is Multinomial:
        # 1 - 1 / K, the largest component of e_y - 1 / K, is the square of its norm.
        return math.sqrt(size)
    return size * math.sqrt(loss.n_outputs)
