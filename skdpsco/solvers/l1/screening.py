"""Selection of coordinates by one noisy gradient, for sparse records.

Gaussian noise on all coordinates grows with the longest record that is not shortened. If records
have few non-zeros they are short, and this noise is less than that of choosing coordinates one by
one.
Proof: docs/proofs/stagewise.md.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSR, Dense
from skdpsco.data.pieces import one_record
from skdpsco.data.products import correlate, scaled_row_norms
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import for_kernels, lipschitz_norm
from skdpsco.mechanisms.samplers import release
from skdpsco.privacy.spending import share_mu
from skdpsco.solvers.base import curvature_of

__all__ = ["ScreenPlan", "plan_screen", "select_coordinates"]


class ScreenTuning(NamedTuple):
    """Constants of the screening, fitted on the simulated text of examples/benchmarks/_data.py.

    Parameters
    ----------
    intercept_share, gradient_share : float
        Shares of mu**2 for the mean derivatives and for the gradient. The descent gets the rest.
    by_chance : float
        Expected number of coordinates that noise alone selects.
    signal : float
        n mu / k**1.5 for the largest number k of coordinates that may be selected.
    most : int
        Largest number of them; chosen by hand, for memory.
    """

    intercept_share: float = 0.01
    gradient_share: float = 0.65
    by_chance: float = 2.0
    signal: float = 10.0
    most: int = 300


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
    """Plan a selection; also return the mu that is left for the descent."""
    parts = {"gradient": (SCREEN.gradient_share, 1)}
    if problem.intercept:
        parts["intercept"] = (SCREEN.intercept_share, 1)
    multipliers, _ = share_mu(mu, parts)
    rest = mu * (1.0 - sum(share for share, _ in parts.values())) ** 0.5
    told_apart = (problem.n_mu(1.0) * rest / SCREEN.signal) ** (2.0 / 3.0)  # from noise
    n_selected = max(1, int(min(max(told_apart, 1.0), SCREEN.most)) - problem.intercept)
    return ScreenPlan(multipliers.get("intercept"), multipliers["gradient"], n_selected), rest


def derivative_bounds(problem: Problem, predictions: np.ndarray) -> tuple[float, float]:
    """Bounds on each derivative of a record, and on their l2 norm, at the same predictions."""
    loss = problem.loss
    distance = max(np.abs(predictions).max(), np.ptp(predictions))  # from 0, and from one another
    slope = loss.lipschitz(float(distance), problem.target_bound)
    spread = float(np.ptp(predictions)) * (1.0 + 2.0**-50)
    return slope, min(lipschitz_norm(loss, 2.0, spread), slope * loss.n_outputs**0.5)


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
    records, loss, added = in_pieces(X, y), for_kernels(problem.loss), problem.added
    z = np.zeros(K)
    # 1. Make predictions right on average; otherwise every common feature would be selected.
    slack = 1.0 + (problem.n_features + K) * 2.0**-50  # norms and products are rounded
    slope, size = derivative_bounds(problem, z)
    if plan.intercept is not None:
        mean = map_reduce(records, y, sum_of_slopes, loss, z, slope, size)
        changed = one_record(n, added, size * slack)
        release(rng, mean, changed, plan.intercept, n * (size * slack))
        z -= np.clip(mean / n, -slope, slope) / curvature_of(problem.loss, 1.0)
        slope, size = derivative_bounds(problem, z)
    # 2. Release the gradient at these predictions, for records shortened to norm 1.
    gradient = map_reduce(records, y, sum_of_gradients, loss, z, slope, size, D)
    given = np.tile(np.arange(problem.n_features) < len(X.bounds), K)
    gradient[~given] = 0.0  # an intercept is always fitted
    size *= slack
    scale = release(rng, gradient, one_record(n, added, size), plan.gradient, n * size)
    # Beyond the threshold, noise alone selects about `by_chance` coordinates.
    threshold = -float(ndtri(min(0.5, SCREEN.by_chance / (2.0 * D)))) * scale
    size_of = np.where(given, np.abs(gradient), 0.0)
    largest = np.argsort(-size_of, kind="stable")[: plan.n_selected]
    return np.sort(largest[size_of[largest] > threshold])


def slopes_at(y: np.ndarray, loss: Any, z: np.ndarray, slope: float, size: float) -> np.ndarray:
    """Derivatives of all records at the same predictions, within both bounds."""
    R = np.empty((len(y), len(z)))
    differentiate(loss, np.tile(z, (len(y), 1)), y, slope, size, R)
    return R


@without_gil
def sum_of_slopes(
    X: Dense | CSR, y: np.ndarray, loss: Any, z: np.ndarray, slope: float, size: float
) -> np.ndarray:
    """Sum of the derivatives at the predictions ``z``."""
    return slopes_at(y, loss, z, slope, size).sum(axis=0)


@without_gil
def sum_of_gradients(
    X: Dense | CSR, y: np.ndarray, loss: Any, z: np.ndarray, slope: float, size: float, D: int
) -> np.ndarray:
    """Sum of the gradients at the predictions ``z``, of records shortened to norm 1."""
    total, R = np.empty(D), slopes_at(y, loss, z, slope, size)
    normalised_gradient(X, R, np.ones(len(X.bounds)), np.empty(len(y)), total)
    return total


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
