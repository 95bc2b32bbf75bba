"""The releases of the solver `moments`, their number, and how they share the budget."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from skdpsco.losses.library import Multinomial
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.solvers.base import Plan
from skdpsco.solvers.penalized.problem import CompositeProblem

__all__ = ["MOMENTS", "MomentsPlan", "bound_of", "has_matrix", "shares"]


class MomentsTuning(NamedTuple):
    """Constants of the solver, fitted on data as in examples/benchmarks/coordinate_descent.py.

    F is the number of columns, and d that without the ones of an intercept. "Signal" is the length
    of the moment of a perfect signal over that of its noise, ``n mu / sqrt(d max(K - 1, 1))``. The
    constants of centring were fitted on data as in examples/benchmarks/robustness.py.

    Parameters
    ----------
    norm_share : float
        Share of mu**2 for the search for a clipping norm, if rows are not centred.
    norms_share : float
        Share of mu**2 for both searches, if rows are centred.
    centre_share : float
        Share of mu**2 for the centre, if rows are centred.
    n_counts, n_centred_counts : int
        Number of counts of long rows that a search releases; k counts search among 2**k norms.
    matrix_share, curvature_share, line_share : float
        Shares of the rest for the matrix, for the curvature along the moment, and for this
        curvature together with the mean along the moment.
    regression_share : float
        Share of the rest for the matrix if moments are sufficient statistics.
    moment_shares : tuple of three floats
        Shares of what then remains for the moment, with no, one and several rounds. The rounds
        share the rest.
    max_features : int
        Largest number of columns of a matrix; chosen by hand, for memory.
    matrix_ratio : float
        ``n mu / F**1.5`` from which on a matrix is released.
    centre_ratio : float
        ``n mu / sqrt(d)`` from which on rows are centred.
    least_centre : float
        Smallest norm of a centre, in clipping norms: a smaller one would hardly shorten rows.
    rounds_signal : float
        Signal from which on there are rounds.
    few_signal, many_signal : float
        Signal per squared number of rounds if there are few, and per round if there are many.
    max_rounds, most_rounds : int
        Largest number of rounds if there is noise, and if there is hardly any.
    long : int
        Number of rounds beyond which the curvature starts from its largest value.
    intercept : float
        Square of the column of ones, in units of the squared clipping norm.
    most_mean : float
        Largest share of a mean square that the square of the mean may be.
    ridge, regression_ridge : float
        Ridge of the matrix, in units of the spectral norm of its noise; the second is for moments
        that are sufficient statistics.
    least_saturation : float
        Least curvature relative to that at 0: the true one may be twice as large, and steps remain
        stable.
    shrinkage, diagonal_shrinkage : float
        Share of James and Stein's shrinkage of moments and gradients that is applied, with a matrix
        and without; all of it would slow down the convergence.
    typical_target, typical_norm : float
        Guesses for the summary of a plan: the deviation of targets in units of their bound, and the
        clipping norm in units of the root mean square of rows.
    """

    norm_share: float = 0.03
    norms_share: float = 0.045
    centre_share: float = 0.03
    n_counts: int = 5
    n_centred_counts: int = 4
    matrix_share: float = 0.15
    curvature_share: float = 0.06
    line_share: float = 0.15
    regression_share: float = 0.5
    moment_shares: tuple[float, float, float] = (1.0, 0.7, 0.5)
    max_features: int = 2000
    matrix_ratio: float = 2.0
    centre_ratio: float = 40.0
    least_centre: float = 0.5
    rounds_signal: float = 25.0
    few_signal: float = 40.0
    many_signal: float = 5e4
    max_rounds: int = 6
    most_rounds: int = 300
    long: int = 20
    intercept: float = 0.15
    most_mean: float = 0.8
    ridge: float = 1.0
    regression_ridge: float = 0.4
    least_saturation: float = 0.5
    shrinkage: float = 0.5
    diagonal_shrinkage: float = 0.75
    typical_target: float = 0.4
    typical_norm: float = 1.3


MOMENTS = MomentsTuning()


@dataclass(frozen=True)
class MomentsPlan(Plan):
    """Grids of all releases, which are sums over rows divided by the clipping norm.

    Parameters
    ----------
    norm_grid, centre_grid, matrix_grid, curvature_grid, response_grid : float or None
        Grids of optional releases, or None. Dense rows are centred if there is a centre_grid.
    line : bool
        Whether the mean along the moment is released with the curvature.
    moment_grid : float
    tolerated : float
        Number of records that the clipping norm may shorten.
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

    def coefficient_noise(self, problem: CompositeProblem) -> float | None:
        """Deviation of a least-squares coefficient, in those of the targets over those of a column.

        It is None unless moments are sufficient statistics. The length of rows and the deviation of
        targets are guesses, and targets are taken to follow from the columns.
        """
        if self.matrix_grid is None or not traits_of(problem.loss).quadratic:
            return None
        c = MOMENTS.typical_norm * math.sqrt(problem.n_features - problem.intercept)
        of_moment = deviation_on(self.moment_grid) / MOMENTS.typical_target
        return c * math.hypot(of_moment, deviation_on(self.matrix_grid) * c) / problem.n_samples


def has_matrix(n_samples: int, n_features: int, mu: float) -> bool:
    """Whether second moments are more than noise, and there are not too many of them."""
    enough = n_samples * mu >= MOMENTS.matrix_ratio * n_features**1.5
    return enough and n_features <= MOMENTS.max_features


def shares(problem: Any, row_norm: Any, matrix: Any, T: Any, centred: Any) -> Any:
    """Share of mu**2 of one release of every kind, and the number of such releases.

    ``matrix`` and ``centred`` say whether second moments and a centre are released, and ``T`` is
    the number of rounds.
    """
    squared = traits_of(problem.loss).quadratic
    if matrix:
        second = MOMENTS.regression_share if squared else MOMENTS.matrix_share
    else:
        line = problem.loss.n_outputs == 1 and problem.intercept
        second = MOMENTS.line_share if line else MOMENTS.curvature_share
    parts = {}
    left = 1.0
    if row_norm is None:
        norm, count = MOMENTS.norm_share, MOMENTS.n_counts
        if centred:
            norm, count = MOMENTS.norms_share, count + MOMENTS.n_centred_counts
            parts["centre"] = (MOMENTS.centre_share, 1)
            left -= MOMENTS.centre_share
        parts["norm"] = (norm / count, count)
        left -= norm
    share = left * second
    parts["matrix" if matrix else "curvature"] = (share, 1)
    left -= share
    moment = left * MOMENTS.moment_shares[min(T, 2)]
    parts["moment"] = (moment, 1)
    if T > 0:
        parts["responses"] = ((left - moment) / T, T)
    return parts


def bound_of(problem: CompositeProblem) -> float:
    """Largest l2 norm of a target, which is minus the derivative of the loss at prediction 0."""
    loss = problem.loss
    size = loss.lipschitz(0.0, problem.target_bound)
    if type(loss) is Multinomial:
        # 1 - 1 / K, the largest component of e_y - 1 / K, is the square of its norm.
        return math.sqrt(size)
    return size * math.sqrt(loss.n_outputs)
