"""The uncertainty of a ridge regression on released moments: docs/proofs/private_moments.md."""

from typing import Any

import numpy as np
from scipy.special import erfcx

from skdpsco.moments.least_squares import LeastSquares
from skdpsco.moments.release import MATRIX, ONE
from skdpsco.solvers.base import Uncertainty

__all__ = ["uncertainty"]

# Noise in the covariances of the features, relative to them, up to which intervals covered as they
# should in examples/benchmarks/moments.py.
DOUBTFUL = 0.3


def uncertainty(
    moments: Any, problem: LeastSquares, coef: np.ndarray, weight: float, fit_intercept: bool = True
) -> Uncertainty:
    """Variance from sampling and from noise of ``(A + weight I)^-1 c`` and of the intercept.

    Parameters
    ----------
    moments : ReleasedMoments
    problem : LeastSquares
        The least squares problem of these moments.
    coef : ndarray of shape (n_features,)
    weight : float
        Weight of the penalty ``weight / 2 * |w|**2``.
    fit_intercept : bool, default=True
    """
    d, unit = len(coef), problem.unit
    A = problem.A * np.outer(unit, unit)
    inverse = np.linalg.inv(problem.A + np.diag(weight / unit**2)) / np.outer(unit, unit)
    residual = np.append(-coef, 1.0)
    # Variances of the gradient and, last, of the mean residual.
    noise, curvature_noise, residual_noise = np.zeros((d + 1, d + 1)), 0.0, 0.0
    for share, (centre, scale, deviation, counted) in moments.measured:
        # Columns minus their means are this times (ONE, v); second moments of (ONE, v) are noisy.
        P = np.column_stack([(centre - problem.mean) / ONE, np.diag(scale)])
        Q = np.vstack([P[:d], np.append(1.0 / ONE, np.zeros(d + 1))])
        h = P.T @ residual
        K = 0.5 * (h @ h * np.eye(d + 2) + np.outer(h, h))
        K[0, 0] -= h[0] ** 2  # the mean of a constant has no noise
        if counted:  # but the number of records has, and all else is divided by it
            k = -_second_moments(moments, centre, scale) @ h / MATRIX.one
            k[0] += h[0]
            K += np.outer(k, k)
            residual_noise = np.hypot(residual_noise, share * deviation * (h @ k))
        variance = (share * deviation) ** 2
        noise += variance * Q @ K @ Q.T
        square, of_ones = h @ h, h[0] ** 2
        # Fourth powers would overflow.
        both = np.sqrt(max(square - of_ones, 0.0)) * np.sqrt(square + of_ones)
        residual_noise = np.hypot(residual_noise, share * deviation * both)
        curvature_noise += 0.5 * variance * np.trace(P[:d].T @ inverse @ P[:d]) ** 2
    spread = moments.covariance[-1, -1] + (moments.mean[-1] - problem.mean[-1]) ** 2
    left = float(spread + 2.0 * problem.objective(coef))
    # The fit has made the variance of the residuals smaller, by what it took for a signal.
    n = problem.n_samples
    taken, kept = float((inverse * noise[:d, :d]).sum()), max(1.0 - d / n, 1.0 / n)
    variance = mean_above_0((left + taken) / kept, float(residual_noise) / kept)
    left = (max(left, 0.0) + taken) / kept
    noise[:d, :d] += left * A / n
    noise[d, d] += left / n
    J = np.zeros((d + 1, d + 1))  # from the gradient and the mean residual to the model
    J[:d, :d] = inverse
    J[d, :d] = -problem.mean[:d] @ inverse
    J[d, d] = 1.0
    if not fit_intercept:
        J[d] = 0.0
    _, deviation = moments.features_alone().noise
    floor = deviation * np.sqrt(2.0 * d)
    repaired = bool(np.linalg.eigvalsh(problem.A).min() <= floor * (1.0 + 1e-9))
    relative = float(np.sqrt(curvature_noise))
    return Uncertainty(J @ noise @ J.T, relative, repaired or relative > DOUBTFUL, variance)


def mean_above_0(mean: float, deviation: float) -> float:
    """The mean of a normal variable, given that it is positive."""
    if deviation <= 0.0:
        return max(mean, 0.0)
    # The ratio of density and probability, without underflow far below 0.
    ratio = np.sqrt(2.0 / np.pi) / erfcx(-mean / deviation / np.sqrt(2.0))
    return max(mean + deviation * float(ratio), 0.0)


def _second_moments(moments: Any, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Released mean of ``(ONE, v) (ONE, v)'`` over all records, in the units of one release."""
    v = np.append(ONE, (moments.mean - centre) / scale)
    M = np.outer(v, v)
    M[1:, 1:] += moments.covariance / np.outer(scale, scale)
    return M
