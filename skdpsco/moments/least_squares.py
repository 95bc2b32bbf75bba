"""Penalised least squares by means and covariances alone: post-processing of released moments.

Nothing here sees data. Coefficients are in units of the columns, until they are returned.
"""

from typing import Any, NamedTuple

import numpy as np

from skdpsco.penalties import L1, ElasticNet
from skdpsco.privacy._checks import abridged
from skdpsco.solvers.penalized.quadratic_model import descend

__all__ = ["LeastSquares", "WeightPath", "check_within"]

PATH_TOLERANCE = 1e-9  # relative, for coefficients; far below any noise
RADIUS_STEPS = 60  # halvings of an interval of weights, for a given l1 norm


class WeightPath(NamedTuple):
    """Elastic nets along decreasing weights of the penalty.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
    coef : ndarray of shape (n_alphas, n_features)
    intercept : ndarray of shape (n_alphas,)
    """

    alphas: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


class LeastSquares(NamedTuple):
    """``v'Av / 2 - c'v`` for coefficients ``v / unit``: half the mean squared residual.

    Parameters
    ----------
    A : ndarray of shape (n_features, n_features)
        Positive definite.
    c : ndarray of shape (n_features,)
    unit : ndarray of shape (n_features,)
        Units of the features.
    mean : ndarray of shape (n_features + 1,)
        Means of the features and of the target; zeros without an intercept.
    n_samples : float
    """

    A: np.ndarray
    c: np.ndarray
    unit: np.ndarray
    mean: np.ndarray
    n_samples: float

    def intercept(self, coef: np.ndarray) -> Any:
        """The intercept of one model, or the intercepts of several."""
        return self.mean[-1] - coef @ self.mean[:-1]

    def ridge(self, weight: float) -> np.ndarray:
        """Coefficients for the penalty ``weight / 2 * |w|**2``."""
        return np.linalg.solve(self.A + np.diag(weight / self.unit**2), self.c) / self.unit

    def elastic_net(self, weight: float, l1_ratio: float, start: Any = None) -> np.ndarray:
        """Coefficients for ``weight * (l1_ratio |w|_1 + (1 - l1_ratio) / 2 |w|**2)``."""
        if l1_ratio == 0.0 or weight == 0.0:
            return self.ridge(weight)
        v = np.zeros(len(self.c)) if start is None else start * self.unit
        penalty: Any = L1(1.0) if l1_ratio == 1.0 else ElasticNet(l1_ratio, 1.0 - l1_ratio)
        descend(self.A, self.c, penalty, weight, 1.0 / self.unit, v, PATH_TOLERANCE)
        return v / self.unit

    def path(self, l1_ratio: float, n_alphas: int, eps: float, alphas: Any) -> WeightPath:
        """Follow the path; see `skdpsco.moments.ReleasedMoments.path`."""
        l1_ratio = check_within("l1_ratio", l1_ratio, 0.0, 1.0)
        if alphas is None:
            if isinstance(n_alphas, bool) or not (isinstance(n_alphas, int) and n_alphas >= 1):
                raise ValueError(f"n_alphas must be an int >= 1, got {abridged(n_alphas)}.")
            if l1_ratio == 0.0:
                raise ValueError("l1_ratio must be above 0 where alphas are to be chosen.")
            eps = check_within("eps", eps, 1e-10, 1.0)
            # The smallest weight for which all coefficients are 0.
            largest = float(np.abs(self.c * self.unit).max()) / l1_ratio * (1.0 + 1e-12)
            weights = largest * np.geomspace(1.0, eps, n_alphas)
        else:
            weights = np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))[::-1]
            if weights.ndim != 1 or len(weights) == 0 or not (0.0 <= weights).all():
                raise ValueError("alphas must be a list of numbers >= 0.")
        coefs, coef = [], None
        for weight in weights:
            coef = self.elastic_net(float(weight), l1_ratio, coef)
            coefs.append(coef)
        return WeightPath(weights, np.array(coefs), self.intercept(np.array(coefs)))

    def objective(self, coef: np.ndarray) -> float:
        """Half of the mean squared residual minus half of the target's variance."""
        v = coef * self.unit
        return float(0.5 * (v @ self.A @ v) - self.c @ v)

    def lasso(self, weight: float, lengths: np.ndarray, start: Any = None) -> np.ndarray:
        """Coefficients for the penalty ``weight * sum_j lengths_j |w_j|``."""
        v = np.zeros(len(self.c)) if start is None else start * self.unit
        descend(self.A, self.c, L1(1.0), weight, lengths / self.unit, v)
        return v / self.unit

    def in_ball(self, radius: float, lengths: np.ndarray) -> np.ndarray:
        """Coefficients with ``sum_j lengths_j |w_j| <= radius``."""
        coef = self.ridge(0.0)
        if float(lengths @ np.abs(coef)) <= radius:
            return coef
        # The norm falls as the weight grows, and it always fits at the upper end.
        low, high = 0.0, float(np.abs(self.c * self.unit / lengths).max())
        best = coef = np.zeros(len(coef))
        for _ in range(RADIUS_STEPS):
            middle = 0.5 * (low + high)
            coef = self.lasso(middle, lengths, coef)
            if float(lengths @ np.abs(coef)) <= radius:
                best, high = coef, middle
            else:
                low = middle
        return best


def check_within(name: str, value: Any, low: float, high: float) -> float:
    """Check that a number is in [low, high].

    Raises
    ------
    ValueError
        If it is not such a number.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise ValueError(
            f"{name} must be a number in [{low:.10g}, {high:.10g}], got {abridged(value)}."
        )
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must be in [{low:.10g}, {high:.10g}], got {abridged(value)}.")
    return float(value)
