"""Quadratic models of a mean loss, and their minimisers under a penalty: post-processing only.

Nothing here sees data. Coefficients have shape (n_outputs, n_features).
"""

from typing import Any

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from skdpsco._kernels import njit
from skdpsco.penalties import L2, scaled_prox
from skdpsco.solvers.penalized.problem import CompositeProblem

__all__ = ["Model", "descend"]

MAX_SWEEPS = 1000  # sweeps of coordinate descent over the coefficients of a model
SWEEP_TOLERANCE = 1e-13  # relative change in a sweep


@njit
def descend(A, c, penalty, weight, unit, v, tolerance=SWEEP_TOLERANCE):
    """Minimise ``v'Av / 2 - c'v + weight * sum_j psi(unit_j v_j)`` by coordinates, from ``v``.

    It ends with a sweep that moves ``v`` by less than ``tolerance`` relative to its size.
    """
    d = c.shape[0]
    r = c.copy()  # c - A v
    for j in range(d):
        if v[j] != 0.0:
            for i in range(d):
                r[i] -= A[j, i] * v[j]
    for _ in range(MAX_SWEEPS):
        moved, size = 0.0, 0.0
        for j in range(d):
            a = A[j, j]
            new = scaled_prox(penalty, v[j] + r[j] / a, weight / a, unit[j])
            step = new - v[j]
            if step != 0.0:
                v[j] = new
                for i in range(d):
                    r[i] -= A[j, i] * step
            moved = max(moved, a * step * step)
            size = max(size, a * new * new)
        if moved <= tolerance * tolerance * size:
            return


@njit
def separate(a, c, penalty, weight, unit, v):
    """Do what `descend` does, for a diagonal matrix ``a``: in one step."""
    for j in range(c.shape[0]):
        v[j] = scaled_prox(penalty, c[j] / a[j], weight / a[j], unit[j])


class Model:
    """``<slope, W> + curvature * tr(W M W') / 2`` plus the penalty of a problem.

    Parameters
    ----------
    M : ndarray of shape (n_features, n_features), or (n_features,) if diagonal
        Second moments, positive definite.
    problem : CompositeProblem
    scale : ndarray of shape (n_features,)
        Coefficients of the problem are ``W * scale``.
    """

    unit: np.ndarray
    penalty: Any
    weight: float
    ridge: Any

    def __init__(self, M: np.ndarray, problem: CompositeProblem, scale: np.ndarray) -> None:
        self.M = M
        penalty = L2(0.0) if problem.penalty is None else problem.penalty
        self.unit = np.array(problem.unit) * scale
        self.penalty, self.weight = penalty, problem.weight
        # The curvature of the penalty; a quadratic penalty needs nothing else to solve with a
        # matrix.
        self.ridge = problem.weight * penalty.curvature * self.unit**2
        self._factors: Any = None, None  # a curvature, and the factors of its matrix

    def apply(self, W: np.ndarray) -> np.ndarray:
        """``W M``, flat for a flat ``W``."""
        rows = W.reshape(-1, len(self.M))
        return (rows @ self.M if self.M.ndim == 2 else rows * self.M).reshape(W.shape)

    def proximal_step(self, point: np.ndarray, gradient: np.ndarray, step: float) -> np.ndarray:
        """The step from flat coefficients, with this gradient, in the metric ``M / step``."""
        rows, linear = point.reshape(-1, len(self.M)), self.apply(point) / step - gradient
        return self.minimise(1.0 / step, linear.reshape(rows.shape), rows).ravel()

    def minimise(self, curvature: float, linear: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Minimise ``curvature * tr(W M W') / 2 - <linear, W>`` plus the penalty."""
        if self.M.ndim == 1 and type(self.penalty) is L2:
            return linear / (curvature * self.M + self.ridge)
        if self.M.ndim == 2 and type(self.penalty) is L2:
            if self._factors[0] != curvature:  # most steps have the length of the one before
                A = curvature * self.M
                diagonal = self.ridge + 1e-14 * A.diagonal().max()
                self._factors = curvature, lu_factor(A + np.diag(diagonal), check_finite=False)
            return lu_solve(self._factors[1], linear.T, check_finite=False).T
        A = curvature * self.M
        W = start.copy()
        for w, c in zip(W, linear, strict=True):
            method = descend if A.ndim == 2 else separate
            method(A, c, self.penalty, self.weight, self.unit, w)
        return W
