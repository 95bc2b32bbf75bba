"""Conditioned records in tiles are the numbers that rows hold, wherever a record stands."""

import itertools
import math

import numpy as np
import pytest

from skdpsco._kernels import njit
from skdpsco.data.design import TILE_ROWS, Tiles, as_design, columns_of
from skdpsco.data.pieces import pieces, slice_rows
from skdpsco.data.products import dot_and_norm_rows, predict_all
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.linear_model import PrivateLogisticL1, PrivateLogisticRegression, PrivateRidge
from skdpsco.losses import Logistic, Squared
from skdpsco.penalties import L2
from skdpsco.scaling.conditioning import Conditioning, plan_conditioning
from skdpsco.solvers import gradient_sums
from skdpsco.solvers.gradient_sums import clipped_gradient_sum
from skdpsco.solvers.penalized.metric import metric_grid, shortened_products
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.second_moments import (
    add_outer,
    moved_by_one,
    run_of_columns,
    single_pays,
    upper_triangle,
)

N, D = 3 * TILE_ROWS + 5, 7
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N, D))
Y = np.sign(X[:, 0] + RNG.normal(size=N))
W, SCALE = RNG.normal(size=D + 1), RNG.uniform(0.5, 2.0, D + 1)
BOUNDS = np.linspace(0.5, 2.0, D)


def both(rows=X, single=True, intercept=True):
    """The same records in rows and in tiles."""
    scale = np.full(D, 0.3).astype(np.float32).astype(float)  # many entries are clipped
    to = Conditioning(np.linspace(-0.5, 0.5, D), scale, None, single)
    design = as_design(rows, BOUNDS, intercept)
    return to.apply(design), to.apply(design, True)


@pytest.mark.parametrize("loss", [Logistic(), Squared(0.5)])
@pytest.mark.parametrize(
    ("n", "single", "intercept"), [(N, True, True), (N, False, False), (3, True, True)]
)
def test_sums_are_those_of_rows(loss, n, single, intercept):
    rows, tiles = both(X[:n], single, intercept)
    assert tiles.values.dtype == rows.values.dtype == (np.float32 if single else np.float64)
    w, scale = W[: D + intercept], SCALE[: D + intercept]
    for bound in (0.1, 2.0):  # nearly all gradients are clipped, or few
        sums = [clipped_gradient_sum(some, Y[:n], loss, w, scale, bound) for some in (rows, tiles)]
        np.testing.assert_allclose(*sums, rtol=1e-11, atol=1e-11)
    scores = np.empty((2, n, 1))
    predict_all(rows, w, scores[0])
    predict_all(tiles, w, scores[1])
    np.testing.assert_allclose(*scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [1, TILE_ROWS, N])
def test_second_moments_are_those_of_shortened_rows(n, intercept):
    scale = SCALE[: D + intercept]
    z = columns_of(both(intercept=intercept)[0], 0, N, np.arange(D + intercept)) / scale
    norms = np.linalg.norm(z, axis=1)
    c = float(np.median(norms))  # half of the rows are shortened
    z /= np.maximum(norms, c)[:, None]
    expected = np.triu(z[:n].T @ z[:n])
    for some in both(X[:n], intercept=intercept):
        found = np.triu(shortened_products(some, Y[:n], scale, c, False))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        stops = [0, min(n, TILE_ROWS), n][: 2 + (n > TILE_ROWS)]
        cut = [
            shortened_products(slice_rows(some, start, stop), Y[start:stop], scale, c, False)
            for start, stop in itertools.pairwise(stops)
        ]
        np.testing.assert_allclose(np.triu(sum(cut)), found, rtol=1e-12, atol=1e-12)
        single = np.triu(shortened_products(some, Y[:n], scale, c, True))
        np.testing.assert_allclose(single, found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("tiled", [True, False])
def test_one_record_moves_second_moments_by_no_more_than_is_charged(tiled, single):
    """All pairs of some records, short and long ones, in the place of one of a table."""
    rows = X[:9].copy()
    corners = np.vstack([2.0 * np.eye(D), -BOUNDS, BOUNDS, np.zeros(D)])
    found = []
    for corner in corners:
        rows[4] = corner
        sums = shortened_products(both(rows)[tiled], Y[:9], SCALE, 0.7, single)
        found.append(upper_triangle(sums))
    moved = max(np.linalg.norm(a - b) for a in found for b in found)
    assert 1.0 < moved <= moved_by_one(1.0 + 1e-12, False, single)[1]


def test_rounding_of_runs_in_single_precision_is_charged():
    """Signs that rounding does not see, in a run of records that are as long as they may be."""
    rng, most = np.random.default_rng(1), 0.0
    for _ in range(200):
        v = rng.normal(size=(4, TILE_ROWS))
        V, out = run_of_columns(4, True)
        V[:] = v / np.linalg.norm(v, axis=0)
        exact = V.astype(float) @ V.T.astype(float)
        add_run(V, out)
        most = max(most, np.linalg.norm(np.triu(out - exact)))
    size, change = moved_by_one(1.0, False, True)
    assert 0.0 < 2.0 * most < change - math.sqrt(2.0) * size < 1e-3
    for added in (False, True):
        assert moved_by_one(1.0, added, False) == (1.0, 1.0 if added else math.sqrt(2.0))
        assert single_pays(2**20, 2, added) is not added
    assert not single_pays(2**20, 1, False)
    with pytest.raises(ValueError, match="single must be False"):
        moved_by_one(1.0, True, True)


def test_rows_that_are_rounded_to_single_precision_are_longer():
    rng, sizes = np.random.default_rng(0), []
    for _ in range(1000):
        row = rng.uniform(0.5, 1.0, 4).astype(np.float32)
        row = (row / np.linalg.norm(row.astype(float))).astype(np.float32)
        sizes.append(np.square(row.astype(float)).sum())
    size, _ = moved_by_one(1.0, False, True)
    assert 1.0 + 2.0**-25 < max(sizes) <= size


def test_a_metric_of_a_large_table_pays_for_single_precision():
    sizes = 2**20 - 1, 2**20
    units = {"penalty": L2(0.1), "unit": (1.0, 1.0)}
    problems = [CompositeProblem(Logistic(), None, n, 2, True, **units) for n in sizes]
    small, large = (metric_grid(problem, 1.0) for problem in problems)
    exact, single = (moved_by_one(1.0, False, one)[1] for one in (False, True))
    assert large / small - 1.0 == pytest.approx(single / exact - 1.0, rel=0.01)


@njit
def add_run(V, out):
    add_outer(V, out)


@pytest.mark.parametrize("intercept", [True, False])
def test_columns_are_those_of_rows(intercept):
    rows, tiles = both(intercept=intercept)
    for start, stop in ((0, N), (TILE_ROWS, N), (0, 10)):
        for columns in (np.arange(D + intercept), np.array([1, 4])):
            found = columns_of(tiles, start, stop, columns)
            expected = columns_of(rows, start, stop, columns)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert np.abs(found).max() <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("single", [True, False])
def test_no_entry_of_a_tile_is_rounded_beyond_its_scale(dtype, single):
    """Whoever reads tiles does not clip them."""
    plan = plan_conditioning(100, D, 1.0 if single else 1e4)
    scale = plan.stored(RNG.uniform(0.2, 0.5, D))
    rows = as_design(X.astype(dtype), BOUNDS, True)
    tiles = Conditioning(np.full(D, 0.1), scale, None, plan.single).apply(rows, True)
    assert plan.single == single
    largest = np.abs(tiles.values).max(axis=(0, 2)).astype(np.float64)
    assert (largest <= scale).all()
    assert (largest >= scale * (1.0 - 2.0**-22)).all()  # some entries are clipped


@njit
def scores_and_norms(X, v, u, Z, norms):
    for start in range(0, norms.shape[0], TILE_ROWS):
        stop = min(start + TILE_ROWS, norms.shape[0])
        dot_and_norm_rows(X, start, 0.0, v, u, Z[start:stop], norms[start:stop])


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7])
def test_no_sum_of_a_record_depends_on_its_place(width):
    """To the last bit: where a record is added, those behind it move."""
    rows, bounds = RNG.uniform(-1.0, 1.0, (N, width)), np.ones(width)
    to = Conditioning(np.full(width, 0.1), np.full(width, 0.5), None, True)
    found = []
    for shift in (0, 1, 2, 7, TILE_ROWS - 1):
        tiles = to.apply(as_design(rows[shift:], bounds, True), True)
        n = N - shift
        scores, alone, norms = np.empty((n, 1)), np.empty((n, 1)), np.empty(n)
        scores_and_norms(tiles, W[: width + 1], SCALE[: width + 1], scores, norms)
        predict_all(tiles, W[: width + 1], alone)
        found.append([numbers[-2 * TILE_ROWS :] for numbers in (scores, alone, norms)])
    for other in found[1:]:
        for numbers, expected in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(numbers, expected)


def test_pieces_are_whole_tiles():
    n = 70_000
    _, tiles = both(np.zeros((n, D)))
    parts = pieces(tiles, np.zeros(n))
    assert [len(y) for _, y in parts] == [len(X.values) * TILE_ROWS for X, _ in parts[:-1]] + [
        len(parts[-1][1])
    ]
    assert sum(len(y) for _, y in parts) == n
    assert sum(len(X.values) for X, _ in parts) == len(tiles.values)
    y = RNG.normal(size=n)
    whole = clipped_gradient_sum(tiles, y, Squared(1.0), W, SCALE, 0.5)
    found = map_reduce(in_pieces(tiles, y), y, clipped_gradient_sum, Squared(1.0), W, SCALE, 0.5)
    np.testing.assert_allclose(found, whole, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "y", "tiled"),
    [
        (PrivateRidge(target_bound=1.0), Y, True),
        (PrivateLogisticRegression(classes=[-1, 1]), Y, True),
        (PrivateLogisticL1(classes=[-1, 1]), Y, True),
        (PrivateRidge(target_bound=1.0, standard_errors=True), Y, False),
        (PrivateLogisticRegression(classes=[0, 1, 2]), np.arange(N) % 3, False),
    ],
)
def test_gradient_descent_reads_tiles(monkeypatch, model, y, tiled):
    seen = set()
    original = gradient_sums.add_gradients

    def spy(X, *arguments):
        seen.add(type(X) is Tiles)
        return original(X, *arguments)

    monkeypatch.setattr(gradient_sums, "add_gradients", spy)
    model.set_params(epsilon=50.0, delta=1e-5, feature_bound=2.0).fit(X, y)
    assert seen == {tiled}


def test_little_noise_keeps_double_precision():
    """Rounding stays far below the noise."""
    for n, single in ((2**17, True), (2**18, False)):
        assert plan_conditioning(n, D, 1.0).single is single
