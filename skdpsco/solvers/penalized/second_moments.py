"""Sums of second moments, and their conversion to vectors for a release, and back.

Proof of the bounds on rounding: docs/proofs/noise.md, section 8.
"""

import math
from contextlib import nullcontext

import numpy as np

from skdpsco._kernels import inner, reduction
from skdpsco.data.design import TILE_ROWS
from skdpsco.data.pieces import LEAST_WORK
from skdpsco.data.record_sums import one_blas_thread

__all__ = [
    "add_outer",
    "moved_by_one",
    "positive_definite",
    "run_of_columns",
    "single_pays",
    "symmetric",
    "upper_triangle",
]

FEW_COLUMNS = 256  # threads do not make BLAS faster at matrices of this size

SINGLE_SIZE = 1.0 + 2.0**-22  # of a squared norm of numbers that were rounded
SINGLE_ERROR = 2.0 * (TILE_ROWS + 1) * TILE_ROWS * 2.0**-24 * 1.001  # of two sums over a run


def single_pays(n_samples: int, n_columns: int, added: bool) -> bool:
    """Whether runs are in single precision: in large tables whose records are replaced; public."""
    return not added and n_samples * n_columns >= LEAST_WORK


def moved_by_one(size: float, added: bool, single: bool) -> tuple[float, float]:
    """Bounds for sums of v v', of squared norm ``size``, in runs of single precision or not.

    Returns
    -------
    size : float
        Bound on the Frobenius norm of a record's matrix, as computed.
    change : float
        Bound on how far one record moves the sum, before additions in float64 are rounded.

    Raises
    ------
    ValueError
        If runs are in single precision and records are added: those behind come to other runs.
    """
    if single and added:
        raise ValueError("single must be False where records are added.")
    if single:
        size *= SINGLE_SIZE
    change = 1.0 if added else math.sqrt(2.0)
    return size, (change + single * SINGLE_ERROR) * size


def run_of_columns(n_columns: int, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """Room for a run of records, column by column, and zeros that `add_outer` adds to.

    Both have an even number of columns.
    """
    even = n_columns + n_columns % 2
    run = np.zeros((even, TILE_ROWS), np.float32 if single else np.float64)
    return run, np.zeros((even, even))


@inner
def add_outer(V, out):
    """Add V V' to ``out``, on and above the diagonal, for a `run_of_columns`."""
    for j in range(0, V.shape[0], 2):
        for k in range(j, V.shape[0], 2):
            a, b, p, q = _four_products(V, j, k)
            out[j, k] += a
            out[j, k + 1] += b
            out[j + 1, k] += p
            out[j + 1, k + 1] += q


@reduction
def _four_products(V, j, k):
    a = b = p = q = V.dtype.type(0.0)
    for i in range(TILE_ROWS):  # of a length that is known when this is compiled
        a += V[j, i] * V[k, i]
        b += V[j, i] * V[k + 1, i]
        p += V[j + 1, i] * V[k, i]
        q += V[j + 1, i] * V[k + 1, i]
    return a, b, p, q


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
    with one_blas_thread() if F <= FEW_COLUMNS else nullcontext():
        values, U = np.linalg.eigh(M)
    # The noise has a spectral norm of about deviation * sqrt(2 F), below which nothing is known.
    ridge *= deviation * math.sqrt(2.0 * F)
    return (U * (np.maximum(values, 0.0) + ridge)) @ U.T


def _layout(F: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Indices of the upper triangle, and the weights of its entries."""
    upper = np.triu_indices(F)
    return upper, np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
