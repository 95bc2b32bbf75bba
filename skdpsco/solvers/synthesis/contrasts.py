"""Orthogonal contrasts of tables of counts, and how much one record can change them.

The contrasts of a column of size s are Helmert's: k = 1, ..., s - 1 compares value k with the mean
of the values before it. They are scaled so that their mean square over the s values is 1; for s = 2
they are +1 and -1. The contrasts of a subset of columns are all products of one contrast of each.
A table of counts is the sum of its contrasts over all subsets of its columns (ANOVA), so tables
share the contrasts of the columns that they share. Proofs: docs/proofs/measure_project.md.
"""

import math
from collections.abc import Iterable
from functools import reduce
from itertools import combinations

import numpy as np

from skdpsco._kernels import njit
from skdpsco.privacy._cache import cached
from skdpsco.solvers.synthesis.workload import LinearQueries, QueryProblem

__all__ = [
    "Subset",
    "helmert",
    "interchangeable",
    "largest_move",
    "n_contrasts",
    "positions",
    "scales",
    "sensitivity",
    "singles",
    "synthesis",
    "worth_of_subsets",
]

Subset = tuple[int, ...]

MAX_PATTERNS = 2**20  # most sets of columns over which a sensitivity is maximised exactly
SMALL, KEPT = 2**9, 2**13  # cells of a table whose numbers are cached, and number of such tables
_SLACK = 2.0**-36  # relative margin of a sensitivity for its own rounding


def scales(shape: Iterable[int]) -> np.ndarray:
    """Factors for the output of `helmert`, as a read-only array of the same shape."""
    sizes = tuple(shape)
    return (_small_scales if math.prod(sizes) <= SMALL else _scales)(sizes)


def _scales(sizes: tuple[int, ...]) -> np.ndarray:
    factors = []
    for size in sizes:
        k = np.arange(1, size)
        factors.append(np.concatenate([[1.0], np.sqrt(size / (k * (k + 1.0)))]))
    found = reduce(np.multiply.outer, factors)
    found.flags.writeable = False
    return found


_small_scales = cached(KEPT)(_scales)


def helmert(table: np.ndarray, n_axes: int | None = None) -> np.ndarray:
    """Sums and unscaled contrasts along the first ``n_axes`` axes, by default along all.

    Index 0 of an axis is the sum; index k is (sum of the values before k) - k * (value k). They are
    integers if the counts are.
    """
    found = np.array(table, order="C")
    _transform(found.reshape(-1), np.array(table.shape[:n_axes], dtype=np.int64), False)
    return found


def synthesis(contrasts: np.ndarray, n_axes: int | None = None) -> np.ndarray:
    """The transpose of `helmert`.

    ``synthesis(scales * contrasts) / n_cells`` is the table that has the given contrasts, which are
    ``scales`` times the output of `helmert`.
    """
    found = np.array(contrasts, order="C")
    _transform(found.reshape(-1), np.array(contrasts.shape[:n_axes], dtype=np.int64), True)
    return found


@njit
def _transform(x, sizes, transposed):
    """Transform one axis after the other, in place; the transpose goes through it backwards."""
    inner = x.size
    for size in sizes:
        outer = x.size // inner
        inner //= size
        for a in range(outer):
            first = x[a * size * inner : (a * size + 1) * inner]
            for step in range(1, size):
                k = size - step if transposed else step
                other = x[(a * size + k) * inner : (a * size + k + 1) * inner]
                for b in range(inner):
                    value = other[b]
                    other[b] = first[b] - k * value
                    first[b] += value


def positions(table: Subset, subset: Subset, shape: tuple[int, ...]) -> np.ndarray:
    """Flat indices of a subset's contrasts in a table's output of `helmert`; read-only."""
    sizes = tuple([shape[j] for j in table])
    inside = tuple([j in subset for j in table])
    return (_small_positions if math.prod(sizes) <= SMALL else _positions)(sizes, inside)


def _positions(sizes: tuple[int, ...], inside: tuple[bool, ...]) -> np.ndarray:
    flat = np.zeros(1, dtype=np.intp)
    for size, varies in zip(sizes, inside, strict=True):
        flat = flat * size
        if varies:
            flat = (flat[:, None] + np.arange(1, size)).ravel()
    flat.flags.writeable = False
    return flat


_small_positions = cached(KEPT)(_positions)


def n_contrasts(subset: Subset, shape: tuple[int, ...]) -> int:
    """Number of contrasts of a subset."""
    return math.prod(shape[j] - 1 for j in subset)


def worth_of_subsets(problem: QueryProblem) -> dict[Subset, float]:
    """The subsets on which the answers depend, and how strongly.

    Returns
    -------
    values : dict
        For every subset, the squared error, summed over the answers, that an error of variance 1 in
        each of its contrasts causes. Columns of size 1 are in no subset.
    """
    if isinstance(problem.workload, LinearQueries):
        return _values_of_queries(problem)
    shape = problem.shape
    found: dict[Subset, float] = {}
    for table in problem.workload.columns(problem.n_columns):
        columns = sorted(j for j in table if shape[j] > 1)
        cells = math.prod(shape[j] for j in columns)
        for order in range(1, len(columns) + 1):
            for subset in combinations(columns, order):
                found[subset] = found.get(subset, 0.0) + 1.0 / cells
    found = {subset: value * n_contrasts(subset, shape) for subset, value in found.items()}
    if interchangeable(problem):  # they are equal up to rounding, and are made equal
        first: dict[tuple[int, ...], float] = {}
        for subset, value in found.items():
            found[subset] = first.setdefault(tuple(sorted(shape[j] for j in subset)), value)
    return found


def singles(problem: QueryProblem) -> dict[Subset, float]:
    """The subsets of single columns, for workloads whose tables have one cell each."""
    found: dict[Subset, float] = {(j,): 1.0 for j, size in enumerate(problem.shape) if size > 1}
    if not found:
        raise ValueError("shape must have a column of more than one value.")
    return found


def _values_of_queries(problem: QueryProblem) -> dict[Subset, float]:
    columns = [j for j in range(problem.n_columns) if problem.shape[j] > 1]
    shape = tuple(problem.shape[j] for j in columns)
    if not columns:
        return {}
    squares = np.zeros(shape)  # in units of the largest entry
    block = max(1, 2**22 // problem.n_cells)
    matrix, factor = problem.workload.matrix, scales(shape)
    largest = float(np.abs(matrix).max()) or 1.0
    for start in range(0, len(matrix), block):
        rows = matrix[start : start + block].T.reshape(*shape, -1) / largest
        squares += np.square(helmert(rows, len(shape)) * factor[..., None] / problem.n_cells).sum(
            axis=-1
        )
    for axis, size in enumerate(shape):
        squares = np.add.reduceat(squares, [0, 1] if size > 1 else [0], axis=axis)
    squares.flat[0] = 0.0
    least = 1e-12 * squares.sum()  # anything below is rounding error
    found = {
        tuple(columns[a] for a in np.flatnonzero(pattern)): float(squares[tuple(pattern)])
        * largest**2
        for pattern in np.argwhere(squares > least)
    }
    return {subset: value for subset, value in found.items() if value > 0.0}  # underflow


def interchangeable(problem: QueryProblem) -> bool:
    """Whether columns of the same size can be exchanged without changing the workload."""
    return not isinstance(problem.workload, LinearQueries) and isinstance(
        problem.workload.tables, int
    )


def largest_move(subset: Subset, shape: tuple[int, ...]) -> float:
    """Largest squared distance between two records in the contrasts of one subset."""
    ones = [shape[j] - 1 for j in subset]
    return 2.0 * math.prod(ones) * (1.0 + 1.0 / min(ones))


def sensitivity(
    shape: tuple[int, ...], squared_weights: dict[Subset, float], alike: bool = False
) -> float:
    """Largest l2 change of the sums of weighted contrasts when one record is replaced.

    Two records that differ in the columns D have the squared distance ``2 sum_S w_S**2 (prod_S (s -
    1) - prod_{S - D} (s - 1) (-1)**|S & D|)``: section 2 of the proof. The maximum over D is exact
    if there are at most `MAX_PATTERNS` kinds of D; otherwise the largest terms are summed.

    Parameters
    ----------
    shape : tuple of int
    squared_weights : dict
        The weight that all contrasts of a subset share. No subset has a column of size 1.
    alike : bool, default=False
        Whether columns of the same size are interchangeable: the weights then depend only on the
        sizes of a subset's columns, and ``squared_weights`` holds all subsets with these sizes.
    """
    columns = sorted({j for subset in squared_weights for j in subset})
    kinds = [shape[j] for j in columns] if alike else columns
    groups = sorted(set(kinds))
    group = dict(zip(columns, map(groups.index, kinds), strict=True))
    members = [[shape[j] for j in columns if group[j] == g] for g in range(len(groups))]
    order = max(map(len, squared_weights))
    if math.prod(len(m) + 1 for m in members) > MAX_PATTERNS:
        total = sum(w * largest_move(subset, shape) for subset, w in squared_weights.items())
        return math.sqrt(total) * (1 + _SLACK)
    # Entry (o_1, o_2, ...) is the squared weight of subsets with o_i columns of group i.
    tensor = np.zeros([min(len(m), order) + 1 for m in members])
    for subset, w in squared_weights.items():
        tensor[tuple(np.bincount([group[j] for j in subset], minlength=len(groups)))] = w
    for m in members:
        tensor = np.tensordot(tensor, _polynomials(m[0], len(m), order), axes=(0, 1))
    same = float(tensor.flat[0])  # the term of the empty D
    return math.sqrt(2.0 * (same - float(tensor.min())) + _SLACK * same) * (1 + _SLACK)


def _polynomials(size: int, n: int, order: int) -> np.ndarray:
    """Elementary symmetric polynomials of (n - m) numbers ``size - 1`` and m numbers -1.

    Row m = 0, ..., n has in column o = 0, ..., min(n, order) the sum of all products of o numbers.
    """
    order = min(n, order)
    rows = []
    for m in range(n + 1):
        large = [math.comb(n - m, o) * (size - 1.0) ** o for o in range(order + 1)]
        small = [math.comb(m, o) * (-1.0) ** o for o in range(order + 1)]
        rows.append(np.convolve(large, small)[: order + 1])
    return np.array(rows)
