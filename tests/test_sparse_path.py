"""The incremental path over sparse records: exact sums, the law of its choices, odd matrices."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from scipy import sparse, stats

from skdpsco import PrivateLogisticL1
from skdpsco.constraints import L1Ball
from skdpsco.data.design import as_design, columns_of, sparse_columns_of
from skdpsco.losses import (
    Huber,
    Logistic,
    Multinomial,
    SmoothHinge,
    Squared,
    derivative,
    derivatives,
    value,
    values,
)
from skdpsco.mechanisms.bucket_sampler import new_buckets
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget
from skdpsco.solvers import FrankWolfe, Problem, Stagewise
from skdpsco.solvers.l1 import sparse_path as sparse_module
from skdpsco.solvers.l1 import vertex_path as path_module
from skdpsco.solvers.l1.stagewise import stagewise_path

ONE = 2.0**SCALE_BITS
FALSE_ALARM, CERTAIN = 1e-8, 1e-20
FAR = Squared(99.0)  # no residual is clipped
LOSSES = [Logistic(), FAR, Squared(0.8), Huber(0.5), SmoothHinge(0.5), Multinomial(3)]


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def records(loss, n=60, d=25, seed=0, density=0.15):
    """Sparse records beyond their bounds, with empty rows and columns and explicit zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[[0, n // 2, n - 1]] = 0.0
    X[:, [0, d // 2, d - 1]] = 0.0
    X = sparse.csr_matrix(X)
    X.data[::7] = 0.0
    if loss.n_outputs > 1:
        return X, rng.integers(loss.n_outputs, size=n).astype(float)
    y = np.tanh(X @ rng.normal(size=d) + 0.2 * rng.normal(size=n))
    return X, y if isinstance(loss, (Squared, Huber)) else np.where(y > 0, 1.0, -1.0)


def follow(loss, T, intercept, radius=3.0, epsilon=5.0, choose=False, seed=0, **options):
    """Run the kernel and keep its state."""
    X, y = records(loss, **options)
    n, d = X.shape
    design = as_design(X, np.linspace(0.3, 2.0, d), intercept)
    constraint = None if choose else L1Ball(radius)
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    plan = Stagewise().plan(problem, Budget(epsilon, 1e-3), T)
    state, original = {}, sparse_module.sparse_path

    def keep_state(*arguments):
        for group in arguments:
            state.update(group._asdict() if hasattr(group, "_asdict") else {})
        # A user's loss would be compiled in every run.
        return (original.py_func if isinstance(loss, Untrue) else original)(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_module, "sparse_path", keep_state)
        ball, progress = L1Ball(plan.radius), np.zeros(1, dtype=np.int64)
        coef, chosen, stop = path_module.run_vertices(
            plan.path, problem, ball, design, y, seeded(seed), progress
        )
    assert state  # the incremental way was taken
    assert progress[0] == T
    return design, y, plan, coef, chosen, stop, state


def full_pass(X, y, loss, w):
    """Predictions, sums of gradients, and losses."""
    n, d = len(y), len(X.bounds)
    features = np.clip(X.data / X.bounds[X.indices], -1.0, 1.0)
    A = np.ones((n, d + X.intercept))
    A[:, :d] = sparse.csr_matrix((features, X.indices, X.indptr), shape=(n, d)).toarray()
    Z = A @ w.reshape(loss.n_outputs, -1).T
    R, losses = np.empty_like(Z), np.empty(n)
    derivatives(loss, Z, y, R)
    values(loss, Z, y, losses)
    return Z, (R.T @ A).ravel(), losses


# ------------------------------------------------------------------------------ sums


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_sums_after_many_steps_are_those_of_a_full_pass(loss, intercept):
    T = 3000
    X, y, plan, coef, chosen, stop, state = follow(loss, T, intercept, choose=loss != FAR)
    assert len(np.unique(chosen)) > 30
    if intercept:
        d = len(X.bounds) + 1
        assert (chosen % d == d - 1).any()  # its own step changes every record
    # Exact: the same integers as of the same derivatives, at one go.
    fresh = np.empty_like(state["sums"])
    sparse_module.correlate_units(
        X, state["features"], state["R"], state["unit"], fresh, state["room"]
    )
    assert np.array_equal(state["sums"], fresh)
    # And what a full pass over the data gives, up to the rounding of predictions.
    Z, G, losses = full_pass(X, y, loss, coef)
    assert state["Z"] == pytest.approx(Z, abs=1e-11)
    assert state["sums"] / state["unit"] == pytest.approx(G, abs=1e-9)
    if plan.path.cap > 0.0:
        total = np.clip(losses, 0.0, plan.path.cap).sum()
        found = -state["losses"][T] * plan.path.stop_grid
        assert found == pytest.approx(total, abs=plan.path.stop_grid)
    steps = np.bincount(chosen % len(coef), np.where(chosen < len(coef), 1, -1), len(coef))
    assert coef == pytest.approx(steps * plan.radius / T, abs=1e-12)
    assert 0 <= stop <= T


@each("intercept", [False, True])
@each("loss", [Logistic(), Multinomial(3)])
def test_long_records_with_common_and_rare_features(loss, intercept):
    """Sums are changed by runs of entries, and taken anew after steps in common features."""
    d = 700
    density = np.where(np.arange(d) % 2, 0.7, 0.1)
    X, _, _, _, chosen, _, state = follow(loss, 150, intercept, d=d, density=density)
    common = state["first"][1:] - state["first"][:-1] > 60 // sparse_module.SPARSE_PATH.anew
    kinds = common[chosen[chosen % (d + intercept) < d] % (d + intercept)]
    assert np.diff(X.indptr).max() > sparse_module.SPARSE_PATH.run
    assert 30 < kinds.sum() < len(kinds) - 30
    rows = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
    exact = np.zeros((loss.n_outputs, d + intercept), dtype=np.int64)
    for k, slopes in enumerate(state["R"].T):
        terms = np.rint(slopes[rows] * state["features"] * state["unit"]).astype(np.int64)
        np.add.at(exact[k], X.indices, terms)
        exact[k, d:] = np.rint(slopes * state["unit"]).astype(np.int64).sum()
    assert np.array_equal(state["sums"], exact.ravel())


def test_losses_along_the_path():
    """Every one of them, not only the last."""
    loss, T = Logistic(), 50
    X, y, plan, coef, chosen, _, state = follow(loss, T, True, choose=True)
    radii, points = stagewise_path(chosen, plan.radius, len(coef))
    for t, point in enumerate(points.toarray()):
        assert points.point(t) == pytest.approx(point)
        assert np.abs(point).sum() <= radii[t] * (1 + 1e-12)
        _, _, losses = full_pass(X, y, loss, point)
        total = np.clip(losses, 0.0, plan.path.cap).sum()
        assert -state["losses"][t] * plan.path.stop_grid == pytest.approx(
            total, abs=plan.path.stop_grid
        )


@each("n", [1, 2, 1000, 2**20, 2**31])
@each("bound", [1e-200, 0.5, 1.0, 1.01, 1e200])
def test_integers_neither_overflow_nor_lose_precision(n, bound):
    unit = sparse_module.integer_unit(n, bound)
    assert math.frexp(unit)[0] == 0.5  # a power of two: products with it are exact
    assert n * (bound * unit + 0.5) < 2.0**62
    # What rounding to integers may change is far below what the plan allows for float sums.
    assert n * 0.5 / unit <= 2.0**-4 * (n + 1) ** 2 * 2.0**-53 * bound


def test_derivatives_beyond_their_bound_are_clipped():
    """A loss that is not what it says, or not a number, cannot overflow the sums."""
    out = np.empty((1, 1))
    for z, expected in ((7.0, 0.5), (-7.0, -0.5), (np.nan, 0.5)):
        sparse_module.write_slopes(Squared(), np.array([[z]]), np.zeros(1), 0.5, 0, out)
        assert out[0, 0] == expected
    out = np.empty(1)
    for z, expected in ((3.0, 2 * 8), (1.0, 4), (np.nan, 2 * 8)):
        units = sparse_module.clipped_loss(
            Squared(), np.array([[z]]), np.zeros(1), 2.0, 8.0, 0, out
        )
        assert units == expected


class Untrue(NamedTuple):
    """Steeper than it says, by bounds that grow along the path, or fall."""

    growth: float

    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 0.5 + self.growth * min(prediction_bound, 1.0)

    def smoothness(self):
        return 1.0

    def curvature_constant(self, diameter):
        return diameter * diameter

    def baseline(self, target_bound=1.0):
        return 1.0


@value.register(Untrue)
def _(loss, z, y):
    return -9.0 * y * z


@derivative.register(Untrue)
def _(loss, z, y):
    return -9.0 * y


@pytest.mark.parametrize("growth", [0.4, -0.4])
def test_all_derivatives_keep_to_the_bound_of_the_step(growth):
    """Also of records that no step touches: a neighbour followed by full passes has the same."""
    X, y, plan, _, _, _, state = follow(Untrue(growth), 100, False)
    bounds = np.unique(plan.path.slope)
    assert len(bounds) > 3
    assert state["R"][:, 0].tolist() == (-plan.path.slope[-1] * y).tolist()
    fresh = np.empty_like(state["sums"])
    sparse_module.correlate_units(
        X, state["features"], state["R"], state["unit"], fresh, state["room"]
    )
    assert np.array_equal(state["sums"], fresh)


# ------------------------------------------------------------------------------ matrices


def chosen_of(X, y, loss, seed=3):
    n, d = X.shape
    problem = Problem(loss, L1Ball(2.0), n, d + 1, True)
    plan = Stagewise().plan(problem, Budget(50.0, 1e-3), 100).path
    design = as_design(X, np.full(d, 0.7), True)
    assert sparse_module.is_incremental(plan, problem, L1Ball(2.0), design)
    progress = np.zeros(1, dtype=np.int64)
    return path_module.run_vertices(plan, problem, L1Ball(2.0), design, y, seeded(seed), progress)


def test_layouts_of_the_same_matrix():
    """Explicit zeros, 64-bit indices, arrays that are too long: the same path."""
    loss = Logistic()
    X, y = records(loss)
    expected = chosen_of(X, y, loss)[1]
    clean = X.copy()
    clean.eliminate_zeros()
    assert clean.nnz < X.nnz
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    # What lies behind the last entry belongs to no record.
    data, indices = np.append(X.data, [9.0, 9.0]), np.append(X.indices, [1, 2])
    long = sparse.csr_matrix(X.shape)
    long.data, long.indices, long.indptr = data, indices.astype(np.int32), X.indptr
    for other in (clean, wide, long):
        assert np.array_equal(chosen_of(other, y, loss)[1], expected)
    assert not np.array_equal(chosen_of(X, -y, loss)[1], expected)


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1)])
def test_matrices_of_one_row_or_column(shape):
    X = sparse.csr_matrix(shape)
    y = np.ones(shape[0])
    _, chosen, _ = chosen_of(X, y, Logistic())
    assert ((0 <= chosen) & (chosen < 2 * (shape[1] + 1))).all()
    # The intercept alone has anything to say.
    assert np.mean(chosen == shape[1]) > 1 / (shape[1] + 1) / 2


def test_sparse_columns():
    X, _ = records(Logistic())
    for intercept in (False, True):
        design = as_design(X, np.linspace(0.3, 2.0, 25), intercept)
        for columns in (np.array([0]), np.array([3, 4, 20]), np.arange(25 + intercept)):
            found = sparse_columns_of(design, columns)
            assert np.array_equal(found.toarray(), columns_of(design, 0, 60, columns))


# ------------------------------------------------------------------------------ which way


def test_the_way_follows_from_sizes():
    X, _ = records(Logistic(), n=200)
    problem = Problem(Logistic(), L1Ball(2.0), 200, 25)
    budget = Budget(1.0, 1e-6)
    design = as_design(X, np.ones(25), False)
    long, short = (Stagewise().plan(problem, budget, T).path for T in (40, 39))
    shrinking = FrankWolfe().plan(problem, budget, 100).path
    laplace = FrankWolfe("laplace").plan(problem, budget, 100).path
    filled = as_design(sparse.csr_matrix(np.ones((200, 25))), np.ones(25), False)
    dense = as_design(X.toarray(), np.ones(25), False)

    def incremental(plan, data=design, problem=problem):
        return sparse_module.is_incremental(plan, problem, L1Ball(2.0), data)

    assert incremental(long)
    for plan in (short, shrinking, laplace, dataclasses.replace(long, mechanism=laplace.mechanism)):
        assert not incremental(plan)
    assert incremental(long, filled)  # the number of non-zeros is not public
    assert not incremental(long, dense)
    for sizes in ({"n_features": 2**29}, {"n_samples": 2**26 + 1}):
        assert not incremental(long, design, dataclasses.replace(problem, **sizes))
    # Units of integers would not be exact, or overflow.
    T = len(long.weight)
    for change in ({"grid": (1e-260,) * T}, {"grid": (1e300,) * T}, {"slope": (1e-260,) * T}):
        assert not incremental(dataclasses.replace(long, **change))
    assert not sparse_module.is_incremental(long, problem, L1Ball(1e-251), design)


def test_grids_are_few_and_wide_enough():
    """Steps share a grid if it is at most 5 % wider than they need."""
    problem = Problem(Logistic(), L1Ball(20.0), 1000, 5000)
    plan = Stagewise().plan(problem, Budget(1.0, 1e-6), 1000).path
    grid = np.array(plan.grid)
    alone = [
        Logistic().lipschitz(20.0 * t / 1000) * grid[-1] / Logistic().lipschitz(20.0)
        for t in range(1000)
    ]
    assert (grid >= np.array(alone) * (1 - 1e-9)).all()
    assert (grid <= np.array(alone) * 1.051).all()
    assert len(np.unique(grid)) < 20
    assert np.array(plan.slope) == pytest.approx(grid / grid[-1] * plan.slope[-1], rel=1e-6)
    assert plan.slope[-1] == pytest.approx(1.0)


# ------------------------------------------------------------------------------ law


def test_the_law_of_two_choices(monkeypatch):
    """All pairs of choices of compiled runs, against the softmax of scores computed here."""
    tuning = sparse_module.SPARSE_PATH._replace(least_steps=1)
    monkeypatch.setattr(sparse_module, "SPARSE_PATH", tuning)
    loss, T, N = Logistic(), 2, 30_000
    X = sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, -1.0], [0.0, 1.0], [1.0, 0.0]]))
    y = np.array([1.0, 1.0, -1.0, 1.0])
    problem = Problem(loss, L1Ball(4.0), 4, 2)
    plan = Stagewise().plan(problem, Budget(8.0, 1e-3), T).path
    design = as_design(X, np.ones(2), False)

    def law(w, t, sharpen=1.0):
        r = -y / (1.0 + np.exp(y * (X @ w)))
        g = X.T @ r
        scores = -4.0 * np.concatenate([g, -g]) / plan.grid[t] / ONE * sharpen
        return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()

    def pairs(sharpen=1.0):
        result = []
        for k, p in enumerate(law(np.zeros(2), 0, sharpen)):
            w = np.zeros(2)
            w[k % 2] = 2.0 if k < 2 else -2.0
            result.extend(p * law(w, 1, sharpen))
        return np.array(result)

    counts = np.zeros(16)
    rng, progress = seeded(1), np.zeros(1, dtype=np.int64)
    for _ in range(N):
        _, chosen, _ = path_module.run_vertices(
            plan, problem, L1Ball(4.0), design, y, rng, progress
        )
        counts[4 * chosen[0] + chosen[1]] += 1
    assert (N * pairs() > 10).all()
    assert stats.chisquare(counts, N * pairs()).pvalue > FALSE_ALARM
    assert stats.chisquare(counts, N * pairs(1.2)).pvalue < CERTAIN


# ------------------------------------------------------------------------------ estimators


@pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")  # seeds: to be repeatable
@pytest.mark.parametrize("n_classes", [2, 3])
def test_incremental_fits_are_as_good(n_classes, monkeypatch):
    """A little noise: both ways find what is there; and with bounds per column."""
    rng = np.random.default_rng(0)
    X = sparse.random(3000, 300, 0.05, format="lil", random_state=1)
    X[:, :4] = rng.random((3000, 4)) < 0.5
    X = 2.0 * X.tocsr().sign()
    W = np.zeros((300, n_classes))
    W[:4, 1] = [3.0, -3.0, 3.0, -3.0]
    y = (X @ W + rng.gumbel(size=(3000, n_classes)) * 0.3).argmax(axis=1)
    bounds = np.full(300, 2.0)
    bounds[5] = 1.0

    def fit():
        model = PrivateLogisticL1(
            epsilon=1e4, radius=30.0, n_iter=60, feature_bound=bounds, random_state=0
        )
        return model.fit(X, y)

    fast = fit()
    tuning = sparse_module.SPARSE_PATH._replace(least_steps=math.inf)
    monkeypatch.setattr(sparse_module, "SPARSE_PATH", tuning)
    slow = fit()
    assert fast.privacy_.event == slow.privacy_.event
    assert fast.score(X, y) == pytest.approx(slow.score(X, y), abs=0.02)
    assert fast.score(X, y) > np.mean(y == np.bincount(y).argmax()) + 0.1
    assert len(fast.path_.radius) == 61
    assert fast.path_.coef.shape[0] == 61


def test_buckets_have_room_for_each_coordinate():
    buckets = new_buckets(5)
    assert len(buckets.order) == len(buckets.place) == 5
    assert buckets.reference[0] < 0
