"""A stagewise path over sparse records: a step costs the records in which one feature occurs.

After a step only the predictions of these records differ, and only the scores of their features.
All sums are of integers, hence exact: after any number of steps they are what a full pass over the
same numbers gives, bit by bit. Proof: docs/proofs/stagewise.md.
"""

import math

import numpy as np

from skdpsco._bucket_sampler import (
    MAX_COORDINATES,
    bucket_of,
    draw_signed,
    estimate,
    forget,
    move_to_bucket,
    new_buckets,
)
from skdpsco._design import CSR, clip, clip_scale
from skdpsco._kernels import inner, njit
from skdpsco.constraints import L1Ball
from skdpsco.losses import derivatives, values
from skdpsco.mechanisms import SCALE_BITS, Exponential, exponential_mechanism, to_grid
from skdpsco.solvers.base import LARGEST, LEAST

MIN_STEPS = 40  # fewer are not worth a second copy of the data in memory
MAX_RECORDS = 2**26  # the rounding of more would take noise to hide


def is_incremental(plan, problem, constraint, X) -> bool:
    """Whether `run_sparse` can follow ``plan``, and is faster than full passes if X is sparse.

    A function of public values: the number of non-zeros is none.
    """
    return (
        isinstance(X, CSR)
        and problem.n_samples <= MAX_RECORDS
        and isinstance(constraint, L1Ball)
        and isinstance(plan.mechanism, Exponential)
        and len(plan.weight) >= MIN_STEPS
        and all(scale == 1.0 for scale in plan.scale)  # else a step changes all predictions
        and problem.n_coefficients <= MAX_COORDINATES
        and is_scaled(plan, constraint.radius)
    )


def is_scaled(plan, radius: float) -> bool:
    """Whether units of integers are far from where float64 numbers have fewer digits."""
    slope = max(plan.slope)
    scales = (slope, slope * radius, *plan.grid, plan.cap if plan.cap > 0.0 else 1.0)
    return LEAST <= min(scales) and max(scales) <= LARGEST


def integer_unit(n_samples: int, bound: float) -> float:
    """A power of two such that ``n_samples`` numbers up to ``bound`` times it sum to below 2**62.

    Each is rounded to an integer, by at most 1/2.
    """
    return math.ldexp(1.0, min(60 - math.frexp(n_samples)[1] - math.frexp(bound)[1], 1000))


def integer_error(n_samples: int, bound: float) -> float:
    """Bound on the error of a sum of numbers up to ``bound`` in `integer_unit`, then as a float.

    The unit is at least ``2**58 / (n_samples * bound)``; see docs/proofs/stagewise.md.
    """
    n = min(n_samples, MAX_RECORDS)
    return n * bound * (n * 2.0**-59 + 2.0**-52)


def run_sparse(plan, problem, constraint, X, y, rng, progress):
    """As `skdpsco.solvers._vertex_path.run_vertices`."""
    n, D, K = problem.n_samples, problem.n_coefficients, problem.loss.n_outputs
    T = len(plan.weight)
    coef = np.zeros(D)
    chosen, losses = np.zeros(T, dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    # Where each column has its entries, whose values are read from a scaled copy of the rows.
    size = int(X.indptr[-1])  # the arrays may be longer
    first = np.zeros(len(X.bounds) + 1, dtype=np.int64)
    entries = np.empty(size, dtype=np.int32 if size < 2**31 else np.int64)
    stop = sparse_path(
        X, y, problem.loss, constraint.radius, np.array(plan.weight), np.array(plan.grid),
        np.array(plan.slope), integer_unit(n, max(plan.slope)), plan.cap, plan.stop_grid,
        integer_unit(n, plan.cap) if plan.cap > 0.0 else 0.0, rng, coef, chosen, progress, losses,
        new_buckets(D), np.zeros((n, K)), np.empty((n, K)), np.empty((1, K)), np.empty(1),
        np.empty(D, dtype=np.int64), first, entries, np.empty(size),
    )  # fmt: skip
    return coef, chosen, stop


@inner
def sort_entries(X, first, entries, features):
    """Write where the entries of column j are, ``first[j]`` to ``first[j + 1]``, and the features.

    Both count entries as ``X.data`` does; features are clipped and scaled.
    """
    d = first.shape[0] - 1
    for p in range(entries.shape[0]):
        first[X.indices[p]] += 1
    for j in range(1, d + 1):
        first[j] += first[j - 1]  # where each column ends
    for p in range(entries.shape[0] - 1, -1, -1):
        j = X.indices[p]
        first[j] -= 1
        entries[first[j]] = p
    for p in range(entries.shape[0]):
        features[p] = clip_scale(X.data[p], X.bounds[X.indices[p]])


@inner
def in_units(value, unit):
    """``value * unit`` rounded to an integer; ``unit`` is a power of two."""
    return np.int64(np.rint(value * unit))


@inner
def slopes(loss, Z, y, bound, i, out):
    """Write the derivatives of record i into ``out`` of shape (1, K), none beyond the bound."""
    derivatives(loss, Z[i : i + 1], y[i : i + 1], out)
    for c in range(out.shape[1]):
        out[0, c] = clip(out[0, c], bound)


@inner
def clipped_loss(loss, Z, y, cap, unit, i, out):
    """Loss of record i, clipped to ``[0, cap]``, in units; ``out`` is room for one number."""
    values(loss, Z[i : i + 1], y[i : i + 1], out)
    return in_units(max(0.0, min(cap, out[0])), unit)


@inner
def correlate_units(X, features, R, unit, sums):
    """Write ``X' R`` as integers: what is rounded is the term of every record and feature."""
    D = X.bounds.shape[0] + X.intercept
    for j in range(sums.shape[0]):
        sums[j] = 0
    for i in range(R.shape[0]):
        for c in range(R.shape[1]):
            r = R[i, c]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                j = X.indices[p]
                sums[c * D + j] += in_units(r * features[p], unit)
            if X.intercept:
                sums[c * D + D - 1] += in_units(r, unit)


@inner
def change_sums(X, features, i, c, old, new, unit, sums, buckets):
    """Put ``new`` in place of ``old``, a derivative of record i, in all sums that it is in."""
    # Arrays are taken out of their tuples first: Numba counts references where that is done.
    indices, D = X.indices, X.bounds.shape[0] + X.intercept
    top, slope = estimate(buckets)
    for p in range(X.indptr[i], X.indptr[i + 1] + X.intercept):
        j, x = D - 1, 1.0
        if p < X.indptr[i + 1]:
            j = indices[p]
            x = features[p]
        k = c * D + j
        before = sums[k]
        after = before + in_units(new * x, unit) - in_units(old * x, unit)
        sums[k] = after
        b, j = bucket_of(before, top, slope), bucket_of(after, top, slope)
        if b != j:
            move_to_bucket(buckets, k, b, j)


@inner
def renew(loss, X, features, Z, y, bound, i, r, R, unit, sums, buckets):
    """Take the derivatives of record i anew, and change all sums that they are in."""
    slopes(loss, Z, y, bound, i, r)
    for c in range(R.shape[1]):
        if r[0, c] != R[i, c]:
            change_sums(X, features, i, c, R[i, c], r[0, c], unit, sums, buckets)
            R[i, c] = r[0, c]


@inner
def row_of(indptr, p):
    """The row that has entry p."""
    low, high = 0, indptr.shape[0] - 1  # it is at least low, and below high
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
    progress, losses, buckets, Z, R, r, v, sums, first, entries, features,
):  # fmt: skip
    """As `skdpsco.solvers._vertex_path.vertex_path`, for a scale of 1 and signed coordinates.

    ``Z`` and all that follows is room to work in.
    """
    n, d, D = y.shape[0], X.bounds.shape[0], w.shape[0]
    n_features = d + X.intercept
    sort_entries(X, first, entries, features)
    total = 0
    for i in range(n):
        slopes(loss, Z, y, slope[0], i, r)
        for c in range(R.shape[1]):
            R[i, c] = r[0, c]
        if cap > 0.0:
            total += clipped_loss(loss, Z, y, cap, loss_unit, i, v)
    correlate_units(X, features, R, unit, sums)
    if cap > 0.0:
        losses[0] = to_grid(-(total / loss_unit), stop_grid)
    for t in range(weight.shape[0]):
        if t == 0 or grid[t] != grid[t - 1]:
            forget(buckets, -radius / unit, grid[t])  # a minimum is sought
        if t > 0 and slope[t] != slope[t - 1]:
            # Also of records that no step touches, as a full pass would: a no-op if the loss keeps
            # to its bounds.
            for i in range(n):
                renew(loss, X, features, Z, y, slope[t], i, r, R, unit, sums, buckets)
        chosen[t] = draw_signed(rng, sums, buckets)
        j, step = chosen[t], weight[t] * radius
        if j >= D:
            j, step = j - D, -step
        w[j] += step
        bound = slope[min(t + 1, slope.shape[0] - 1)]  # of the next step
        column, output = j % n_features, j // n_features
        of_all = column == d  # the ones of the intercept
        for q in range(0 if of_all else first[column], n if of_all else first[column + 1]):
            i, x = q, 1.0
            if not of_all:
                p = entries[q]
                i, x = row_of(X.indptr, p), features[p]
            if cap > 0.0:
                total -= clipped_loss(loss, Z, y, cap, loss_unit, i, v)
            Z[i, output] += step * x
            if cap > 0.0:
                total += clipped_loss(loss, Z, y, cap, loss_unit, i, v)
            renew(loss, X, features, Z, y, bound, i, r, R, unit, sums, buckets)
        if cap > 0.0:
            losses[t + 1] = to_grid(-(total / loss_unit), stop_grid)
        progress[0] += 1
    if cap > 0.0:
        return exponential_mechanism(rng, losses, SCALE_BITS)
    return weight.shape[0]
