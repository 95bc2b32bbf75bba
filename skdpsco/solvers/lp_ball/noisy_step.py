"""Projected steps along noisy sums of the gradients of single records, over an lp ball.

Proof: docs/proofs/phased_erm.md.
"""

import math
from typing import Any

import numpy as np

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco.data.pieces import replace_one, sum_in_runs
from skdpsco.data.record_stream import add_row, predict_row, read_row, row_room
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import for_kernels, lipschitz_norm
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.solvers.base import prediction_reach, prediction_spread
from skdpsco.solvers.steps import move_into

__all__ = ["Steps", "ball_slope", "euclidean_radius", "step_grid"]

# Bounds on derivatives must be in this range, since clipping squares numbers of their size.
SLOPE_RANGE = 1e-120, 1e120


def euclidean_radius(problem: Problem) -> float:
    """Largest l2 norm of a point of the ball."""
    ball = problem.constraint
    return ball.radius * problem.n_coefficients ** max(0.0, 0.5 - 1.0 / ball.p)


def ball_slope(problem: Problem, beyond: float = 0.0) -> float:
    """Bound on the l2 norm of a record's derivatives, in the ball and up to l2 ``beyond`` it.

    Raises
    ------
    ValueError
        If there is no bound, or its square may underflow or overflow.
    """
    loss = problem.loss
    reach = prediction_reach(problem) + beyond * problem.feature_norm(2.0)
    if loss.n_outputs > 1:
        apart = math.sqrt(2.0) * beyond * problem.feature_norm(2.0)
        slope = lipschitz_norm(loss, 2.0, prediction_spread(problem) + apart)
    else:
        slope = loss.lipschitz(reach, problem.target_bound)
    least, largest = SLOPE_RANGE
    if not least <= slope <= largest:
        raise ValueError(
            f"The derivative of {loss!r} must have a bound in [{least:g}, {largest:g}], "
            f"got {slope!r}."
        )
    return slope


def step_grid(
    problem: Problem, n_records: int, slope: float, multiplier: float, factor: float
) -> float:
    """Grid of a sum of at most ``n_records`` gradients; one record changes ``factor`` of them."""
    D = problem.n_coefficients
    # The clipping of a derivative and its product with a feature are rounded.
    largest = slope * (1.0 + (problem.loss.n_outputs + 8) * 2.0**-50)
    longest = largest * problem.feature_norm(2.0)
    sensitivity = replace_one(n_records, longest, factor * longest)
    return gaussian_grid(sensitivity, multiplier, D, n_records * largest)


class Steps:
    """Steps on the records of one data set; ``n_gradients`` is the expected number of gradients.

    Parameters
    ----------
    problem : Problem
    X : Dense or CSR
    y : ndarray of shape (n_samples,)
    slope : float
        The l2 norm to which derivatives are clipped.
    """

    def __init__(self, problem: Problem, X: Any, y: np.ndarray, slope: float) -> None:
        self.n_gradients: float = 0.0
        self._data = X, y, for_kernels(problem.loss), slope
        self._constraint = problem.constraint
        self._row_norm = problem.row_norm
        self._unmoved = np.empty((0, problem.loss.n_outputs))

    def gradient(
        self,
        rows: np.ndarray,
        n_expected: float,
        at: np.ndarray,
        grid: float,
        rng: np.random.Generator,
        shifts: np.ndarray | None = None,
    ) -> np.ndarray:
        """Release the mean gradient of some records at the point ``at``.

        Parameters
        ----------
        rows : ndarray of int
            Indices of the records.
        n_expected : float
            The public number by which the sum is divided: the number of records or, for a sample
            whose size is secret, its expectation.
        at : ndarray of shape (n_coefficients,)
        grid : float
        rng : numpy.random.Generator
        shifts : ndarray of shape (len(rows), n_outputs) or None, default=None
            These numbers, times the l2 norm of a record's row, are added to its predictions.
        """
        X, y, loss, slope = self._data
        if shifts is None:
            shifts = self._unmoved
        self.n_gradients += n_expected

        def run(start: int, stop: int) -> np.ndarray:
            total = np.zeros_like(at)
            chunk, moved = (X, y, rows[start:stop]), shifts[start:stop]
            add_row_gradients(chunk, self._row_norm, loss, slope, moved, at, total)
            return total

        total = sum_in_runs(len(rows), run)
        gaussian_mechanism(rng, total, grid)
        return total / n_expected

    def move(
        self,
        w: np.ndarray,
        gradient: np.ndarray,
        step: float,
        weight: float = 0.0,
        centre: np.ndarray | None = None,
    ) -> None:
        """Move ``w`` in place against ``gradient``, and into the ball.

        Parameters
        ----------
        w, gradient : ndarray of shape (n_coefficients,)
        step : float
        weight : float, default=0.0
            Weight of the regulariser ``weight / 2 * norm(w - centre)**2``, whose prox is applied.
        centre : ndarray of shape (n_coefficients,) or None, default=None
            Centre of the regulariser; None for none.
        """
        w -= step * gradient
        if centre is not None:
            w += step * weight * centre
            w /= 1.0 + step * weight
        move_into(self._constraint, w)


@njit
def add_row_gradients(chunk, row_norm, loss, slope, shifts, w, out):
    """Add the sum of the clipped gradients of a chunk at ``w``.

    Parameters
    ----------
    chunk : tuple of (X, y, rows)
    row_norm : float
        Longer rows are shortened to this l2 norm.
    loss : loss
    slope : float
        Bound to which derivatives are clipped.
    shifts : ndarray of shape (n_rows, n_outputs) or (0, n_outputs)
        See `Steps.gradient`.
    w, out : ndarray of shape (n_coefficients,)
    """
    X, y, rows = chunk
    inverse, row_norm, columns, values = row_room(X, row_norm)
    Z = np.empty((1, w.shape[0] // columns.shape[0]))
    for t in range(rows.shape[0]):
        i = rows[t]
        size = read_row(X, i, inverse, row_norm, columns, values)
        predict_row(X, columns, values, size, w, Z)
        if shifts.shape[0] > 0:
            square = 0.0
            for p in range(size):
                square += values[p] * values[p]
            for k in range(Z.shape[1]):
                Z[0, k] += shifts[t, k] * np.sqrt(square)
        bounded_derivatives(loss, Z, y[i : i + 1], slope, slope, Z)
        add_row(X, columns, values, size, 1.0, Z, out)
