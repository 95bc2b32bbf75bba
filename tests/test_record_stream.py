"""Records one by one: rows within their bounds, orders, chunks and blocks."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from cases import each
from scipy import sparse, stats

from skdpsco._kernels import njit
from skdpsco.data import record_stream as module
from skdpsco.data.design import CentredDense, as_design, read_only
from skdpsco.data.record_stream import (
    CHUNK_RECORDS,
    Records,
    fetch_row,
    one_pass,
    read_row,
    row_add,
    row_dot,
    row_room,
)
from skdpsco.data.record_sums import BlockDesign
from skdpsco.losses import Logistic
from skdpsco.solvers import Problem

LAYOUTS = ["dense", "int32", "int64"]
layouts = pytest.mark.parametrize("layout", LAYOUTS)
or_centred = pytest.mark.parametrize("layout", [*LAYOUTS, "centred"])
intercepts = pytest.mark.parametrize("intercept", [False, True])


def centre_of(d):
    return np.linspace(-0.9, 0.8, d)


def design(layout, X, bounds, intercept=False):
    X = np.atleast_2d(np.asarray(X, dtype=float))
    if layout == "centred":
        return CentredDense(*design("dense", X, bounds, intercept), centre_of(X.shape[1]))
    if layout != "dense":
        X = sparse.csr_matrix(X)
        X.indices, X.indptr = X.indices.astype(layout), X.indptr.astype(layout)
    return as_design(X, np.broadcast_to(np.asarray(bounds, float), X.shape[1]).copy(), intercept)


def rng_of(seed):
    return np.random.Generator(np.random.PCG64(seed))


def python(X, i, w, factor, start, inverse, row_norm, columns, values):
    fetch_row(X, np.full(5, i), 0)
    size = read_row(X, i, inverse, row_norm, columns, values)
    z = row_dot(X, columns, values, size, w, start)
    row_add(X, columns, values, size, factor, w, start)
    return size, z


@njit
def compiled(X, i, w, factor, start, inverse, row_norm, columns, values):
    fetch_row(X, np.full(5, i), 0)
    size = read_row(X, i, inverse, row_norm, columns, values)
    z = row_dot(X, columns, values, size, w, start)
    row_add(X, columns, values, size, factor, w, start)
    return size, z


def seen(X, i, row_norm=math.inf, run=compiled):
    """Record i as kernels see it, a dense vector."""
    row = row_room(X, row_norm)
    D = len(row[-1])
    w = np.zeros(D)
    size, z = run(X, i, w, 1.0, 0, *row)
    assert z == 0.0
    assert size <= D
    return w


# ------------------------------------------------------------------------------ rows


@pytest.mark.parametrize("run", [compiled, python])
@pytest.mark.parametrize("row_norm", [math.inf, 100.0, 0.7])
@intercepts
@or_centred
def test_rows_agree_with_numpy(layout, intercept, row_norm, run):
    rng = np.random.default_rng(0)
    X = rng.normal(scale=2.0, size=(9, 7)) * (rng.random((9, 7)) < 0.6)
    X[0], X[1, 2], X[2, 3] = 0.0, 1e300, -1e300
    bounds = rng.uniform(0.2, 4.0, 7)
    F = np.clip(X, -bounds, bounds) / bounds
    if layout == "centred":
        F = np.clip(F - centre_of(7), -1.0, 1.0)
    norms = np.linalg.norm(F, axis=1, keepdims=True)
    F = F * np.minimum(1.0, row_norm / np.maximum(norms, 1e-300))
    F = np.hstack([F, np.ones((9, 1))]) if intercept else F
    D = F.shape[1]
    wrapped = design(layout, X, bounds, intercept)
    row = row_room(wrapped, row_norm)  # one serves all rows, whatever the last one left in it
    for i, k in itertools.product(range(9), range(2)):
        np.testing.assert_allclose(seen(wrapped, i, row_norm, run), F[i], rtol=1e-14)
        w = rng.normal(size=2 * D)
        expected = w.copy()
        expected[k * D : (k + 1) * D] += 0.3 * F[i]
        _, z = run(wrapped, i, given := w.copy(), 0.3, k * D, *row)
        np.testing.assert_allclose(z, F[i] @ w[k * D : (k + 1) * D], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-14)


@intercepts
@or_centred
@pytest.mark.parametrize("d", [1, 6])
def test_rows_keep_to_the_norms_of_the_problem(layout, intercept, d):
    """Sensitivities follow from these norms, rounding included, even at the ends of the range."""
    rng = np.random.default_rng(1)
    rows = [
        np.full(d, 1e300), np.full(d, -1e300), np.full(d, 1e-100), np.full(d, 5e-324),
        np.eye(d)[-1], np.full(d, np.finfo(float).max), rng.normal(size=d),
        1e-160 * rng.normal(size=d), 1e200 * rng.normal(size=d), rng.choice([-1.0, 1.0], d),
        np.full(d, 3e-150), np.zeros(d),
    ]  # fmt: skip
    closest = 0.0
    norms = (1e-150, 1e-100, 1e-3, 0.5, 2.0)
    for bound, row_norm in itertools.product((1e-100, 1 / 3, 1.0, 1e100), norms):
        X = design(layout, rows, bound, intercept)
        problem = Problem(Logistic(), None, len(rows), d + intercept, intercept, 1.0, row_norm)
        for i in range(len(rows)):
            x = seen(X, i, row_norm)
            assert np.isfinite(x).all()
            assert (np.abs(x) <= 1.0).all()
            top = max(np.abs(x).max(), 1e-300)
            for order in (1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 1e6, math.inf):
                norm = top * float(np.linalg.norm(x / top, ord=order))
                assert norm <= problem.feature_norm(order)
                closest = max(closest, norm / problem.feature_norm(order))
    assert closest > 1.0 - 1e-12  # the bound is attained


def test_norms_of_a_problem_are_those_of_its_longest_rows():
    for given, order, expected in (
        (Problem(Logistic(), None, 1, 4), 4.0, 2**0.5),
        (Problem(Logistic(), None, 1, 4, row_norm=1.5), 4.0, 1.5**0.5),
        (Problem(Logistic(), None, 1, 4, row_norm=0.5), 4.0, 0.5),
        (Problem(Logistic(), None, 1, 4, row_norm=0.5), 1.0, 1.0),
        (Problem(Logistic(), None, 1, 4, row_norm=1e-100), 1e6, 1e-100),
        (Problem(Logistic(), None, 1, 4, row_norm=1e-100), math.inf, 1e-100),
        (Problem(Logistic(), None, 1, 5, True, row_norm=1e-100), 10.0, 1.0),
        (Problem(Logistic(), None, 1, 5, True, row_norm=0.5), 1.0, 2.0),
        (Problem(Logistic(), None, 1, 5, True), 3.0, 5 ** (1 / 3)),
        (Problem(Logistic(), None, 1, 1, True), 2.0, 1.0),
    ):
        assert expected <= given.feature_norm(order) <= expected * (1.0 + 1e-13)


@each("bad", [0.0, -1.0, math.nan, -math.inf, 1e-151])
def test_bad_row_norms(bad):
    """Squares of the entries of rows that are to be so short would vanish, and they stay long."""
    with pytest.raises(ValueError, match="row_norm must be at least 1e-150, got"):
        Problem(Logistic(), None, 10, 2, row_norm=bad)


@layouts
def test_short_rows_stay_as_they_are_and_long_ones_keep_their_direction(layout):
    short = [3e-171, -4e-171]  # squares vanish
    X = design(layout, [short, [0.3, -0.4], [30.0, -40.0]], 1.0)
    np.testing.assert_array_equal(seen(X, 0, 0.1), short)
    np.testing.assert_array_equal(seen(X, 1, 0.6), [0.3, -0.4])
    np.testing.assert_allclose(seen(X, 1, 0.1), [0.06, -0.08], rtol=1e-15)
    # Clipped first, then shrunk.
    np.testing.assert_allclose(seen(X, 2, 1.0), [0.5**0.5, -(0.5**0.5)], rtol=1e-15)


@each("row_norm", [math.inf, 1.0])
@layouts
def test_what_is_not_a_number_is_clipped(layout, row_norm):
    # Validation refuses it; if it did not, it must not spread to what other records add up to.
    X = design("dense", [[0.5, 0.25], [0.5, 0.25]], 1.0)
    broken = np.array([[np.nan, 0.25], [-np.inf, np.inf]])
    X = design(layout, [[0.5, 0.25], [0.5, 0.25]], 1.0)
    values = read_only(broken if layout == "dense" else broken.ravel())
    X = X._replace(**{X._fields[0]: values})
    for i in (0, 1):
        x = seen(X, i, row_norm)
        assert (np.abs(x) <= 1.0).all()
        assert np.linalg.norm(x) <= min(row_norm * (1.0 + 1e-15), 2**0.5)
    np.testing.assert_array_equal(np.sign(seen(X, 1, row_norm)), [-1.0, 1.0])


# ------------------------------------------------------------------------------ orders


def order(n, seed):
    records = Records(design("dense", np.zeros((n, 1)), 1.0), np.zeros(n), rng_of(seed))
    return np.concatenate([rows for _, _, rows in records.take(n)])


@each("n", [*range(1, 40), 255, 256, 257, 1000, 65_537, CHUNK_RECORDS, CHUNK_RECORDS + 1])
def test_orders_are_permutations(n):
    for seed in (0, 1):
        np.testing.assert_array_equal(np.sort(order(n, seed)), np.arange(n))


@pytest.mark.parametrize("n", [2**31 + 5, 2**40, 3**25 + 1])
def test_orders_of_huge_numbers_of_records(n):
    """One to one, and within range, where products of 64 bits would overflow first."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**64, module._ROUNDS, dtype=np.uint64)
    rows = np.unique(np.append(rng.integers(0, n, 20_000), [0, 1, n - 1]))
    count = len(rows)
    module._permute(keys, n, rows)
    assert rows.min() >= 0
    assert rows.max() < n
    assert len(np.unique(rows)) == count
    # Uniform: the mean of 20,000 uniform numbers is within six standard errors.
    assert abs(rows.mean() / n - 0.5) < 6 * (12 * count) ** -0.5


def test_orders_mix():
    """Places and neighbours are as random as they should be: chi-squared, false alarm 1e-7."""
    n, bins, seeds = 600, 6, 300
    orders = np.array([order(n, seed) for seed in range(seeds)])
    width = n // bins
    for record in (0, 1, 299, 599):
        places = np.argmax(orders == record, axis=1) // width
        assert stats.chisquare(np.bincount(places, minlength=bins)).pvalue > 1e-7
    # Records that were neighbours: the distance of their new places.
    places = np.argsort(orders, axis=1)
    cells = np.zeros((bins, bins))
    np.add.at(cells, (places[:, 0:-1:2].ravel() // width, places[:, 1::2].ravel() // width), 1)
    # Given one place, the other has one place fewer in its own bin.
    expected = np.full((bins, bins), width * width) - np.eye(bins) * width
    expected *= cells.sum() / expected.sum()
    assert stats.chisquare(cells.ravel(), expected.ravel()).pvalue > 1e-7
    # Neighbours remain neighbours as often as by chance, and 40 % more often after four rounds.
    same = np.abs(np.diff(places, axis=1)) == 1
    assert abs(same.mean() - 2 / n) < 6 * math.sqrt(2 / n / same.size)


def test_small_permutations_are_all_possible():
    found = Counter(tuple(order(4, seed).tolist()) for seed in range(6000))
    assert len(found) == 24
    # 250 of each are expected; a network of few rounds is not quite uniform on 24.
    assert 100 < min(found.values()) <= max(found.values()) < 500


def test_orders_depend_on_the_generator_and_on_n_only():
    np.testing.assert_array_equal(order(100, 3), order(100, 3))
    assert (order(100, 3) != order(100, 4)).mean() > 0.8
    X = np.random.default_rng(0).normal(size=(100, 2))
    records = Records(design("int32", X, 0.1), X[:, 0], rng_of(3))
    rows = np.concatenate([rows for _, _, rows in records.take(100)])
    np.testing.assert_array_equal(rows, order(100, 3))


# ------------------------------------------------------------------------------ chunks


@each("shuffle", [False, True])
@each(
    "takes",
    [[3 * CHUNK_RECORDS + 5], [1, CHUNK_RECORDS, 0, CHUNK_RECORDS + 1, CHUNK_RECORDS + 3], [5] * 3],
)
def test_chunks_go_on_where_the_last_one_ended(takes, shuffle):
    n = 3 * CHUNK_RECORDS + 5
    X, y = design("dense", np.zeros((n, 1)), 1.0), np.zeros(n)
    records = one_pass(X, y, rng_of(0), shuffle)
    found = []
    for size in takes:
        chunks = list(records.take(size))
        assert all(c[0] is X and c[1] is y for c in chunks)
        assert all(0 < len(rows) <= CHUNK_RECORDS for _, _, rows in chunks)
        assert sum(len(rows) for _, _, rows in chunks) == size
        found += [rows for _, _, rows in chunks]
    total = sum(takes)
    expected = order(n, 0)[:total] if shuffle else np.arange(total)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert records.taken == total
    with pytest.raises(ValueError, match=f"There are {n} records, {n + 1} were asked for"):
        next(records.take(n - total + 1))


# ------------------------------------------------------------------------------ blocks


def stream(pairs):
    """Blocks of one feature, as a solver gets them."""
    return one_pass(BlockDesign(pairs, np.full(1, 1e9), 0, None, False), None, rng_of(0), True)


def contents(chunks):
    found = []
    for X, y, rows in chunks:
        np.testing.assert_array_equal(X.values[rows, 0], y[rows])
        assert 0 < len(rows) <= CHUNK_RECORDS
        found += y[rows].tolist()
    return found


def test_blocks_are_read_when_they_are_needed():
    asked = []

    def source():
        for k in range(3):
            asked.append(k)
            yield np.zeros((4, 1)), np.zeros(4)

    given = stream(source())
    assert asked == []
    assert len(contents(given.take(3))) == 3
    assert asked == [0]
    assert len(contents(given.take(2))) == 2
    assert asked == [0, 1]
