"""The uncertainty of a ridge regression on released moments: docs/proofs/private_moments.md."""

from typing import Any

import numpy as np
from scipy.special import erfcx

from skdpsco._problem import Uncertainty
from skdpsco.moments.least_squares import LeastSquares
from skdpsco.moments.release import MATRIX, ONE

__all__ = ["uncertainty"]

# Noise in the covariances of the features, relative to them, up to which intervals covered as they
# should in examples/benchmarks/moments.py.
DOUBTFUL = 0.3
MOST_TOGETHER = 1000  # numbers of all targets together up to which all covariances are kept


def uncertainty(
    moments: Any,
    problems: list[LeastSquares],
    coefs: np.ndarray,
    weight: float,
    fit_intercept: bool = True,
) -> Uncertainty:
    """Variance from sampling and from noise of ``(A + weight I)^-1 c`` and of the intercept.

    Parameters
    ----------
    moments : ReleasedMoments
    problems : list of LeastSquares
        The least squares problem of each target.
    coefs : ndarray of shape (n_targets, n_features)
    weight : float
        Weight of the penalty ``weight / 2 * |w|**2``.
    fit_intercept : bool, default=True
    """
    problem, (m, d) = problems[0], coefs.shape
    unit, n = problem.unit, problem.n_samples
    units = np.outer(unit, unit)
    A, inverse = problem.A * units, np.linalg.inv(problem.A + np.diag(weight / unit**2)) / units
    together = m * (d + 1) <= MOST_TOGETHER
    first, second = np.indices((m, m)).reshape(2, -1) if together else np.tile(np.arange(m), (2, 1))
    pairs = first, second
    noise, of_residuals, of_curvature = _measured_noise(moments, problems, coefs, inverse, pairs)
    left = _residual_covariance(moments, problems, coefs * unit)
    # The fit has made the variance of the residuals smaller, by what it took for a signal.
    taken, kept = np.einsum("ij,kij->k", inverse, noise[:, :d, :d]), max(1.0 - d / n, 1.0 / n)
    variances = (left.diagonal() + taken[first == second]) / kept
    variances = np.array(list(map(mean_above_0, variances, of_residuals / kept)))
    values, U = np.linalg.eigh(left)
    left = ((U * np.maximum(values, 0.0)) @ U.T)[first, second]
    left = ((left + taken) / kept / n)[:, None, None]
    noise[:, :d, :d] += left * A
    noise[:, d:, d:] += left
    J = np.zeros((d + 1, d + 1))  # from the gradient and the mean residual to the model
    J[:d, :d] = inverse
    if fit_intercept:
        J[d, :d] = -problem.mean[:d] @ inverse
        J[d, d] = 1.0
    noise = J @ noise @ J.T
    _, deviation = moments.features_alone().noise
    floor = deviation * np.sqrt(2.0 * d)
    repaired = bool(np.linalg.eigvalsh(problem.A).min() <= floor * (1.0 + 1e-9))
    covariance, doubtful = noise[first == second], repaired or of_curvature > DOUBTFUL
    if m == 1:
        return Uncertainty(covariance[0], of_curvature, doubtful, float(variances[0]))
    joint = noise.reshape(m, m, d + 1, d + 1).transpose(0, 2, 1, 3) if together else None
    shared = np.full(m, of_curvature), np.full(m, doubtful)
    return Uncertainty(covariance, *shared, variances, joint)


def _measured_noise(
    moments: Any, problems: list[LeastSquares], coefs: np.ndarray, inverse: Any, pairs: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    """What the noise of the releases does to the regressions.

    Returns
    -------
    gradient : ndarray of shape (n_pairs, n_features + 1, n_features + 1)
        For targets ``pairs[0]`` with ``pairs[1]``, covariances of the gradient and, last, of the
        mean residual.
    residual : ndarray of shape (n_targets,)
        Deviations of the mean squares of residuals.
    curvature : float
        Deviation of the covariances of the features, relative to them.
    """
    (m, d), (first, second) = coefs.shape, pairs
    mean = np.append(problems[0].mean[:d], [one.mean[-1] for one in problems])
    residuals = np.hstack([-coefs, np.eye(m)])
    gradient = np.zeros((len(first), d + 1, d + 1))
    curvature, residual = 0.0, np.zeros(m)
    for share, (centre, scale, deviation, counted) in moments.measured:
        # Columns minus their means are this times (ONE, v); second moments of (ONE, v) are noisy.
        P = np.column_stack([(centre - mean) / ONE, np.diag(scale)])
        Q = np.vstack([P[:d], np.append(1.0 / ONE, np.zeros(d + m))])
        H = residuals @ P
        products, moved, ones = H @ H.T, H @ Q.T, np.outer(H[:, 0], H[:, 0])
        known = _outer(moved, second, first)
        known += products[first, second, None, None] * (Q @ Q.T)
        # The mean of a constant has no noise.
        known = 0.5 * known - ones[first, second, None, None] * np.outer(Q[:, 0], Q[:, 0])
        if counted:  # but the number of records has, and all else is divided by it
            K = -H @ _second_moments(moments, centre, scale) / MATRIX.one
            K[:, 0] += H[:, 0]
            known += _outer(K @ Q.T, first, second)
            residual = np.hypot(residual, share * deviation * (H * K).sum(axis=1))
        variance = (share * deviation) ** 2
        gradient += variance * known
        square, of_ones = products.diagonal(), ones.diagonal()
        # Fourth powers would overflow.
        both = np.sqrt(np.maximum(square - of_ones, 0.0)) * np.sqrt(square + of_ones)
        residual = np.hypot(residual, share * deviation * both)
        curvature += 0.5 * variance * np.trace(P[:d].T @ inverse @ P[:d]) ** 2
    return gradient, residual, float(np.sqrt(curvature))


def _outer(rows: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Outer products of the ``first`` rows with the ``second`` ones."""
    return rows[first][:, :, None] * rows[second][:, None, :]


def _residual_covariance(moments: Any, problems: list[LeastSquares], V: np.ndarray) -> np.ndarray:
    """Released covariances of the residuals of all targets, for coefficients ``V / unit``."""
    d, A = moments.n_features, problems[0].A
    off = moments.mean[d:] - [one.mean[-1] for one in problems]
    crossed = V @ np.array([one.c for one in problems]).T
    return moments.covariance[d:, d:] + np.outer(off, off) + V @ A @ V.T - crossed - crossed.T


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
