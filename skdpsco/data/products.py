"""Kernels that go over the rows of a design: products with coefficients, and sums of rows.

`dot_rows`, `norm_rows` and `add_rows` take a run of records, so that all three can be done while
the run is in the cache, and memory is read once. They clip the entries, but do not divide them by
their bounds: the caller divides one number per column instead of every entry.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import inlined, inlined_kernel, inner, njit, reduction
from skdpsco._typing import MatrixLike
from skdpsco.data.design import CSR, TILE_ROWS, CentredCSR, Dense, Tiles

__all__ = [
    "add_rows",
    "as_lengths",
    "as_sums",
    "as_vector",
    "common_bound",
    "correlate",
    "dot_and_norm_rows",
    "dot_rows",
    "norms_of",
    "predict_all",
    "run_room",
    "scaled_row_norms",
    "write_columns",
]

MAX_RUN = 64  # rows
LEAST_NORM = 2.0**-5  # of rows minus a centre, over that of the centre; rounding is far below
RUN_ENTRIES = 512  # number of entries in a run of dense rows, unless four rows have more


@inlined_kernel
def dot_rows(X, start, common, v, Z):
    """Write the products of m rows, from ``start`` on, with ``v`` into ``Z`` of shape (m, K).

    ``v`` holds K times the coefficients over the bounds, flat; ``common`` is `common_bound`.
    """
    raise NotImplementedError


@inlined_kernel
def square_row(X, i, u):
    """Squared l2 norm of row i with its entries times ``u``, excluding the one of an intercept."""
    raise NotImplementedError


@inner
def norm_rows(X, start, u, out):
    """Write the l2 norms of m rows, with their entries times ``u``, into ``out`` of shape (m,).

    The ones of an intercept count if ``u`` has an entry for them. With a centre, see `as_lengths`.
    """
    d = X.bounds.shape[0]
    one = u[d] * u[d] if u.shape[0] > d else 0.0
    least = LEAST_NORM * LEAST_NORM * one  # which only a centre can make larger than the sum
    for i in range(out.shape[0]):
        out[i] = math.sqrt(max(square_row(X, start + i, u) + one, least))


@inlined_kernel
def dot_and_norm_rows(X, start, common, v, u, Z, norms):
    """Combine `dot_rows` and `norm_rows`: each entry of a dense row is read and clipped once."""
    dot_rows(X, start, common, v, Z)
    norm_rows(X, start, u, norms)


@inlined_kernel
def add_rows(X, start, common, R, out):
    """Add ``R[i, k]`` times row ``start + i`` to the k-th part of the flat vector ``out``.

    Dense rows should be in the cache, as the rows of a run are; ``common`` is `common_bound`.
    """
    raise NotImplementedError


@inlined_kernel
def add_all_rows(X, common, R, out):
    """Do the same as `add_rows` for all records, which are not in the cache yet."""
    add_rows(X, 0, common, R, out)


@inlined_kernel
def write_columns(X, start, size, u, V):
    """Write ``size`` rows, their entries times ``u``, as the first columns of ``V``.

    The ones of an intercept are written, too; dense records only, at most `TILE_ROWS` of them. Of
    tiles, ``start`` is the first record of one, and zeros follow.
    """
    raise NotImplementedError


@inner
def _add_ones(X, R, out):
    d = X.bounds.shape[0]
    if X.intercept:
        for i in range(R.shape[0]):
            for k in range(R.shape[1]):
                out[k * (d + 1) + d] += R[i, k]


@inner
def common_bound(X):
    """Return the bound that all columns share, or 0; it saves a lookup per entry."""
    for j in range(X.bounds.shape[0]):
        if X.bounds[j] != X.bounds[0]:
            return 0.0
    return X.bounds[0]


@inner
def over_bounds(X, v):
    """Divide the flat coefficients ``v`` of features by the features' bounds, in place."""
    d = X.bounds.shape[0]
    D = d + X.intercept
    for start in range(0, v.shape[0], D):
        for j in range(d):
            v[start + j] /= X.bounds[j]


def predict_all(X: Any, w: np.ndarray, Z: np.ndarray) -> None:
    """Write the predictions ``X W`` into ``Z`` of shape (n, K); ``w`` is flat."""
    multiply_rows(X, as_vector(w, X), Z)


@njit
def multiply_rows(X, v, Z):
    """Apply `dot_rows` to all records."""
    dot_rows(X, 0, common_bound(X), v, Z)


@njit
def norms_of(X, u, out):
    """Apply `norm_rows` to all records."""
    norm_rows(X, 0, u, out)


@inner
def correlate(X, R, out):
    """Write ``X' R``, flat: the sum over records of features times R, of shape (n, K)."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    add_all_rows(X, common_bound(X), R, out)
    over_bounds(X, out)


@inner
def scaled_row_norms(X, scale, out):
    """Write the l2 norm of every record's features divided by ``scale``.

    The ones of an intercept count if ``scale`` has an entry for them.
    """
    u = 1.0 / scale
    for j in range(X.bounds.shape[0]):
        u[j] /= X.bounds[j]
    norm_rows(X, 0, u, out)


# Rows are read one after the other, which is the fastest way to read memory. The rows of a run are
# added four at a time, so that the sums are read and written once per four rows. Functions take the
# array and a row number, because Numba would count references to a view of each row.


@reduction
def _dot_dense(values, bounds, start, v, first, constant, Z, k):
    for i in range(Z.shape[0]):
        total = 0.0
        for j in range(bounds.shape[0]):
            total += clip(values[start + i, j], bounds[j]) * v[np.uint64(first + j)]
        Z[i, k] = total + constant


@reduction
def _square_one(values, i, bounds, u):
    total = 0.0
    for j in range(bounds.shape[0]):
        x = clip(values[i, j], bounds[j]) * u[j]
        total += x * x
    return total


@reduction
def _add_four(values, i, bounds, weights, out, first):
    a, b, c, e = weights
    for j in range(bounds.shape[0]):
        out[np.uint64(first + j)] += (
            a * clip(values[i, j], bounds[j])
            + b * clip(values[i + 1, j], bounds[j])
            + (c * clip(values[i + 2, j], bounds[j]) + e * clip(values[i + 3, j], bounds[j]))
        )


@reduction
def _add_one(values, i, bounds, a, out, first):
    for j in range(bounds.shape[0]):
        out[np.uint64(first + j)] += a * clip(values[i, j], bounds[j])


@dot_rows.register(Dense)
def _(X, start, common, v, Z):
    d = X.bounds.shape[0]
    D = d + X.intercept
    for k in range(Z.shape[1]):
        constant = v[k * D + d] if X.intercept else 0.0
        _dot_dense(X.values, X.bounds, start, v, k * D, constant, Z, k)


@reduction
def _dot_and_square(values, i, bounds, v, u):
    total = square = 0.0
    for j in range(bounds.shape[0]):
        x = clip(values[i, j], bounds[j])
        total += x * v[j]
        x *= u[j]
        square += x * x
    return total, square


@dot_and_norm_rows.register(Dense)
def _(X, start, common, v, u, Z, norms):
    d = X.bounds.shape[0]
    if Z.shape[1] > 1:
        dot_rows(X, start, common, v, Z)
        norm_rows(X, start, u, norms)
        return
    constant = v[d] if X.intercept else 0.0
    one = u[d] * u[d] if u.shape[0] > d else 0.0
    for i in range(Z.shape[0]):
        total, square = _dot_and_square(X.values, start + i, X.bounds, v, u)
        Z[i, 0] = total + constant
        norms[i] = math.sqrt(square + one)


@square_row.register(Dense)
def _(X, i, u):
    return _square_one(X.values, i, X.bounds, u)


@add_rows.register(Dense)
def _(X, start, common, R, out):
    d = X.bounds.shape[0]
    D = d + X.intercept
    m = R.shape[0]
    even = m - m % 4
    for k in range(R.shape[1]):
        for i in range(0, even, 4):
            weights = R[i, k], R[i + 1, k], R[i + 2, k], R[i + 3, k]
            _add_four(X.values, start + i, X.bounds, weights, out, k * D)
        for i in range(even, m):
            _add_one(X.values, start + i, X.bounds, R[i, k], out, k * D)
    _add_ones(X, R, out)


@add_all_rows.register(Dense)
def _(X, common, R, out):
    D = X.bounds.shape[0] + X.intercept
    for start in range(0, R.shape[0], MAX_RUN):
        for k in range(R.shape[1]):
            for i in range(start, min(start + MAX_RUN, R.shape[0])):
                _add_one(X.values, i, X.bounds, R[i, k], out, k * D)
    _add_ones(X, R, out)


@write_columns.register(Dense)
def _(X, start, size, u, V):
    d = X.bounds.shape[0]
    for i in range(size):
        for j in range(d):
            V[j, i] = clip(X.values[start + i, j], X.bounds[j]) * u[j]
        if X.intercept:
            V[d, i] = u[d]


# Indices are unsigned, because Numba checks signed ones for negative values. These functions are
# not a `reduction`, because gathering numbers into vectors is slower than loading them one by one.


@inner
def _dot_sparse(X, start, common, v, constant, Z, k):
    data, indices, indptr, bounds, _ = X
    for i in range(Z.shape[0]):
        first, last = np.uint64(indptr[start + i]), np.uint64(indptr[start + i + 1])
        total = constant
        if common > 0.0:
            for p in range(first, last):
                total += clip(data[p], common) * v[np.uint64(indices[p])]
        else:
            for p in range(first, last):
                j = np.uint64(indices[p])
                total += clip(data[p], bounds[j]) * v[j]
        Z[i, k] = total


@inner
def _add_sparse(X, start, common, R, k, out):
    data, indices, indptr, bounds, _ = X
    for i in range(R.shape[0]):
        first, last = np.uint64(indptr[start + i]), np.uint64(indptr[start + i + 1])
        r = R[i, k]
        if common > 0.0:
            for p in range(first, last):
                out[np.uint64(indices[p])] += r * clip(data[p], common)
        else:
            for p in range(first, last):
                j = np.uint64(indices[p])
                out[j] += r * clip(data[p], bounds[j])


@dot_rows.register(CSR)
def _(X, start, common, v, Z):
    d = X.bounds.shape[0]
    D = d + X.intercept
    for k in range(Z.shape[1]):
        constant = v[k * D + d] if X.intercept else 0.0
        mine = v[k * D : k * D + d]
        _dot_sparse(X, start, common, mine, constant, Z, k)


@add_rows.register(CSR)
def _(X, start, common, R, out):
    d = X.bounds.shape[0]
    D = d + X.intercept
    for k in range(R.shape[1]):
        mine = out[k * D : k * D + d]
        _add_sparse(X, start, common, R, k, mine)
    _add_ones(X, R, out)


@square_row.register(CSR)
def _(X, i, u):
    total = 0.0
    for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
        j = np.uint64(X.indices[p])
        x = clip(X.data[p], X.bounds[j]) * u[j]
        total += x * x
    return total


# Entries of rows minus a centre are already clipped. The centre itself is part of what is
# multiplied with the ones: the coefficients of `as_vector`, the lengths of `as_lengths`, the sums
# of `as_sums`.


@dot_rows.register(CentredCSR)
def _(X, start, common, v, Z):
    d = X.bounds.shape[0]
    for k in range(Z.shape[1]):
        mine = v[k * (d + 1) : (k + 1) * (d + 1)]
        for i in range(Z.shape[0]):
            total = mine[d]
            for p in range(np.uint64(X.indptr[start + i]), np.uint64(X.indptr[start + i + 1])):
                total += X.data[p] * mine[np.uint64(X.indices[p])]
            Z[i, k] = total


@add_rows.register(CentredCSR)
def _(X, start, common, R, out):
    d = X.bounds.shape[0]
    for k in range(R.shape[1]):
        mine = out[k * (d + 1) : (k + 1) * (d + 1)]
        for i in range(R.shape[0]):
            for p in range(np.uint64(X.indptr[start + i]), np.uint64(X.indptr[start + i + 1])):
                mine[np.uint64(X.indices[p])] += R[i, k] * X.data[p]
    _add_ones(X, R, out)


@square_row.register(CentredCSR)
def _(X, i, u):
    total = 0.0
    for p in range(np.uint64(X.indptr[i]), np.uint64(X.indptr[i + 1])):
        j = np.uint64(X.indices[p])
        total += X.data[p] * (X.data[p] - 2.0 * X.centre[j]) * (u[j] * u[j])
    return total


# Entries of tiles are already clipped. The sums of a record are added column by column, without a
# change of order, so that they do not depend on its place in a tile. Runs begin with a tile.


@inlined
def _score_tile(values, t, v, Z, constant):
    d, m = values.shape[1], Z.shape[0]
    fours = d - d % 4
    for i in range(m):
        Z[i, 0] = constant
    for j in range(0, fours, 4):
        a, b, c, e = v[j], v[j + 1], v[j + 2], v[j + 3]
        for i in range(m):
            total = Z[i, 0] + a * values[t, j, i] + b * values[t, j + 1, i]
            Z[i, 0] = total + c * values[t, j + 2, i] + e * values[t, j + 3, i]
    for j in range(fours, d):
        for i in range(m):
            Z[i, 0] += v[j] * values[t, j, i]


@reduction
def _add_tile(values, t, R, out, intercept):
    d = values.shape[1]
    fours = d - d % 4
    for j in range(0, fours, 4):
        a = b = c = e = 0.0
        for i in range(R.shape[0]):
            a += R[i, 0] * values[t, j, i]
            b += R[i, 0] * values[t, j + 1, i]
            c += R[i, 0] * values[t, j + 2, i]
            e += R[i, 0] * values[t, j + 3, i]
        out[j] += a
        out[j + 1] += b
        out[j + 2] += c
        out[j + 3] += e
    for j in range(fours, d):
        a = 0.0
        for i in range(R.shape[0]):
            a += R[i, 0] * values[t, j, i]
        out[j] += a
    if intercept:
        for i in range(R.shape[0]):
            out[d] += R[i, 0]


@dot_rows.register(Tiles)
def _(X, start, common, v, Z):
    d = X.bounds.shape[0]
    constant = v[d] if X.intercept else 0.0
    for first in range(0, Z.shape[0], TILE_ROWS):
        t = np.uint64((start + first) // TILE_ROWS)
        _score_tile(X.values, t, v, Z[first : first + TILE_ROWS], constant)


@dot_and_norm_rows.register(Tiles)
def _(X, start, common, v, u, Z, norms):
    values, d, m, t = X.values, X.bounds.shape[0], Z.shape[0], np.uint64(start // TILE_ROWS)
    even = d - d % 2
    constant = v[d] if X.intercept else 0.0
    one = u[d] * u[d] if u.shape[0] > d else 0.0
    for i in range(m):
        Z[i, 0], norms[i] = constant, one
    for j in range(0, even, 2):
        a, b, p, q = v[j], v[j + 1], u[j], u[j + 1]
        for i in range(m):
            x, y = values[t, j, i], values[t, j + 1, i]
            Z[i, 0] = Z[i, 0] + a * x + b * y
            r, s = p * x, q * y
            norms[i] = norms[i] + r * r + s * s
    for j in range(even, d):
        for i in range(m):
            Z[i, 0] += v[j] * values[t, j, i]
            r = u[j] * values[t, j, i]
            norms[i] += r * r
    for i in range(m):
        norms[i] = math.sqrt(norms[i])


@add_rows.register(Tiles)
def _(X, start, common, R, out):
    _add_tile(X.values, np.uint64(start // TILE_ROWS), R, out, X.intercept)


@write_columns.register(Tiles)
def _(X, start, size, u, V):
    d, t = X.bounds.shape[0], np.uint64(start // TILE_ROWS)
    for j in range(d):
        for i in range(TILE_ROWS):
            V[j, i] = X.values[t, j, i] * u[j]
    if X.intercept:
        for i in range(size):
            V[d, i] = u[d]


class RunRoom(NamedTuple):
    """Work space for a run of records.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_outputs)
    numbers : ndarray of shape (n_rows,)
    """

    Z: np.ndarray
    numbers: np.ndarray


def run_room(X: MatrixLike, n_outputs: int) -> RunRoom:
    """Work space for runs of rows that fit into the fastest cache; their length was measured."""
    if isinstance(X, Tiles):
        return RunRoom(np.empty((TILE_ROWS, n_outputs)), np.empty(TILE_ROWS))
    rows = RUN_ENTRIES // len(X.bounds) // 4 * 4 if isinstance(X, Dense) else 32
    rows = min(max(rows, 4), MAX_RUN)
    return RunRoom(np.empty((rows, n_outputs)), np.empty(rows))


def as_vector(coefficients: np.ndarray, X: MatrixLike) -> np.ndarray:
    """Return a copy of the coefficients, divided by the bounds, for `dot_rows`."""
    d = len(X.bounds)
    v = coefficients.reshape(-1, d + X.intercept).copy()
    v[:, :d] /= X.bounds
    if isinstance(X, CentredCSR):
        v[:, d] -= v[:, :d] @ X.centre
    return v.ravel()


def as_sums(total: np.ndarray, X: Any) -> np.ndarray:
    """Sums over rows, from what `add_rows` has written."""
    d = len(X.bounds)
    sums = total.reshape(-1, d + X.intercept).copy()
    sums[:, :d] /= X.bounds
    if isinstance(X, CentredCSR):
        sums[:, :d] -= np.outer(sums[:, d], X.centre)
    return sums.ravel()


def as_lengths(unit: np.ndarray, X: Any) -> np.ndarray:
    """The multipliers that `norm_rows` takes for norms of rows whose entries are times ``unit``.

    With a centre, the entry of the ones stands for the squared norm of the centre, too.
    """
    d = len(X.bounds)
    u = unit.copy()
    u[:d] /= X.bounds
    if isinstance(X, CentredCSR):
        u[d] = math.sqrt(u[d] * u[d] + float(np.square(X.centre * u[:d]).sum()))
    return u
