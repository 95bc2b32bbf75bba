"""Normal classes, from released moments of features and indicators; docs/proofs/private_moments.md.

Nothing here sees data.
"""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["ClassMoments", "class_moments"]

# Least variance within classes in any direction, relative to that of all records.
LEAST_WITHIN = 0.05


class ClassMoments(NamedTuple):
    """Shares and means of classes, and the covariance within them.

    Parameters
    ----------
    shares : ndarray of shape (n_classes,)
    means : ndarray of shape (n_classes, n_features)
    within : ndarray of shape (n_features, n_features)
        Positive definite.
    """

    shares: np.ndarray
    means: np.ndarray
    within: np.ndarray


def class_moments(moments: Any, diagonal: bool) -> ClassMoments:
    """Derive class moments from the moments of features and of indicators, which are the targets.

    Parameters
    ----------
    moments : ReleasedMoments
    diagonal : bool
        Whether features are uncorrelated within classes.
    """
    d, K, n = moments.n_features, moments.n_targets, moments.n_samples
    unit, deviation = moments.noise
    shares = moments.mean[d:]
    shares = shares - (shares.sum() - 1.0) / K
    shares = np.maximum(shares, np.maximum(unit[d:] * deviation, 1.0 / n))
    shares = shares / shares.sum()
    total = pooled_covariance(moments.features_alone(), diagonal)
    values, U = np.linalg.eigh(total / np.outer(unit[:d], unit[:d]))
    root = U * np.sqrt(values) * unit[:d, None]  # root @ root.T is the covariance
    white = (U / np.sqrt(values)).T / unit[:d]  # its inverse
    between, noise = differences(moments, white, values, shares)
    sampled = shares * (1.0 - shares) / n  # the part of the noise that was not drawn
    # Shrink them as normal numbers of one variance per class; those with little noise tell it best.
    # It is taken for one standard error less: a model of noise alone is worse than none.
    precision = (noise**-2.0).sum(axis=0)
    signal = (noise**-2.0 * (np.square(between) - noise)).sum(axis=0) / precision
    signal = np.maximum(signal - np.sqrt(2.0 / precision), 0.0)
    # Squares of true ones add up to at most the variance of the indicator, which noise may exceed.
    most = n * sampled * (noise**-2.0).max(axis=0) / precision
    signal = np.minimum(signal, most)
    kept = signal / (signal + noise)
    between = between * kept
    # A variance within classes that is below the noise left in what they explain may be noise.
    drawn = noise - sampled
    left = (kept * drawn).max(axis=0) / (n * sampled)
    least = min(1.0, max(LEAST_WITHIN, float(shares @ (2.0 * np.sqrt(left) + left))))
    means = moments.mean[:d] + (root @ (between / shares)).T
    explained = (between / shares) @ between.T
    if diagonal:
        explained = np.diag(explained.diagonal())
    values, U = np.linalg.eigh(np.eye(d) - explained)
    half = root @ (U * np.sqrt(np.maximum(values, least)))
    return ClassMoments(shares, means, half @ half.T)


def differences(
    moments: Any, white: np.ndarray, values: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shares times differences of means, where all records have variance 1, and their noise.

    Parameters
    ----------
    moments : ReleasedMoments
    white : ndarray of shape (n_features, n_features)
        The map to coordinates in which all records have variance 1.
    values : ndarray of shape (n_features,)
        Variances of these coordinates in units of those of the noise.
    shares : ndarray of shape (n_classes,)

    Returns
    -------
    between, noise : ndarray of shape (n_features, n_classes)
        The noise is a variance, of what was released and of sampling. Subtracting the mean over
        classes takes its part of the former; the latter has no mean.
    """
    d, K, n = moments.n_features, moments.n_targets, moments.n_samples
    unit, deviation = moments.noise
    between = moments.covariance[:d, d:]
    between = white @ (between - between.mean(axis=1, keepdims=True))
    released = 0.5 * (1.0 - 1.0 / K) * np.square(unit[d:] * deviation)
    return between, np.outer(1.0 / values, released) + shares * (1.0 - shares) / n


def pooled_covariance(features: Any, diagonal: bool) -> np.ndarray:
    """Covariance of all records, positive definite.

    Off-diagonal entries are shrunk by as much as noise and sampling explain their size: to 0 for
    uncorrelated features.
    """
    d, n, (unit, deviation) = features.n_features, features.n_samples, features.noise
    A = features.covariance / np.outer(unit, unit)
    variances = np.maximum(A.diagonal(), deviation)
    A = A - np.diag(A.diagonal())
    energy = float(np.square(A).sum())
    # For one column it is a difference of equal numbers, which rounding may make negative.
    sampling = (variances.sum() ** 2 - np.square(variances).sum()) / n
    by_chance = 0.5 * d * (d - 1) * deviation**2 + float(sampling)
    kept = 0.0 if diagonal or energy <= max(by_chance, 0.0) else 1.0 - by_chance / energy
    values, U = np.linalg.eigh(np.diag(variances) + kept * A)
    # What is smaller than the remaining noise cannot be told from 0.
    values = np.maximum(values, kept * deviation * np.sqrt(2.0 * d))
    return (U * values) @ U.T * np.outer(unit, unit)
