"""Exact sums over the rows of a table of features and a target, to which `release` adds noise.

docs/proofs/private_moments.md bounds the norm of every record's term. Rows are gathered densely, a
few at a time, so that dense and sparse records, in arrays or blocks, have the same terms.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import inlined_kernel, njit, reduction
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSR, GATHERED_ROWS, TILE_ROWS, Dense
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.solvers.penalized.second_moments import add_outer, run_of_columns

__all__ = ["TableSums"]


class TableUnits(NamedTuple):
    """Rows are read as ``(clip(x, bound) - centre) * scale``.

    Parameters
    ----------
    bounds, centre, scale : ndarray of shape (n_columns,)
        The target is the last column, if there is one more than there are features.
    """

    bounds: np.ndarray
    centre: np.ndarray
    scale: np.ndarray


@inlined_kernel
def write_row(X, y, i, units, out):
    """Write row i into ``out`` of shape (n_columns,)."""
    raise NotImplementedError


@write_row.register(Dense)
def _(X, y, i, units, out):
    (bounds, centre, scale), x, d = units, X.values[i], X.bounds.shape[0]
    for j in range(d):
        out[j] = (clip(x[j], bounds[j]) - centre[j]) * scale[j]
    if out.shape[0] > d:
        out[d] = (clip(y[i], bounds[d]) - centre[d]) * scale[d]


@write_row.register(CSR)
def _(X, y, i, units, out):
    (bounds, centre, scale), d = units, X.bounds.shape[0]
    for j in range(d):
        out[j] = -centre[j] * scale[j]
    for k in range(X.indptr[i], X.indptr[i + 1]):
        j = X.indices[k]
        out[j] = (clip(X.data[k], bounds[j]) - centre[j]) * scale[j]
    if out.shape[0] > d:
        out[d] = (clip(y[i], bounds[d]) - centre[d]) * scale[d]


@reduction
def _sum_of_squares(row):
    total = 0.0
    for j in range(row.shape[0]):
        x = np.float64(row[j])
        total += x * x
    return total


@njit
def add_by_norm(X, y, units, limits, power, sums):
    """Add up rows, or their squares, separately by norm: up to each limit, and beyond all."""
    counts, norms, near, far = sums
    row = np.empty(near.shape[1])
    for i in range(y.shape[0]):
        write_row(X, y, i, units, row)
        square = _sum_of_squares(row)
        norm, k = math.sqrt(square), 0
        while k < limits.shape[0] and norm > limits[k]:
            k += 1
        counts[k] += 1.0
        norms[k] += square
        here, there = near[k], far[k]
        if power == 2:
            over = 1.0 / max(square, 1e-300)
            for j in range(row.shape[0]):
                here[j] += row[j] * row[j]
                there[j] += row[j] * row[j] * over
        elif power == 1:
            over = 1.0 / max(norm, 1e-150)
            for j in range(row.shape[0]):
                here[j] += row[j]
                there[j] += row[j] * over


@without_gil
def sums_by_norm(
    X: MatrixLike, y: TargetLike, units: TableUnits, limits: np.ndarray, power: int
) -> tuple[np.ndarray, ...]:
    """For rows by norm: their number, squared norms, sums, and sums divided by their norms.

    Parameters
    ----------
    X : Dense or CSR
    y : ndarray of shape (n_samples,)
    units : TableUnits
    limits : ndarray of shape (n_limits,)
        Increasing norms.
    power : int
        1 for sums of rows, 2 for sums of their squares divided by squared norms, 0 for neither.
    """
    count, p = len(limits) + 1, len(units.bounds)
    sums = np.zeros(count), np.zeros(count), np.zeros((count, p)), np.zeros((count, p))
    add_by_norm(X, y, units, limits, power, sums)
    return sums


@njit
def write_rows(X, y, start, units, c, rows, weights):
    """Write rows, and what shortens them to norm ``c`` and divides them by it."""
    for i in range(weights.shape[0]):
        row = rows[i]
        write_row(X, y, start + i, units, row)
        weights[i] = 1.0 / max(math.sqrt(_sum_of_squares(row)), c)


@njit
def add_matrices(X, y, units, limits, rows, V, out):
    """Add up what `matrix_sums` returns; ``limits`` are a norm and the entry before the rows."""
    c, one = limits
    weights = np.empty(TILE_ROWS)
    for start in range(0, y.shape[0], TILE_ROWS):
        size = min(TILE_ROWS, y.shape[0] - start)
        write_rows(X, y, start, units, c, rows, weights[:size])
        weights[size:] = 0.0
        for i in range(TILE_ROWS):
            V[0, i] = one if i < size else 0.0
        for j in range(rows.shape[1]):
            for i in range(TILE_ROWS):
                V[j + 1, i] = rows[i, j] * weights[i]
        add_outer(V, out)


@without_gil
def matrix_sums(
    X: MatrixLike, y: TargetLike, units: TableUnits, c: float, one: float, single: bool
) -> np.ndarray:
    """Sum of row row' for rows shortened to norm ``c``, divided by ``c``, preceded by ``one``.

    It stands on and above the diagonal; ``single`` says whether runs are in single precision.
    """
    p = len(units.bounds)
    V, total = run_of_columns(p + 1, single)
    add_matrices(X, y, units, (c, one), np.zeros((TILE_ROWS, p), V.dtype), V, total)
    return total[: p + 1, : p + 1]


@without_gil
def grouped_matrix_sums(
    X: MatrixLike, y: TargetLike, units: TableUnits, c: float, one: float, n_groups: int
) -> np.ndarray:
    """`matrix_sums` of every group of records, of rows times the roots of their weights.

    ``y`` holds the number of the group and, added to it, half of the weight.
    """
    p = len(units.bounds)
    total, room = np.zeros((n_groups, p + 1, p + 1)), np.empty((GATHERED_ROWS, p + 1))
    for start in range(0, len(y), GATHERED_ROWS):
        tags = y[start : start + GATHERED_ROWS]
        rows, numbers, shorter = room[: len(tags)], np.floor(tags), np.empty(len(tags))
        rows[:, 0] = one
        write_rows(X, y, start, units, c, rows[:, 1:], shorter)
        rows[:, 1:] *= shorter[:, None]
        rows *= np.sqrt(2.0 * (tags - numbers))[:, None]
        for group in range(n_groups):
            some = rows[numbers == group]
            total[group] += some.T @ some
    return total


class TableSums:
    """Sums over the rows of a table that `skdpsco.scaling.conditioning.condition` asks for.

    Parameters
    ----------
    X : Dense, CSR or BlockDesign
    y : ndarray of shape (n_samples,), or None for blocks
    bounds : ndarray of shape (n_columns,)
    """

    def __init__(self, X: Any, y: Any, bounds: np.ndarray) -> None:
        self._X, self._y, self._bounds = in_pieces(X, y), y, bounds

    def _units(self, centre: np.ndarray, scale: Any) -> TableUnits:
        """Rows minus ``centre``, divided by ``scale``, both in units of the bounds."""
        return TableUnits(self._bounds, self._bounds * centre, 1.0 / (self._bounds * scale))

    def longer(self, centre: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """How many rows minus ``centre`` are longer than each of the increasing ``limits``."""
        return self._pass_of(self._units(centre, 1.0), limits, 1)

    def longer_over(self, centre: np.ndarray, scale: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """How many centred rows, divided by a scale, are longer; no sums of these rows follow."""
        return self._pass_of(self._units(centre, scale), limits, 0)

    def _pass_of(self, units: TableUnits, limits: np.ndarray, power: int) -> np.ndarray:
        """Compute `longer`, in a pass that keeps what `sums_by_norm` adds up."""
        self._limits = limits
        self._sums = map_reduce(self._X, self._y, sums_by_norm, units, limits, power)
        return self._sums[0][::-1].cumsum()[-2::-1]

    def _shortened(self, c: float, order: int, near: np.ndarray, far: np.ndarray) -> np.ndarray:
        """The kept sums for rows shortened to norm ``c``, divided by ``c``."""
        k = int(np.searchsorted(self._limits, c))  # slightly above c: no term exceeds 1
        return near[: k + 1].sum(axis=0) / self._limits[k] ** order + far[k + 1 :].sum(axis=0)

    def rows(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of rows of the last pass, shortened to norm ``c``, over ``c``."""
        return self._shortened(c, 1, *self._sums[2:])

    def norms(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of the squared norms of centred rows, shortened to ``c``, over ``c * c``."""
        self._pass_of(self._units(centre, 1.0), np.array([c * (1.0 + 1e-9)]), 2)
        return self._shortened(c, 2, self._sums[1][:, None], self._sums[0][:, None])

    def squares(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of the squares of these rows, shortened to norm ``c``, over ``c * c``."""
        return self._shortened(c, 2, *self._sums[2:])

    def matrix(
        self,
        centre: np.ndarray,
        scale: np.ndarray,
        c: float,
        one: float,
        n_groups: int = 0,
        single: bool = False,
    ) -> np.ndarray:
        """Compute `matrix_sums` or, for targets that hold groups, `grouped_matrix_sums`."""
        units = self._units(centre, scale)
        if n_groups == 0:
            return map_reduce(self._X, self._y, matrix_sums, units, c, one, single)
        return map_reduce(self._X, self._y, grouped_matrix_sums, units, c, one, n_groups)
