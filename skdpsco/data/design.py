"""The data as kernels see it: dense or CSR, clipped into the declared bounds when it is read.

Kernels see features in [-1, 1]: entry ``x_ij`` is clipped to ``[-b_j, b_j]`` and divided by ``b_j``
wherever it is read. So the only clipped copy is that of `as_columns`, for solvers that go column by
column. With an intercept, the last column consists of ones.
Predictions have shape (n, n_outputs). Coefficients are flat: feature j of output k stands at
``k * n_features + j``, the ones included in n_features.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco._kernels import kernel
from skdpsco._typing import MatrixLike
from skdpsco._validation import check_sparse

__all__ = [
    "CSC",
    "CSR",
    "GATHERED_ROWS",
    "TILE_ROWS",
    "CentredCSR",
    "CentredDense",
    "Columns",
    "Dense",
    "Tiles",
    "add_column",
    "as_columns",
    "as_design",
    "as_matrix",
    "clipped",
    "clipped_rows",
    "columns_of",
    "read_only",
    "sparse_columns_of",
]

GATHERED_ROWS = 1024  # records in a dense copy, few enough to stay in the cache


class Dense(NamedTuple):
    """A C-ordered float array, the feature bounds, and 1 if a column of ones follows, or 0."""

    values: np.ndarray
    bounds: np.ndarray
    intercept: int


class CentredDense(NamedTuple):
    """`Dense` minus a centre, in units of the bounds, and clipped to [-1, 1] again.

    Only `skdpsco.data.record_stream` reads it: no copy pays for rows that are read once.
    """

    values: np.ndarray
    bounds: np.ndarray
    intercept: int
    centre: np.ndarray


class CSR(NamedTuple):
    """Compressed sparse rows, the feature bounds, and 1 if a column of ones follows, or 0."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    bounds: np.ndarray
    intercept: int


class CentredCSR(NamedTuple):
    """Sparse rows minus a dense one, with a column of ones; ``data`` is already clipped and scaled.

    Only sums of gradients, predictions and `columns_of` can read it: products with the ones include
    the centre.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    bounds: np.ndarray  # ones
    intercept: int  # 1
    centre: np.ndarray


TILE_ROWS = 64  # records in a tile


class Tiles(NamedTuple):
    """Clipped features of dense records in another order: a few records at a time, by columns.

    Sums over records, and over the columns of many records at once, are fast in this order. Only
    sums of gradients, predictions, for one output, and `columns_of` can read it.

    Parameters
    ----------
    values : ndarray of shape (n_tiles, n_features, TILE_ROWS)
        Record i is in tile ``i // TILE_ROWS``. Zeros stand behind the last record.
    bounds : ndarray of shape (n_features,)
    intercept : int
    """

    values: np.ndarray
    bounds: np.ndarray
    intercept: int


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that nobody can write to.

    Numba compiles kernels separately for read-only arrays, such as memory maps. All designs of this
    package hold read-only arrays, so that each kernel is compiled once.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def as_design(
    X: MatrixLike, bounds: np.ndarray, intercept: bool, checked: bool = False
) -> Dense | CSR:
    """Wrap a validated floating-point array or CSR matrix, without a copy where possible.

    ``checked`` says that the matrix is known to be valid and canonical.

    Raises
    ------
    ValueError
        If a CSR matrix has columns that do not exist, or arrays whose lengths disagree.
    """
    if not sparse.issparse(X):
        return Dense(read_only(np.ascontiguousarray(X)), bounds, int(intercept))
    if checked:
        data, indices, indptr = map(read_only, (X.data, X.indices, X.indptr))
        return CSR(data, indices, indptr, bounds, int(intercept))
    fresh = check_sparse(X)
    native = X.data.dtype.isnative and X.indices.dtype.isnative and X.indptr.dtype.isnative
    if not native or len(X.data) != len(fresh.data):
        X = fresh  # use the arrays that were checked: Numba would not swap bytes
    if not fresh.has_canonical_format:
        # Two entries of one cell would be clipped separately, and their sum might exceed the bound.
        X = fresh.copy()
        X.sum_duplicates()
        if not np.isfinite(X.data).all():
            raise ValueError("X has duplicate entries whose sum is infinite.")
    return as_design(X, bounds, intercept, checked=True)


class Columns(NamedTuple):
    """Dense features column by column, as kernels see them: shape (n_features, n)."""

    values: np.ndarray


class CSC(NamedTuple):
    """Compressed sparse columns of the features as kernels see them, of n records."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n: int


def as_columns(X: Dense | CSR) -> Columns | CSC:
    """Return a clipped and scaled copy, column by column, with the ones of an intercept."""
    d = len(X.bounds)
    if isinstance(X, Dense):
        n = len(X.values)
        values = np.empty((d + X.intercept, n))
        for start in range(0, n, GATHERED_ROWS):
            stop = min(start + GATHERED_ROWS, n)
            values[:, start:stop] = columns_of(X, start, stop, np.arange(len(values))).T
        return Columns(values)
    n = len(X.indptr) - 1
    by_column = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(n, d)).tocsc()
    data = clipped(by_column.data, X.bounds.repeat(np.diff(by_column.indptr)))
    indices, indptr = by_column.indices, by_column.indptr
    if X.intercept:
        data = np.concatenate([data, np.ones(n)])
        indices = np.concatenate([indices, np.arange(n, dtype=indices.dtype)])
        indptr = np.append(indptr, len(data))
    return CSC(data, indices, indptr, n)


def as_matrix(X: CSR) -> Any:
    """The entries as SciPy's matrix."""
    shape = len(X.indptr) - 1, len(X.bounds)
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=shape)


def clipped(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Clip ``x`` to ``[-b, b]`` and divide by ``b``."""
    return np.fmax(np.fmin(x, b), -b) / b  # NaN becomes b, as it does in kernels


def columns_of(X: Any, start: int, stop: int, columns: np.ndarray) -> np.ndarray:
    """Return a dense copy of increasing ``columns`` of some records, as kernels see them.

    X is any design. Of tiles, ``start`` is the first record of one.
    """
    d = len(X.bounds)
    given = columns[columns < d]
    if isinstance(X, Tiles):
        some = X.values[start // TILE_ROWS : -(-stop // TILE_ROWS)]
        some = some if len(given) == d else some[:, given]
        x = some.transpose(0, 2, 1).reshape(-1, len(given))[: stop - start]
    elif isinstance(X, Dense):
        x = X.values[start:stop]
        x = x if len(given) == d else x[:, given]  # a copy takes longer than all else
    else:
        indptr = X.indptr[start : stop + 1]
        entries = slice(indptr[0], indptr[-1])
        rows = (X.data[entries], X.indices[entries], indptr - indptr[0])
        x = sparse.csr_matrix(rows, shape=(len(indptr) - 1, d))[:, given].toarray()
        if isinstance(X, CentredCSR):
            x -= X.centre[given]
    out = np.ones((len(x), len(columns)))
    out[:, : len(given)] = clipped(x, X.bounds[given])
    return out


def clipped_rows(X: Dense | CSR) -> Any:
    """Return a copy of all records as kernels see them, for solvers that read them often."""
    d = len(X.bounds)
    if isinstance(X, Dense):
        rows, columns = np.empty((len(X.values), d + X.intercept)), np.arange(d + X.intercept)
        for start in range(0, len(rows), GATHERED_ROWS):
            stop = start + GATHERED_ROWS
            rows[start:stop] = columns_of(X, start, stop, columns)
        return rows
    return sparse_columns_of(X, np.arange(d + X.intercept))


def sparse_columns_of(X: CSR, columns: np.ndarray) -> Any:
    """Return a sparse copy of increasing ``columns`` of all records, as kernels see them."""
    n, d = len(X.indptr) - 1, len(X.bounds)
    given = columns[columns < d]
    wanted = np.zeros(d, dtype=bool)
    wanted[given] = True
    kept = np.flatnonzero(wanted[X.indices[: X.indptr[-1]]])  # faster than SciPy's X[:, given]
    places = X.indices[kept]
    values = clipped(X.data[kept], X.bounds[places])
    indices = np.searchsorted(given, places).astype(X.indices.dtype)
    indptr = np.searchsorted(kept, X.indptr).astype(X.indptr.dtype)
    rows = sparse.csr_array((values, indices, indptr), shape=(n, len(given)))
    if len(given) == len(columns):
        return rows
    return sparse.csr_array(sparse.hstack([rows, np.ones((n, 1))]))


@kernel
def add_column(X, j, step, Z, k):
    """``Z[:, k] += step * column j``."""
    raise NotImplementedError


@add_column.register(Columns)
def _(X, j, step, Z, k):
    x, z = X.values[j], Z[:, k]
    for i in range(x.shape[0]):
        z[i] += step * x[i]


@add_column.register(CSC)
def _(X, j, step, Z, k):
    for p in range(X.indptr[j], X.indptr[j + 1]):
        Z[X.indices[p], k] += step * X.data[p]
