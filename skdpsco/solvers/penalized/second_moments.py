"""Conversion of second-moment matrices to vectors for their release, and back."""

import math

import numpy as np

__all__ = ["positive_definite", "symmetric", "upper_triangle"]


def upper_triangle(M: np.ndarray) -> np.ndarray:
    """Entries on and above the diagonal; their l2 norm is the Frobenius norm of ``M``."""
    upper, weight = _layout(len(M))
    return M[upper] * weight


def symmetric(entries: np.ndarray) -> np.ndarray:
    """The matrix of an `upper_triangle`."""
    F = math.isqrt(2 * len(entries))
    upper, weight = _layout(F)
    M = np.zeros((F, F))
    M[upper] = entries / weight
    return M + np.triu(M, 1).T


def positive_definite(entries: np.ndarray, deviation: float, ridge: float = 1.0) -> np.ndarray:
    """Compute a positive definite matrix from a noisy `upper_triangle`, by post-processing.

    ``deviation`` is that of the noise in every entry; ``ridge`` is in units of the noise's spectral
    norm.
    """
    M = symmetric(entries)
    F = len(M)
    values, U = np.linalg.eigh(M)
    # The noise has a spectral norm of about deviation * sqrt(2 F), below which nothing is known.
    ridge *= deviation * math.sqrt(2.0 * F)
    return (U * (np.maximum(values, 0.0) + ridge)) @ U.T


def _layout(F: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Indices of the upper triangle, and the weights of its entries."""
    upper = np.triu_indices(F)
    return upper, np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
