"""Records one by one: rows as kernels see them, and the order of the rows in one pass.

A kernel that goes through the records once is called for one chunk ``(X, y, rows)`` at a time, and
takes the records in the order of ``rows``. `Records` cuts arrays into chunks, and `Blocks` blocks.
The state that a kernel carries from one chunk to the next must not depend on where the chunks are
cut.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir  # Numba's own
from numba import types
from numba.extending import intrinsic, overload

from skdpsco._clipping import clip
from skdpsco._kernels import inlined, inlined_kernel, inner, kernel, njit, reduction
from skdpsco._random import next_uint64
from skdpsco.data.design import CSR, CentredDense, Dense
from skdpsco.data.record_sums import BlockDesign

__all__ = ["add_row", "fetch_row", "one_pass", "predict_row", "read_row", "row_room"]

CHUNK_RECORDS = 8192  # largest number of records in a chunk
_ROUNDS = 6  # with 4, adjacent records stay adjacent one and a half times as often as by chance
_LINE = 64  # bytes of a cache line
AHEAD = 4  # number of records between `fetch_row` and `read_row`

Chunk = tuple[Dense | CentredDense | CSR, np.ndarray, np.ndarray]


@inner
def row_room(X, row_norm):
    """Arguments and buffers of kernels that read rows: ``read_row(X, i, *row_room(X, row_norm))``.

    Rows with a larger l2 norm than ``row_norm``, not counting the one of an intercept, are
    shortened to it.

    Returns
    -------
    inverse : ndarray of shape (n_features,)
        One over the bounds of the features.
    row_norm : float
        Infinite if no row in [-1, 1] is longer.
    columns, values : ndarray of shape (n_features + intercept,)
        A buffer for one row.
    """
    d = X.bounds.shape[0]
    limit = np.inf if row_norm >= np.sqrt(d) else row_norm
    size = d + X.intercept
    return 1.0 / X.bounds, limit, np.arange(size), np.empty(size)


@inlined
def predict_row(X, columns, values, size, w, Z):
    """Write the predictions for the row in the buffer into ``Z``, of shape (1, n_outputs)."""
    for k in range(Z.shape[1]):
        Z[0, k] = row_dot(X, columns, values, size, w, k * columns.shape[0])


@inlined
def add_row(X, columns, values, size, factor, R, out):
    """Add ``factor`` times the gradient to ``out``, if ``R`` holds the derivatives for the row."""
    for k in range(R.shape[1]):
        row_add(X, columns, values, size, factor * R[0, k], out, k * columns.shape[0])


@inlined_kernel
def fetch_row(X, rows, t):
    """Prefetch the record that is read `AHEAD` steps after ``rows[t]``.

    Otherwise waiting for memory would dominate the time.
    """
    raise NotImplementedError


@kernel
def read_row(X, i, inverse, row_norm, columns, values):
    """Write record i into the buffer, and return its number of entries.

    Entries are clipped, scaled to [-1, 1] and shortened to an l2 norm of at most ``row_norm``; the
    one of an intercept is appended.
    """
    raise NotImplementedError


@kernel
def row_dot(X, columns, values, size, w, start):
    """Product of the row in the buffer with the coefficients from ``w[start]`` on."""
    raise NotImplementedError


@kernel
def row_add(X, columns, values, size, factor, w, start):
    """Add ``factor`` times the row in the buffer to the coefficients from ``w[start]`` on."""
    raise NotImplementedError


@intrinsic
def _fetch_line(typing_context, address):
    def generate(context, builder, signature, arguments):
        # read (0), often (3), data (1)
        number, line = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [line, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [line], kind)
        pointer = builder.inttoptr(arguments[0], line)
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.intp), generate


def _fetch(array):
    """Prefetch an array. Outside of kernels it does nothing."""


@overload(_fetch)
def _fetch_in_kernels(array):
    def implementation(array):
        start = array.ctypes.data
        for address in range(start, start + array.nbytes, _LINE):
            _fetch_line(address)

    return implementation


@fetch_row.register(CentredDense)
@fetch_row.register(Dense)
def _(X, rows, t):
    if t + AHEAD < rows.shape[0]:
        _fetch(X.values[rows[t + AHEAD]])


@fetch_row.register(CSR)
def _(X, rows, t):
    if t + AHEAD < rows.shape[0]:
        i = rows[t + AHEAD]
        start, stop = X.indptr[i], X.indptr[i + 1]
        _fetch(X.data[start:stop])
        _fetch(X.indices[start:stop])


@reduction
def _dot(a, b, size):
    total = 0.0
    for j in range(size):
        total += a[j] * b[j]
    return total


@reduction
def _limit_norm(values, size, row_norm):
    """Scale the row in the buffer to norm ``row_norm`` if it is longer."""
    norm = np.sqrt(_dot(values, values, size))
    if norm > row_norm:
        factor = row_norm / norm
        for j in range(size):
            values[j] *= factor


@inner
def _end_row(intercept, d, row_norm, values):
    """Shorten the dense row in the buffer, append the one of an intercept, and count entries."""
    if row_norm < np.inf:
        _limit_norm(values, d, row_norm)
    if intercept:
        values[d] = 1.0
    return d + intercept


@read_row.register(Dense)
def _(X, i, inverse, row_norm, columns, values):
    x = X.values[i]
    for j in range(inverse.shape[0]):
        values[j] = clip(x[j] * inverse[j], 1.0)
    return _end_row(X.intercept, inverse.shape[0], row_norm, values)


@read_row.register(CentredDense)
def _(X, i, inverse, row_norm, columns, values):
    x, centre = X.values[i], X.centre
    for j in range(inverse.shape[0]):
        values[j] = clip(clip(x[j] * inverse[j], 1.0) - centre[j], 1.0)
    return _end_row(X.intercept, inverse.shape[0], row_norm, values)


@read_row.register(CSR)
def _(X, i, inverse, row_norm, columns, values):
    size = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        j = X.indices[p]
        columns[size] = j
        values[size] = clip(X.data[p] * inverse[j], 1.0)
        size += 1
    if row_norm < np.inf:
        _limit_norm(values, size, row_norm)
    if X.intercept:
        columns[size] = inverse.shape[0]
        values[size] = 1.0
        size += 1
    return size


@row_dot.register(CentredDense)
@row_dot.register(Dense)
def _(X, columns, values, size, w, start):
    return _dot(values, w[start : start + size], size)


@row_dot.register(CSR)
def _(X, columns, values, size, w, start):
    total = 0.0
    for p in range(size):
        total += values[p] * w[start + columns[p]]
    return total


@row_add.register(CentredDense)
@row_add.register(Dense)
def _(X, columns, values, size, factor, w, start):
    mine = w[start : start + size]
    for j in range(size):
        mine[j] += factor * values[j]


@row_add.register(CSR)
def _(X, columns, values, size, factor, w, start):
    for p in range(size):
        w[start + columns[p]] += factor * values[p]


class Records:
    """The records of arrays, each taken once, in random order or in the order of the arrays.

    Parameters
    ----------
    X : Dense, CentredDense or CSR
    y : ndarray of shape (n,)
    rng : numpy.random.Generator or None
        Draws the order, independently of the data. None keeps the order of the arrays.
    """

    y: np.ndarray
    taken: int

    def __init__(
        self, X: Dense | CentredDense | CSR, y: np.ndarray, rng: np.random.Generator | None
    ) -> None:
        self.X, self.y = X, y
        self.taken = 0
        # The permutation is computed, not stored: n numbers would be larger than all other state.
        self._keys = None
        if rng is not None:
            self._keys = np.array([next_uint64(rng) for _ in range(_ROUNDS)], dtype=np.uint64)

    def take(self, n_records: int) -> Iterator[Chunk]:
        """The next records, in chunks."""
        stop = self.taken + n_records
        if stop > len(self.y):
            raise ValueError(f"There are {len(self.y)} records, {stop} were asked for.")
        while self.taken < stop:
            rows = np.arange(self.taken, min(self.taken + CHUNK_RECORDS, stop))
            self.taken += len(rows)
            if self._keys is not None:
                _permute(self._keys, len(self.y), rows)
            yield self.X, self.y, rows


class Blocks:
    """The records of blocks, each taken once, in the order of the blocks.

    Parameters
    ----------
    design : BlockDesign
    """

    taken: int

    def __init__(self, design: BlockDesign) -> None:
        self._blocks = design.each()
        self._X: Any = None
        self._y = np.empty(0)
        self._position = self.taken = 0

    def take(self, n_records: int) -> Iterator[Chunk]:
        """The next records, in chunks."""
        stop = self.taken + n_records
        while self.taken < stop:
            while self._position == len(self._y):
                self._X = None  # memory holds one block
                self._X, self._y = next(self._blocks)
                self._position = 0
            end = min(
                self._position + CHUNK_RECORDS, len(self._y), self._position + stop - self.taken
            )
            rows = np.arange(self._position, end)
            self._position = end
            self.taken += len(rows)
            yield self._X, self._y, rows


def one_pass(X: Any, y: Any, rng: np.random.Generator, shuffle: bool) -> Records | Blocks:
    """The records of arrays ``X`` and ``y``, or of the blocks of X (y is None)."""
    return Blocks(X) if isinstance(X, BlockDesign) else Records(X, y, rng if shuffle else None)


@njit
def _permute(keys, n, rows):
    """Replace every number in [0, n) by its image under a Feistel network (Luby, Rackoff 1988).

    The network acts on pairs of numbers below the root of n, rounded up (Black, Rogaway 2002). The
    few images that are not below n are mapped again until they are.
    """
    side = np.int64(np.sqrt(n))
    while side * side < n:
        side += 1
    for t in range(rows.shape[0]):
        x = rows[t]
        while True:
            left = x // side
            right = x - left * side
            for key in keys:
                # The finaliser of splitmix64, which mixes all bits; the upper ones are scaled.
                z = np.uint64(right) + key
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                z = ((z ^ (z >> np.uint64(31))) >> np.uint64(33)) * np.uint64(side)
                left += np.int64(z >> np.uint64(31))
                left, right = right, left - side if left >= side else left
            x = left * side + right
            if x < n:
                break
        rows[t] = x
