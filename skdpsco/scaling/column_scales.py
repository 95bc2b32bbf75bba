"""Private mean squares of columns and targets. Proof: docs/proofs/coordinate_descent.md."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco.data.design import CSR, Dense, clipped
from skdpsco.data.pieces import one_record, sum_in_batches
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.losses.library import without_weights
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent

__all__ = ["COLUMN_SCALES", "NOTHING", "ScalePlan", "Scales", "plan_scales", "release_scales"]


class ScaleTuning(NamedTuple):
    """Constants of the scales, fitted on data as in examples/benchmarks/coordinate_descent.py.

    Parameters
    ----------
    share : float
        Share of a solver's mu**2 (or, equivalently, rho) for the scales of columns.
    target_share : float
        The same if the scales of the columns are known, and only those of targets are needed.
    usual_target : tuple of float
        Mean square of targets in units of their bound, as far as nothing is known of them, and
        the deviation of that guess.
    """

    share: float = 0.1
    target_share: float = 0.02
    usual_target: tuple[float, float] = (0.17, 0.1)


COLUMN_SCALES = ScaleTuning()


class Scales(NamedTuple):
    """Scales, in the kernels' units.

    Parameters
    ----------
    mean_square : ndarray of shape (n_features,), or None
        None if it is neither known nor was measured. What was measured is not below its noise.
    target : float
        Root mean square of the targets; their bound, if it was not measured.
    """

    mean_square: Any
    target: float


@dataclass(frozen=True)
class ScalePlan:
    """Sums of squares, one after the other; by default nothing is measured.

    Parameters
    ----------
    event : Event
    columns : int
        Number of features that are measured, without the one of the intercept.
    target : bool
        Whether the targets are measured.
    grid : float
        Grid of every sum.
    """

    event: Event = field(default_factory=NoOpEvent)
    columns: int = 0
    target: bool = False
    grid: float = 0.0


NOTHING = ScalePlan()


def plan_scales(
    problem: Problem, mu: float, target: bool, columns: bool = True
) -> tuple[ScalePlan, float]:
    """Spend a share of ``mu`` on scales that are not known; also return the mu that is left.

    Parameters
    ----------
    problem : Problem
    mu : float
        Sensitivity over standard deviation.
    target : bool
        Whether the targets are measured as one more column.
    columns : bool, default=True
        Whether the scales of features are needed.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n = problem.n_samples
    k = problem.n_features - problem.intercept if columns and problem.mean_square is None else 0
    if not (target or k):
        return NOTHING, mu
    share = COLUMN_SCALES.share if k else COLUMN_SCALES.target_share
    mu_scales = mu * math.sqrt(share)
    change = one_record(n, problem.added, 1.0, change=1.0)
    grid = gaussian_grid(change, math.sqrt(k + target) / mu_scales, 1, n)
    plan = ScalePlan(GaussianEvent(1.0 / mu_scales), k, target, grid)
    return plan, mu * math.sqrt(1.0 - share)


def release_scales(
    plan: ScalePlan,
    problem: Problem,
    X: Any,
    y: np.ndarray | None,
    rng: np.random.Generator,
) -> Scales:
    """Follow ``plan`` on the data; what is not measured is what is known."""
    n, X = problem.n_samples, in_pieces(X, y)
    mean_square: Any = problem.mean_square
    if plan.columns > 0:
        mean_square, _ = _mean_squares(map_reduce(X, y, column_squares), plan.grid, n, rng)
    if mean_square is not None:
        mean_square = np.append(mean_square, [1.0] * problem.intercept)
    target = problem.target_bound
    if plan.target:
        # In units of the bound.
        weighted = traits_of(problem.loss).weighted
        squares = map_reduce(X, y, target_squares, target, weighted)
        (square,), deviation = _mean_squares(squares, plan.grid, n, rng)
        # Bounds that were found are about as far from the targets as those of other tables.
        guess, doubt = COLUMN_SCALES.usual_target
        square += (guess - square) * deviation**2 / (deviation**2 + doubt**2)
        target *= math.sqrt(square)
    return Scales(mean_square, target)


def _mean_squares(squares, grid, n, rng):
    """Release sums; return mean squares, at most 1 and not below the noise, and its deviation."""
    deviation = gaussian_mechanism(rng, squares, grid)
    return np.clip(squares, deviation, n) / n, deviation / n


@without_gil
def column_squares(X: Dense | CSR, y: np.ndarray) -> np.ndarray:
    """Sums of the squares of the entries of every column."""
    if isinstance(X, CSR):
        x = clipped(X.data, X.bounds[X.indices])
        # Without entries NumPy counts integers.
        return np.bincount(X.indices, x * x, len(X.bounds)).astype(float)

    def squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->j", x, x)

    return sum_in_batches(X, y, np.arange(len(X.bounds)), squares)


def target_squares(X: Any, y: np.ndarray, bound: float, weighted: bool) -> np.ndarray:
    """Sum of the squares of the targets over ``bound``, of their means if records have several."""
    y = clipped(without_weights(y) if weighted else y, np.array([bound]))
    squares = np.square(y) if y.ndim == 1 else np.mean(y * y, axis=1)
    return squares.sum(keepdims=True)
