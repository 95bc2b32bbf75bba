"""Selection of coordinates by one noisy gradient, for sparse records.

Gaussian noise on all coordinates grows with the longest record that is not shortened. If records
have few non-zeros they are short, and this noise is less than that of choosing coordinates one by
one.
Proof: docs/proofs/stagewise.md.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skdpsco._kernels import njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.pieces import one_record, slice_rows, sum_in_runs
from skdpsco.data.products import correlate, scaled_row_norms
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import for_kernels, lipschitz_norm
from skdpsco.mechanisms.samplers import release
from skdpsco.solvers.base import Problem, share_mu
from skdpsco.solvers.l1.refit import newton_pays


class ScreenTuning(NamedTuple):
    """Constants of the screening, fitted on the simulated text of examples/benchmarks/_data.py.

    Parameters
    ----------
    intercept_share, gradient_share : float
        Shares of mu**2 for the mean derivatives and for the gradient. The refit gets the rest.
    by_chance : float
        Expected number of coordinates that noise alone selects.
    """

    intercept_share: float = 0.01
    gradient_share: float = 0.65
    by_chance: float = 2.0


SCREEN = ScreenTuning()


@dataclass(frozen=True)
class ScreenPlan:
    """Noise multipliers of a selection, and the largest number of selected coordinates.

    Parameters
    ----------
    intercept : float or None
        Multiplier for the mean derivatives, which are released first if there is an intercept.
    gradient : float
        Multiplier for the gradient.
    n_selected : int
    """

    intercept: float | None
    gradient: float
    n_selected: int


def plan_screen(problem: Problem, mu: float) -> tuple[ScreenPlan, float]:
    """Plan a selection; also return the mu that is left for the refit."""
    parts = {"gradient": (SCREEN.gradient_share, 1)}
    if problem.intercept:
        parts["intercept"] = (SCREEN.intercept_share, 1)
    multipliers, _ = share_mu(mu, parts)
    rest = mu * (1.0 - sum(share for share, _ in parts.values())) ** 0.5
    n_selected = max(1, max_columns(problem.n_mu(1.0), rest) - problem.intercept)
    return ScreenPlan(multipliers.get("intercept"), multipliers["gradient"], n_selected), rest


def derivative_bounds(problem: Problem, predictions: np.ndarray) -> tuple[float, float]:
    """Bounds on each derivative of a record, and on their l2 norm, at the same predictions."""
    loss = problem.loss
    distance = max(np.abs(predictions).max(), np.ptp(predictions))  # from 0, and from one another
    slope = loss.lipschitz(float(distance), problem.target_bound)
    spread = float(np.ptp(predictions)) * (1.0 + 2.0**-50)
    return slope, min(lipschitz_norm(loss, 2.0, spread), slope * loss.n_outputs**0.5)


def max_columns(n_samples: float, mu: float) -> int:
    """Largest number of columns that Newton steps can refit, at least 1."""
    count = 1
    while newton_pays(n_samples, count + 1, mu):
        count += 1
    return count


def select_coordinates(
    plan: ScreenPlan, problem: Problem, X: MatrixLike, y: TargetLike, rng: np.random.Generator
) -> np.ndarray:
    """Flat coordinates, in increasing order, that are far from 0 in a noisy gradient.

    Parameters
    ----------
    plan : ScreenPlan
    problem, X, y, rng
        As in `skdpsco.solvers.base.Solver.run`.
    """
    n, D, K = problem.n_samples, problem.n_coefficients, problem.loss.n_outputs
    n_rows, added = len(y), problem.added
    Z, R = np.zeros((n_rows, K)), np.empty((n_rows, K))
    # 1. Make predictions right on average; otherwise every common feature would be selected.
    slack = 1.0 + (problem.n_features + K) * 2.0**-50  # norms and products are rounded
    slope, size = derivative_bounds(problem, Z[0])
    if plan.intercept is not None:
        differentiate(for_kernels(problem.loss), Z, y, slope, size, R)
        mean = sum_in_runs(n_rows, lambda start, stop: R[start:stop].sum(axis=0))
        changed = one_record(n, added, size * slack)
        release(rng, mean, changed, plan.intercept, n * (size * slack))
        Z -= np.clip(mean / n, -slope, slope) / problem.loss.curvature_constant(1.0)
        slope, size = derivative_bounds(problem, Z[0])
    # 2. Release the gradient at these predictions, for records shortened to norm 1.
    differentiate(for_kernels(problem.loss), Z, y, slope, size, R)

    def run(start: int, stop: int) -> np.ndarray:
        total = np.empty(D)
        some, norms = slice_rows(X, start, stop), np.empty(stop - start)
        normalised_gradient(some, R[start:stop], np.ones(len(X.bounds)), norms, total)
        return total

    gradient = sum_in_runs(n_rows, run)
    given = np.tile(np.arange(problem.n_features) < len(X.bounds), K)
    gradient[~given] = 0.0  # an intercept is always refitted
    size *= slack
    scale = release(rng, gradient, one_record(n, added, size), plan.gradient, n * size)
    threshold = -float(ndtri(min(0.5, SCREEN.by_chance / (2.0 * D)))) * scale
    size_of = np.where(given, np.abs(gradient), 0.0)
    largest = np.argsort(-size_of, kind="stable")[: plan.n_selected]
    return np.sort(largest[size_of[largest] > threshold])


@njit
def differentiate(loss, Z, y, bound, size, R):
    """Write all derivatives into ``R``, within both bounds."""
    bounded_derivatives(loss, Z, y, bound, size, R)


@njit
def normalised_gradient(X, R, ones, norms, out):
    """Write ``X' R`` for features shortened to norm 1; ``R`` is overwritten."""
    scaled_row_norms(X, ones, norms)
    for i in range(R.shape[0]):
        for k in range(R.shape[1]):
            R[i, k] /= max(norms[i], 1.0)
    correlate(X, R, out)
