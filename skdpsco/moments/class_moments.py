"""Normal classes, from released moments of features and indicators; docs/proofs/private_moments.md.

Nothing here sees data.
"""

from typing import Any, NamedTuple

import numpy as np

LEAST_WITHIN = 0.05  # least variance within classes in any direction, over that of all records


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
    """What moments of features and of indicators, the targets, say of the classes.

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
    total = moments.features_alone().repaired()
    if diagonal:
        total = np.diag(total.diagonal())
    values, U = np.linalg.eigh(total / np.outer(unit[:d], unit[:d]))
    root = U * np.sqrt(values) * unit[:d, None]  # root @ root.T is the covariance
    white = (U / np.sqrt(values)).T / unit[:d]  # its inverse
    # Shares times differences of means, in coordinates in which all records have variance 1.
    between = moments.covariance[:d, d:]
    between = white @ (between - between.mean(axis=1, keepdims=True))
    noise = np.outer(0.5 / values, np.square(unit[d:] * deviation)) + shares * (1.0 - shares) / n
    # What is left of normal numbers of a variance that those tell best which have little noise.
    weights = noise**-2.0 / (noise**-2.0).sum(axis=0)
    signal = np.maximum((weights * (np.square(between) - noise)).sum(axis=0), 0.0)
    between = between * signal / (signal + noise)
    means = moments.mean[:d] + (root @ (between / shares)).T
    explained = (between / shares) @ between.T
    if diagonal:
        explained = np.diag(explained.diagonal())
    values, U = np.linalg.eigh(np.eye(d) - explained)
    half = root @ (U * np.sqrt(np.maximum(values, LEAST_WITHIN)))
    return ClassMoments(shares, means, half @ half.T)
