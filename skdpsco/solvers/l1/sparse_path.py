"""A stagewise path over sparse records: a step reads the records in which one feature occurs.

A step changes only the predictions of these records, and only the scores of their features. If
there are many of them, all scores are computed again, because that costs less. All sums are sums of
integers, hence exact: after any number of steps they equal those of a full pass over the same
numbers, bit by bit. Proof: docs/proofs/stagewise.md.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.design import CSR, clip_scale
from skdpsco.data.products import common_bound
from skdpsco.losses.kernels import bounded_entries, bounded_values
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.bucket_sampler import (
    MAX_COORDINATES,
    Buckets,
    bucket_of,
    draw_signed,
    estimate,
    forget,
    move_to_bucket,
    new_buckets,
)
from skdpsco.mechanisms.samplers import EXPONENTIAL, SCALE_BITS, exponential_mechanism, to_grid
from skdpsco.solvers.base import LARGEST_PRODUCT, LEAST_PRODUCT

__all__ = ["integer_error", "is_incremental", "new_path", "run_sparse", "schedule_of"]

MAX_RECORDS = 2**26  # with more, rounding to integers would need additional noise


class SparseTuning(NamedTuple):
    """Constants of the path's speed, fitted by examples/benchmarks/sparse_speed.py.

    Parameters
    ----------
    least_steps : int
        With fewer steps a second copy of the data in memory does not pay.
    run : int
        Number of entries of a record whose sums are changed together.
    anew : int
        If a step changes one in this many records, computing all sums again is faster.
    """

    least_steps: int = 40
    run: int = 256
    anew: int = 4


SPARSE_PATH = SparseTuning()


class PathSchedule(NamedTuple):
    """What a kernel needs to know of a `skdpsco.solvers.l1.vertex_path.VertexPlan`.

    Parameters
    ----------
    weight, scale, slope, grid : ndarray
    cap, stop_grid : float
    """

    weight: np.ndarray
    scale: np.ndarray
    slope: np.ndarray
    grid: np.ndarray
    cap: float
    stop_grid: float


class Path(NamedTuple):
    """Where a path is, and what it has chosen.

    Parameters
    ----------
    w : ndarray of shape (n_coefficients,)
    Z : ndarray of shape (n_samples, n_outputs)
        Predictions of ``w``.
    chosen : ndarray of shape (n_iter,), int64
        The vertices.
    losses : ndarray of shape (n_iter + 1,), int64
        The score of every point of the path, if one of them is chosen.
    progress : ndarray of shape (1,), int64
        Number of steps so far.
    """

    w: np.ndarray
    Z: np.ndarray
    chosen: np.ndarray
    losses: np.ndarray
    progress: np.ndarray


class IntegerSums(NamedTuple):
    """The sums ``X' R`` as integers, and what keeps them up to date.

    Parameters
    ----------
    sums : ndarray of shape (n_coefficients,), int64
        Sums of terms that are multiplied by ``unit`` and rounded.
    unit : float
        A power of two.
    loss_unit : float
        The unit of losses, or 0 if no point of the path is chosen.
    buckets : Buckets
        The coordinates sorted by their sums.
    first : ndarray of shape (n_columns + 1,)
    entries : ndarray of shape (n_entries,)
        Places of the entries of all columns: those of column j are ``entries[first[j]]`` to
        ``entries[first[j + 1] - 1]``. Places are numbered as in ``X.data``.
    features : ndarray of shape (n_entries,)
        Clipped and scaled features, by their places.
    room : ndarray of shape (4, run), int64
        Work space for a run of entries.
    """

    sums: np.ndarray
    unit: float
    loss_unit: float
    buckets: Buckets
    first: np.ndarray
    entries: np.ndarray
    features: np.ndarray
    room: np.ndarray


class SlopeRoom(NamedTuple):
    """Derivatives of all records, with room for new ones and for a loss.

    Parameters
    ----------
    R, new : ndarray of shape (n_samples, n_outputs)
    loss : ndarray of shape (1,)
    """

    R: np.ndarray
    new: np.ndarray
    loss: np.ndarray


def schedule_of(plan: Any) -> PathSchedule:
    """The schedule as kernels take it."""
    weight, scale, slope, grid = map(np.array, (plan.weight, plan.scale, plan.slope, plan.grid))
    return PathSchedule(weight, scale, slope, grid, plan.cap, plan.stop_grid)


def new_path(problem: Any, n_iter: int, progress: np.ndarray) -> Path:
    """Start of a path, at 0."""
    return Path(
        np.zeros(problem.n_coefficients),
        np.zeros((problem.n_samples, problem.loss.n_outputs)),
        np.zeros(n_iter, dtype=np.int64),
        np.zeros(n_iter + 1, dtype=np.int64),
        progress,
    )


def is_incremental(plan: Any, problem: Any, constraint: Any, X: MatrixLike) -> bool:
    """Whether `run_sparse` can follow ``plan``, and is faster than full passes if X is sparse.

    This depends on public values only; the number of non-zeros is private.
    """
    return (
        isinstance(X, CSR)
        and problem.n_samples <= MAX_RECORDS
        and isinstance(constraint, L1Ball)
        and plan.mechanism == EXPONENTIAL
        and len(plan.weight) >= SPARSE_PATH.least_steps
        and all(scale == 1.0 for scale in plan.scale)  # otherwise a step changes all predictions
        and problem.n_coefficients <= MAX_COORDINATES
        and is_scaled(plan, constraint.radius)
    )


def is_scaled(plan: Any, radius: float) -> bool:
    """Whether units of integers stay far from the limits of float64."""
    slope = max(plan.slope)
    scales = (slope, slope * radius, *plan.grid, plan.cap if plan.cap > 0.0 else 1.0)
    return LEAST_PRODUCT <= min(scales) and max(scales) <= LARGEST_PRODUCT


def integer_unit(n_samples: int, bound: float) -> float:
    """A power of two that ``n_samples`` numbers up to ``bound`` can be multiplied by.

    The products, each rounded to an integer, sum to less than 2**62.
    """
    return math.ldexp(1.0, min(60 - math.frexp(n_samples)[1] - math.frexp(bound)[1], 1000))


def integer_error(n_samples: int, bound: float) -> float:
    """Bound on the error of a sum of numbers up to ``bound`` in `integer_unit`, as a float.

    The unit is at least ``2**58 / (n_samples * bound)``; see docs/proofs/stagewise.md.
    """
    n = min(n_samples, MAX_RECORDS)
    return n * bound * (n * 2.0**-59 + 2.0**-52)


def run_sparse(
    plan: Any,
    problem: Any,
    constraint: Any,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
    progress: Any,
) -> Any:
    """Do what `skdpsco.solvers.l1.vertex_path.run_vertices` does."""
    n, D = problem.n_samples, problem.n_coefficients
    path = new_path(problem, len(plan.weight), progress)
    # The places of each column's entries; their values are read from a scaled copy of the rows.
    size = int(X.indptr[-1])  # the arrays may be longer
    entries = np.empty(size, dtype=np.int32 if size < 2**31 else np.int64)
    totals = IntegerSums(
        np.empty(D, dtype=np.int64),
        integer_unit(n, max(plan.slope)),
        integer_unit(n, plan.cap) if plan.cap > 0.0 else 0.0,
        new_buckets(D),
        np.zeros(len(X.bounds) + 1, dtype=entries.dtype),
        entries,
        np.empty(size),
        np.empty((4, SPARSE_PATH.run), dtype=np.int64),
    )
    room = SlopeRoom(np.empty_like(path.Z), np.empty_like(path.Z), np.empty(1))
    model = for_kernels(problem.loss), constraint.radius
    stop = sparse_path(X, y, model, schedule_of(plan), rng, path, totals, room)
    return path.w, path.chosen, stop


@inner
def sort_entries(X, first, entries, features):
    """Write the entries of all columns as `IntegerSums` describes them."""
    # Indices are unsigned, because Numba checks signed ones for negative values.
    for p in range(entries.shape[0]):
        first[np.uint64(X.indices[p])] += 1
    for j in range(1, first.shape[0]):
        first[j] += first[j - 1]  # where each column ends
    for p in range(entries.shape[0] - 1, -1, -1):
        j = np.uint64(X.indices[p])
        first[j] -= 1
        entries[np.uint64(first[j])] = p
    common = common_bound(X)
    if common > 0.0:
        for p in range(entries.shape[0]):
            features[p] = clip_scale(X.data[p], common)
    else:
        for p in range(entries.shape[0]):
            features[p] = clip_scale(X.data[p], X.bounds[np.uint64(X.indices[p])])


@inner
def in_units(value, unit):
    """``value * unit`` rounded to an integer; ``unit`` is a power of two."""
    return np.int64(np.rint(value * unit))


@inner
def write_slopes(loss, Z, y, bound, i, out):
    """Write the derivatives of record i, clipped to the bound, into ``out[i]``."""
    bounded_entries(loss, Z[i : i + 1], y[i : i + 1], bound, out[i : i + 1])


@inner
def clipped_loss(loss, Z, y, cap, unit, i, out):
    """Loss of record i, clipped to ``[0, cap]``, in units; ``out`` is room for one number."""
    bounded_values(loss, Z[i : i + 1], y[i : i + 1], cap, out)
    return in_units(out[0], unit)


@inner
def correlate_units(X, features, R, unit, sums, room):
    """Write ``X' R`` as integers; see `IntegerSums`."""
    d = X.bounds.shape[0]
    D = d + X.intercept
    for j in range(sums.shape[0]):
        sums[j] = 0
    for i in range(R.shape[0]):
        first, last = X.indptr[i], X.indptr[i + 1]
        for c in range(R.shape[1]):
            for start in range(first, last, SPARSE_PATH.run):
                size = min(SPARSE_PATH.run, last - start)
                write_terms(features, start, size, R[i, c], unit, room)
                add_terms(X.indices, start, size, c * D, sums, room)
            if X.intercept:
                sums[c * D + d] += in_units(R[i, c], unit)


# Each kind of work has its own loop: so arithmetic is vectorised, and more numbers are looked up at
# the same time.


@inner
def write_terms(features, start, size, r, unit, room):
    """Write ``r`` times the features of a run of entries."""
    for q in range(size):
        room[0, q] = in_units(r * features[np.uint64(start + q)], unit)


@inner
def add_terms(indices, start, size, offset, sums, room):
    """Add the written terms to the sums of the entries."""
    for q in range(size):
        sums[np.uint64(offset + indices[np.uint64(start + q)])] += room[0, q]


@inner
def change_sums(X, totals, i, c, old, new):
    """Replace ``old``, a derivative of record i, by ``new`` in all sums that it is part of.

    No record has two entries in one column.
    """
    sums, unit, _, buckets, _, _, features, room = totals
    d = X.bounds.shape[0]
    offset = c * (d + X.intercept)
    line = estimate(buckets)
    first, last = X.indptr[i], X.indptr[i + 1]
    for start in range(first, last, SPARSE_PATH.run):
        size = min(SPARSE_PATH.run, last - start)
        gather_sums(X.indices, start, size, offset, sums, room)
        change_terms(features, start, size, old, new, unit, line, room)
        scatter_sums(X.indices, start, size, offset, sums, room)
        move_all(X.indices, start, size, offset, buckets, room)
    if X.intercept:
        k = offset + d
        before = sums[k]
        sums[k] = before + in_units(new, unit) - in_units(old, unit)
        b, j = bucket_of(before, line[0], line[1]), bucket_of(sums[k], line[0], line[1])
        if b != j:
            move_to_bucket(buckets, k, b, j)


@inner
def gather_sums(indices, start, size, offset, sums, room):
    """Write the sums of a run of entries."""
    for q in range(size):
        room[0, q] = sums[np.uint64(offset + indices[np.uint64(start + q)])]


@inner
def change_terms(features, start, size, old, new, unit, line, room):
    """Change the sums of a run, and write their buckets before and after.

    ``line`` is what `estimate` returns.
    """
    top, slope = line
    for q in range(size):
        before, x = room[0, q], features[np.uint64(start + q)]
        after = before + in_units(new * x, unit) - in_units(old * x, unit)
        room[1, q] = after
        room[2, q] = bucket_of(before, top, slope)
        room[3, q] = bucket_of(after, top, slope)


@inner
def scatter_sums(indices, start, size, offset, sums, room):
    """Write the changed sums of a run of entries back."""
    for q in range(size):
        sums[np.uint64(offset + indices[np.uint64(start + q)])] = room[1, q]


@inner
def move_all(indices, start, size, offset, buckets, room):
    """Move the coordinates of a run whose bucket has changed; there are few of them."""
    for q in range(size):
        if room[2, q] != room[3, q]:
            k = np.int64(offset + indices[start + q])
            move_to_bucket(buckets, k, room[2, q], room[3, q])


@inner
def renew(X, totals, i, new, R):
    """Replace the derivatives ``R[i]`` of record i by ``new[i]``, in ``R`` and in all sums."""
    for c in range(R.shape[1]):
        if new[i, c] != R[i, c]:
            change_sums(X, totals, i, c, R[i, c], new[i, c])
            R[i, c] = new[i, c]


@inner
def row_of(indptr, p, low):
    """The row of entry p, which is row ``low`` or a later one."""
    high, stride = low + 1, 1
    while indptr[high] <= p:
        low = high
        stride *= 2
        high = min(low + stride, indptr.shape[0] - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if indptr[middle] <= p:
            low = middle
        else:
            high = middle
    return low


@njit
def sparse_path(X, y, model, schedule, rng, path, totals, room):
    """Follow the path of `vertex_path` in `skdpsco.solvers.l1.vertex_path`, for a scale of 1."""
    loss, radius = model
    weight, _, slope, grid, cap, stop_grid = schedule
    w, Z, chosen, losses, progress = path
    sums, unit, loss_unit, buckets, first, entries, features, work = totals
    R, new, v = room
    n, d, D = y.shape[0], X.bounds.shape[0], w.shape[0]
    n_features = d + X.intercept
    sort_entries(X, first, entries, features)
    bounded_entries(loss, Z, y, slope[0], R)
    correlate_units(X, features, R, unit, sums, work)
    total = 0
    if cap > 0.0:
        for i in range(n):
            total += clipped_loss(loss, Z, y, cap, loss_unit, i, v)
        losses[0] = to_grid(-(total / loss_unit), stop_grid)
    for t in range(weight.shape[0]):
        if t == 0 or grid[t] != grid[t - 1]:
            forget(buckets, -radius / unit, grid[t])  # the smallest score is sought
        if t > 0 and slope[t] != slope[t - 1]:
            # Clip the derivatives of all records, as a full pass would. This changes nothing if the
            # loss keeps to its bounds.
            bounded_entries(loss, Z, y, slope[t], new)
            for i in range(n):
                renew(X, totals, i, new, R)
        chosen[t] = draw_signed(rng, sums, buckets)
        j, step = chosen[t], weight[t] * radius
        if j >= D:
            j, step = j - D, -step
        w[j] += step
        bound = slope[min(t + 1, slope.shape[0] - 1)]  # the bound of the next step
        column, output = j % n_features, j // n_features
        of_all = column == d  # the ones of the intercept
        anew = of_all or SPARSE_PATH.anew * (first[column + 1] - first[column]) > n
        i = 0
        for q in range(0 if of_all else first[column], n if of_all else first[column + 1]):
            if of_all:
                i, x = q, 1.0
            else:
                i, x = row_of(X.indptr, entries[q], i), features[entries[q]]
            if cap > 0.0:
                total -= clipped_loss(loss, Z, y, cap, loss_unit, i, v)
            Z[i, output] += step * x
            if cap > 0.0:
                total += clipped_loss(loss, Z, y, cap, loss_unit, i, v)
            write_slopes(loss, Z, y, bound, i, R if anew else new)
            if not anew:
                renew(X, totals, i, new, R)
        if anew:
            correlate_units(X, features, R, unit, sums, work)
            forget(buckets, -radius / unit, grid[t])
        if cap > 0.0:
            losses[t + 1] = to_grid(-(total / loss_unit), stop_grid)
        progress[0] += 1
    if cap > 0.0:
        return exponential_mechanism(rng, losses, SCALE_BITS)
    return weight.shape[0]
