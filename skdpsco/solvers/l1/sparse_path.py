"""A stagewise path over sparse records: a step reads the records in which one feature occurs.

A step changes only the predictions of these records, and only the scores of their features. If they
are many, all scores are computed again, because that costs less. All sums are sums of integers,
hence exact: after any number of steps they equal those of a full pass over the same numbers, bit by
bit. Proof: docs/proofs/stagewise.md.
"""

import math

import numpy as np

from skdpsco._kernels import inner, njit
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.design import CSR, clip_scale
from skdpsco.data.products import common_bound
from skdpsco.losses.kernels import bounded_derivatives, bounded_values
from skdpsco.mechanisms.bucket_sampler import (
    MAX_COORDINATES,
    bucket_of,
    draw_signed,
    estimate,
    forget,
    move_to_bucket,
    new_buckets,
)
from skdpsco.mechanisms.samplers import SCALE_BITS, Exponential, exponential_mechanism, to_grid
from skdpsco.solvers.base import LARGEST_PRODUCT, LEAST_PRODUCT

STEPS_WORTH_A_COPY = 40  # fewer steps are not worth a second copy of the data in memory
MAX_RECORDS = 2**26  # with more, rounding to integers would need additional noise
RUN = 256  # entries of a record whose sums are changed together
ANEW = 4  # if a step changes one in so many records, computing all sums again is faster


def is_incremental(plan, problem, constraint, X) -> bool:
    """Whether `run_sparse` can follow ``plan``, and is faster than full passes if X is sparse.

    This depends on public values only; the number of non-zeros is private.
    """
    return (
        isinstance(X, CSR)
        and problem.n_samples <= MAX_RECORDS
        and isinstance(constraint, L1Ball)
        and isinstance(plan.mechanism, Exponential)
        and len(plan.weight) >= STEPS_WORTH_A_COPY
        and all(scale == 1.0 for scale in plan.scale)  # else a step changes all predictions
        and problem.n_coefficients <= MAX_COORDINATES
        and is_scaled(plan, constraint.radius)
    )


def is_scaled(plan, radius: float) -> bool:
    """Whether units of integers stay far from the limits of float64."""
    slope = max(plan.slope)
    scales = (slope, slope * radius, *plan.grid, plan.cap if plan.cap > 0.0 else 1.0)
    return LEAST_PRODUCT <= min(scales) and max(scales) <= LARGEST_PRODUCT


def integer_unit(n_samples: int, bound: float) -> float:
    """A power of two by which ``n_samples`` numbers up to ``bound`` can be multiplied.

    The products, each rounded to an integer, sum to less than 2**62.
    """
    return math.ldexp(1.0, min(60 - math.frexp(n_samples)[1] - math.frexp(bound)[1], 1000))


def integer_error(n_samples: int, bound: float) -> float:
    """Bound on the error of a sum of numbers up to ``bound`` in `integer_unit`, then as a float.

    The unit is at least ``2**58 / (n_samples * bound)``; see docs/proofs/stagewise.md.
    """
    n = min(n_samples, MAX_RECORDS)
    return n * bound * (n * 2.0**-59 + 2.0**-52)


def run_sparse(plan, problem, constraint, X, y, rng, progress):
    """As `skdpsco.solvers.l1.vertex_path.run_vertices`."""
    n, D, K = problem.n_samples, problem.n_coefficients, problem.loss.n_outputs
    T = len(plan.weight)
    coef = np.zeros(D)
    chosen, losses = np.zeros(T, dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    # The places of each column's entries; their values are read from a scaled copy of the rows.
    size = int(X.indptr[-1])  # the arrays may be longer
    entries = np.empty(size, dtype=np.int32 if size < 2**31 else np.int64)
    first = np.zeros(len(X.bounds) + 1, dtype=entries.dtype)
    stop = sparse_path(
        X, y, problem.loss, constraint.radius, np.array(plan.weight), np.array(plan.grid),
        np.array(plan.slope), integer_unit(n, max(plan.slope)), plan.cap, plan.stop_grid,
        integer_unit(n, plan.cap) if plan.cap > 0.0 else 0.0, rng, coef, chosen, progress, losses,
        new_buckets(D), np.zeros((n, K)), np.empty((n, K)), np.empty((n, K)), np.empty(1),
        np.empty(D, dtype=np.int64), first, entries, np.empty(size),
        np.empty((4, RUN), dtype=np.int64),
    )  # fmt: skip
    return coef, chosen, stop


@inner
def sort_entries(X, first, entries, features):
    """Write the places of the entries of all columns, and clipped and scaled features.

    Those of column j are ``entries[first[j]]`` to ``entries[first[j + 1] - 1]``. Places, and
    ``features``, are numbered as in ``X.data``.
    """
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
    """Write the derivatives of record i into ``out[i]``, none beyond the bound."""
    bounded_derivatives(loss, Z[i : i + 1], y[i : i + 1], bound, np.inf, out[i : i + 1])


@inner
def clipped_loss(loss, Z, y, cap, unit, i, out):
    """Loss of record i, clipped to ``[0, cap]``, in units; ``out`` is room for one number."""
    bounded_values(loss, Z[i : i + 1], y[i : i + 1], cap, out)
    return in_units(out[0], unit)


@inner
def correlate_units(X, features, R, unit, sums, room):
    """Write ``X' R`` as integers, where the term of every record and feature is rounded.

    ``room`` is of shape (4, RUN), here and below.
    """
    d = X.bounds.shape[0]
    D = d + X.intercept
    for j in range(sums.shape[0]):
        sums[j] = 0
    for i in range(R.shape[0]):
        first, last = X.indptr[i], X.indptr[i + 1]
        for c in range(R.shape[1]):
            for start in range(first, last, RUN):
                size = min(RUN, last - start)
                write_terms(features, start, size, R[i, c], unit, room)
                add_terms(X.indices, start, size, c * D, sums, room)
            if X.intercept:
                sums[c * D + d] += in_units(R[i, c], unit)


# Each kind of work has a loop of its own: so arithmetic is vectorised, and more numbers are looked
# up at the same time.


@inner
def write_terms(features, start, size, r, unit, room):
    """Write ``r`` times the features of a run of entries."""
    for q in range(size):
        room[0, q] = in_units(r * features[np.uint64(start + q)], unit)


@inner
def add_terms(indices, start, size, offset, sums, room):
    """Add what was written to the sums of the entries."""
    for q in range(size):
        sums[np.uint64(offset + indices[np.uint64(start + q)])] += room[0, q]


@inner
def change_sums(X, features, i, c, old, new, unit, sums, buckets, room):
    """Replace ``old``, a derivative of record i, by ``new`` in all sums that it is part of.

    No record has two entries in one column.
    """
    d = X.bounds.shape[0]
    offset = c * (d + X.intercept)
    top, slope = estimate(buckets)
    first, last = X.indptr[i], X.indptr[i + 1]
    for start in range(first, last, RUN):
        size = min(RUN, last - start)
        gather_sums(X.indices, start, size, offset, sums, room)
        change_terms(features, start, size, old, new, unit, top, slope, room)
        scatter_sums(X.indices, start, size, offset, sums, room)
        move_all(X.indices, start, size, offset, buckets, room)
    if X.intercept:
        k = offset + d
        before = sums[k]
        sums[k] = before + in_units(new, unit) - in_units(old, unit)
        b, j = bucket_of(before, top, slope), bucket_of(sums[k], top, slope)
        if b != j:
            move_to_bucket(buckets, k, b, j)


@inner
def gather_sums(indices, start, size, offset, sums, room):
    """Write the sums of a run of entries."""
    for q in range(size):
        room[0, q] = sums[np.uint64(offset + indices[np.uint64(start + q)])]


@inner
def change_terms(features, start, size, old, new, unit, top, slope, room):
    """Change the sums of a run, and write their buckets before and after."""
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
    """Move the coordinates of a run whose bucket has changed, which are few."""
    for q in range(size):
        if room[2, q] != room[3, q]:
            k = np.int64(offset + indices[start + q])
            move_to_bucket(buckets, k, room[2, q], room[3, q])


@inner
def renew(X, features, i, new, R, unit, sums, buckets, room):
    """Replace the derivatives ``R[i]`` of record i by ``new[i]``, in ``R`` and in all sums."""
    for c in range(R.shape[1]):
        if new[i, c] != R[i, c]:
            change_sums(X, features, i, c, R[i, c], new[i, c], unit, sums, buckets, room)
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
def sparse_path(
    X, y, loss, radius, weight, grid, slope, unit, cap, stop_grid, loss_unit, rng, w, chosen,
    progress, losses, buckets, Z, R, new, v, sums, first, entries, features, room,
):  # fmt: skip
    """As `skdpsco.solvers.l1.vertex_path.vertex_path`, for a scale of 1 and signed coordinates.

    ``Z`` and all later arguments are work space.
    """
    n, d, D = y.shape[0], X.bounds.shape[0], w.shape[0]
    n_features = d + X.intercept
    sort_entries(X, first, entries, features)
    bounded_derivatives(loss, Z, y, slope[0], np.inf, R)
    correlate_units(X, features, R, unit, sums, room)
    total = 0
    if cap > 0.0:
        for i in range(n):
            total += clipped_loss(loss, Z, y, cap, loss_unit, i, v)
        losses[0] = to_grid(-(total / loss_unit), stop_grid)
    for t in range(weight.shape[0]):
        if t == 0 or grid[t] != grid[t - 1]:
            forget(buckets, -radius / unit, grid[t])  # a minimum is sought
        if t > 0 and slope[t] != slope[t - 1]:
            # Clip the derivatives of all records, as a full pass would. This changes nothing if the
            # loss keeps to its bounds.
            bounded_derivatives(loss, Z, y, slope[t], np.inf, new)
            for i in range(n):
                renew(X, features, i, new, R, unit, sums, buckets, room)
        chosen[t] = draw_signed(rng, sums, buckets)
        j, step = chosen[t], weight[t] * radius
        if j >= D:
            j, step = j - D, -step
        w[j] += step
        bound = slope[min(t + 1, slope.shape[0] - 1)]  # that of the next step
        column, output = j % n_features, j // n_features
        of_all = column == d  # the ones of the intercept
        anew = of_all or ANEW * (first[column + 1] - first[column]) > n
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
                renew(X, features, i, new, R, unit, sums, buckets, room)
        if anew:
            correlate_units(X, features, R, unit, sums, room)
            forget(buckets, -radius / unit, grid[t])
        if cap > 0.0:
            losses[t + 1] = to_grid(-(total / loss_unit), stop_grid)
        progress[0] += 1
    if cap > 0.0:
        return exponential_mechanism(rng, losses, SCALE_BITS)
    return weight.shape[0]
