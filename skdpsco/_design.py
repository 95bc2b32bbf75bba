"""The data as kernels see it: dense or CSR, clipped into the declared bounds on the way.

Kernels see features in [-1, 1]: entry ``x_ij`` is clipped to ``[-b_j, b_j]`` and divided by ``b_j``
wherever it is read, so no clipped copy exists. With an intercept, a last column of ones follows.
Predictions have shape (n, n_outputs). Coefficients are flat: feature j of output k stands at
``k * n_features + j``, the ones included in n_features.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from skdpsco._kernels import inner, kernel, njit


class Dense(NamedTuple):
    """A C-ordered float64 array, its feature bounds, and 1 if a column of ones follows, else 0."""

    values: np.ndarray
    bounds: np.ndarray
    intercept: int


class CSR(NamedTuple):
    """Compressed sparse rows, the feature bounds, and 1 if a column of ones follows, else 0."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    bounds: np.ndarray
    intercept: int


@njit
def is_canonical(indices, indptr, n_columns):
    """Whether the columns of every row increase strictly and exist."""
    if indptr[0] != 0:
        return False
    for i in range(indptr.shape[0] - 1):
        if indptr[i + 1] < indptr[i] or indptr[i + 1] > indices.shape[0]:
            return False
        for p in range(indptr[i], indptr[i + 1]):
            if indices[p] < 0 or indices[p] >= n_columns:
                return False
            if p > indptr[i] and indices[p] <= indices[p - 1]:
                return False
    return True


def as_design(X, bounds: np.ndarray, intercept: bool) -> Dense | CSR:
    """Wrap a validated float64 array or CSR matrix, without a copy where possible.

    Raises
    ------
    ValueError
        If a CSR matrix has columns that do not exist, or arrays whose lengths disagree.
    """
    if not sparse.issparse(X):
        return Dense(np.ascontiguousarray(X), bounds, int(intercept))
    # Two entries of one cell would be clipped one by one, and their sum exceed the bound. SciPy's
    # own flag is not asked: it is cached, and stale after the arrays were edited.
    lengths = len(X.data) == len(X.indices) and len(X.indptr) == X.shape[0] + 1
    if not (lengths and is_canonical(X.indices, X.indptr, X.shape[1])):
        try:
            X = sparse.csr_matrix((X.data.copy(), X.indices.copy(), X.indptr.copy()), shape=X.shape)
            X.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"X is not a valid CSR matrix: {error}") from error
        X.has_sorted_indices = X.has_canonical_format = False
        X.sum_duplicates()
        if not np.isfinite(X.data).all():
            raise ValueError("X has duplicate entries whose sum is infinite.")
    return CSR(X.data, X.indices, X.indptr, bounds, int(intercept))


@kernel
def correlate(X, R, out):
    """Write ``X' R``, flat: the sum over records of feature times R, ``R`` of shape (n, K)."""
    raise NotImplementedError


@kernel
def add_column(X, j, step, Z, k):
    """``Z[:, k] += step * column j``."""
    raise NotImplementedError


@kernel
def predict(X, w, Z):
    """Write the predictions ``X W`` into ``Z`` of shape (n, K), ``w`` flat."""
    raise NotImplementedError


@kernel
def gather(X, start, columns, position, out):
    """Write records ``start, start + 1, ...``, restricted to ``columns``, into dense ``out``.

    ``position[j]`` is the place of column j among ``columns``, or -1.
    """
    raise NotImplementedError


@inner
def clip_scale(x, b):
    """Clip ``x`` to ``[-b, b]`` and divide by ``b``."""
    return min(max(x, -b), b) / b


@correlate.register(Dense)
def _(X, R, out):
    n, d = X.values.shape
    D = d + X.intercept
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(n):
        for k in range(R.shape[1]):
            r = R[i, k]
            for j in range(d):
                out[k * D + j] += r * min(max(X.values[i, j], -X.bounds[j]), X.bounds[j])
            if X.intercept:
                out[k * D + d] += r
    for k in range(R.shape[1]):
        for j in range(d):
            out[k * D + j] /= X.bounds[j]


@correlate.register(CSR)
def _(X, R, out):
    d = X.bounds.shape[0]
    D = d + X.intercept
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(X.indptr.shape[0] - 1):
        for k in range(R.shape[1]):
            r = R[i, k]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                j = X.indices[p]
                out[k * D + j] += r * min(max(X.data[p], -X.bounds[j]), X.bounds[j])
            if X.intercept:
                out[k * D + d] += r
    for k in range(R.shape[1]):
        for j in range(d):
            out[k * D + j] /= X.bounds[j]


@add_column.register(Dense)
def _(X, j, step, Z, k):
    for i in range(Z.shape[0]):
        if j == X.bounds.shape[0]:
            Z[i, k] += step
        else:
            Z[i, k] += step * clip_scale(X.values[i, j], X.bounds[j])


@add_column.register(CSR)
def _(X, j, step, Z, k):
    for i in range(Z.shape[0]):
        if j == X.bounds.shape[0]:
            Z[i, k] += step
        else:
            for p in range(X.indptr[i], X.indptr[i + 1]):
                if X.indices[p] == j:  # one entry at most: the matrix is canonical
                    Z[i, k] += step * clip_scale(X.data[p], X.bounds[j])


@predict.register(Dense)
def _(X, w, Z):
    n, d = X.values.shape
    D = d + X.intercept
    for i in range(n):
        for k in range(Z.shape[1]):
            z = w[k * D + d] if X.intercept else 0.0
            for j in range(d):
                z += clip_scale(X.values[i, j], X.bounds[j]) * w[k * D + j]
            Z[i, k] = z


@predict.register(CSR)
def _(X, w, Z):
    d = X.bounds.shape[0]
    D = d + X.intercept
    for i in range(X.indptr.shape[0] - 1):
        for k in range(Z.shape[1]):
            z = w[k * D + d] if X.intercept else 0.0
            for p in range(X.indptr[i], X.indptr[i + 1]):
                j = X.indices[p]
                z += clip_scale(X.data[p], X.bounds[j]) * w[k * D + j]
            Z[i, k] = z


@gather.register(Dense)
def _(X, start, columns, position, out):
    d = X.bounds.shape[0]
    for c in range(columns.shape[0]):
        j = columns[c]
        if j == d:
            for i in range(out.shape[0]):
                out[i, c] = 1.0
        else:
            b = X.bounds[j]
            for i in range(out.shape[0]):
                out[i, c] = clip_scale(X.values[start + i, j], b)


@gather.register(CSR)
def _(X, start, columns, position, out):
    d = X.bounds.shape[0]
    for i in range(out.shape[0]):
        for c in range(columns.shape[0]):
            out[i, c] = 0.0 if columns[c] < d else 1.0
        for p in range(X.indptr[start + i], X.indptr[start + i + 1]):
            j = X.indices[p]
            if position[j] >= 0:
                out[i, position[j]] = clip_scale(X.data[p], X.bounds[j])
