"""The solver of noisy moments: its parts, its plans, what it finds without noise and with it."""

import itertools
import math

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivatives
from skdpsco.losses import values as values_of
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.penalties import L1, L2, Box, ElasticNet, stationarity_gap
from skdpsco.privacy import Budget, epsilon_of, is_gaussian, mu_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers import Allowance, check_cost, check_supported
from skdpsco.solvers.moments import moments as module
from skdpsco.solvers.moments import plan as planning
from skdpsco.solvers.moments import sums as sums
from skdpsco.solvers.moments.moments import Moments
from skdpsco.solvers.moments.plan import bound_of
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import (
    Model,
    descend,
    james_stein,
    saturation,
    separate,
)

LOSSES = [Logistic(), Multinomial(3), Squared()]
PENALTIES = [L1(0.02), L2(0.01), ElasticNet(0.01, 0.02), Box(0.3), None]
PLENTY = Allowance(1e18)
each_loss = pytest.mark.parametrize("loss", LOSSES)


def problem_for(loss, penalty, n, d, intercept=True):
    unit = (1.0,) * d + (0.0,) * intercept
    return CompositeProblem(loss, None, n, d + intercept, intercept, penalty=penalty, unit=unit)


def fit(X, y, loss, penalty, budget, *, intercept=True, **params):
    """Coefficients, intercepts and the plan."""
    n, d = X.shape
    problem = problem_for(loss, penalty, n, d, intercept)
    plan = Moments(**params).plan(problem, budget)
    design = as_design(X, np.ones(d), intercept)
    rng, progress = np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.int64)
    result = Moments(**params).run(plan, problem, design, y, rng, progress)
    assert progress[0] == result.n_iter == plan.n_iter
    W = result.coef.reshape(loss.n_outputs, -1)
    return W[:, :d], W[:, d:], plan


def data(loss, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * np.linspace(1.0, 0.5, d)
    X[:, 0] += 0.5 * X[:, 1]
    X = np.clip(X, -1, 1)
    z = X @ np.linspace(2, -1, d) + 0.4
    if loss.n_outputs > 1:
        return X, np.argmax(
            np.outer(z, np.linspace(-1, 1, loss.n_outputs)) + rng.gumbel(size=(n, loss.n_outputs)),
            axis=1,
        ).astype(float)
    if isinstance(loss, Logistic):
        return X, np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, np.clip(0.3 * z + 0.1 * rng.normal(size=n), -1, 1)


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(module, "gaussian_mechanism", lambda rng, values, grid: deviation_on(grid))


# ------------------------------------------------------------------------------ parts


def quadratic(d=5, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(20, d))
    return B.T @ B / 20, rng.normal(size=d)


@pytest.mark.parametrize("penalty", [L1(0.3), ElasticNet(0.2, 0.3), Box(0.4), L2(0.7)])
def test_descend_by_its_optimality_conditions(penalty):
    A, c = quadratic()
    unit, weight = np.array([1.0, 0.5, 2.0, 0.0, 3.0]), 0.8
    v = np.zeros(5)
    descend(A, c, penalty, weight, unit, v)
    gap = [
        stationarity_gap(penalty, w, slope, weight, u)
        for w, slope, u in zip(v, A @ v - c, unit, strict=True)
    ]
    assert max(gap) < 1e-10
    python = np.zeros(5)
    descend.py_func(A, c, penalty, weight, unit, python)
    assert python == pytest.approx(v, rel=1e-9, abs=1e-12)
    descend(A, c, penalty, weight, unit, v)  # from the minimum it stays there
    assert python == pytest.approx(v, rel=1e-9, abs=1e-12)
    # A diagonal matrix takes one step; L2 is solved in closed form.
    diagonal, separated = np.zeros(5), np.zeros(5)
    a = A.diagonal().copy()
    descend(np.diag(a), c, penalty, weight, unit, diagonal)
    for function in (separate, separate.py_func):
        function(a, c, penalty, weight, unit, separated)
        assert separated == pytest.approx(diagonal, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("penalty", [L2(0.7), None])
def test_a_ridge_is_solved_as_by_coordinates(penalty):
    A, c = quadratic(d=4)
    problem = problem_for(Logistic(), penalty, 10, 3)
    scale = np.array([2.0, 2.0, 2.0, 0.3])
    linear = np.array([c, -2.0 * c])
    used = L2(0.0) if penalty is None else penalty
    model = Model(A, problem, scale)
    for curvature in (0.5, 2.0, 2.0, 0.5):  # factors belong to a curvature
        W = model.minimise(curvature, linear, np.zeros((2, 4)))
        v = np.zeros(4)
        descend(curvature * A, c, used, 1.0, np.array(problem.unit) * scale, v)
        assert W == pytest.approx(np.array([v, -2.0 * v]), rel=1e-8)


def test_saturation_is_the_mean_curvature():
    nodes = np.linspace(-9, 9, 4001)
    density = np.exp(-(nodes**2) / 2) / np.exp(-(nodes**2) / 2).sum()
    for variance in (0.0, 0.1, 1.0, 10.0, 300.0):
        exact = density @ np.cosh(0.5 * math.sqrt(variance) * nodes) ** -2.0
        assert saturation(variance) == pytest.approx(exact, rel=0.03)


def test_shrinking():
    rng = np.random.default_rng(0)
    truth = np.full(200, 0.3)
    noisy = truth + rng.normal(size=200)
    assert np.square(james_stein(noisy, 1.0) - truth).sum() < 0.3 * np.square(noisy - truth).sum()
    assert james_stein(noisy, 0.0) == pytest.approx(noisy)
    assert not james_stein(np.zeros(3), 1.0).any()


@each_loss
def test_targets_and_responses_make_the_gradient(loss, monkeypatch):
    """The derivative is response less target, and neither is longer than the bound."""
    rng = np.random.default_rng(0)
    K, n = loss.n_outputs, 400
    X = rng.uniform(-1, 1, (n, 3))
    y = data(loss, n=n)[1]
    design, c = as_design(X, np.array([1.0, 0.5, 2.0]), True), 0.8
    x = np.column_stack([np.clip(X / [1.0, 0.5, 2.0], -1, 1), np.ones(n)])
    shortened = np.minimum(1.0, c / np.linalg.norm(x[:, :3], axis=1))
    assert 0.2 < np.mean(shortened < 1.0) < 0.8
    weight = shortened / c
    problem = problem_for(loss, None, n, 3)
    bound = bound_of(problem)
    zero, T = np.zeros((n, K)), np.empty((n, K))
    derivatives(loss, zero, y, T)
    assert np.linalg.norm(T, axis=1).max() == pytest.approx(bound, rel=0.05)
    assert np.linalg.norm(T, axis=1).max() <= bound * (1 + 1e-14)
    for compiled in (True, False):
        if not compiled:
            for name in ("add_shortened", "norms_of", "sum_squares"):
                monkeypatch.setattr(sums, name, getattr(sums, name).py_func)
        for w in (None, rng.normal(size=4 * K)):
            total = sums.shortened_sums(design, y, None, c, sums.Ones(), K, w)
            assert total.reshape(K, 4) == pytest.approx(np.tile(weight @ x, (K, 1)))
        for twice, power in ((False, weight), (True, weight * shortened)):
            total = sums.shortened_sums(
                design, y, None, c, sums.Targets(for_kernels(loss), bound), K, None, twice
            )
            assert total.reshape(K, 4) == pytest.approx(-(T * power[:, None]).T @ x)
        size = 0.2 if isinstance(loss, Squared) else 3.0  # predictions of the squared loss are cut
        w = size * rng.normal(size=4 * K)
        D, P = np.empty((n, K)), x @ w.reshape(K, 4).T
        derivatives(loss, np.clip(P, -1, 1) if isinstance(loss, Squared) else P, y, D)
        rule = sums.Responses(loss, bound)
        total = sums.shortened_sums(design, y, None, c, rule, K, w)
        assert total.reshape(K, 4) == pytest.approx(((D - T) * weight[:, None]).T @ x)
        squares = sums.square_sums(design, y, None, c, w, K)
        assert squares[0] == pytest.approx((np.square(P) * weight[:, None] ** 2).sum())
        assert squares[1] == pytest.approx(0.5 * c * weight**2 @ P[:, 0])
        for far in (50.0, 1e6, 1e300):
            P = far * rng.normal(size=(n, K))
            sums.respond(loss, bound, P)
            assert np.linalg.norm(P, axis=1).max() <= bound * (1 + 1e-14)
            assert np.linalg.norm(P, axis=1).max() > 0.9 * bound


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_norms(layout):
    X = np.array([[3.0, -0.5, 0.0], [0.0, 0.0, 0.0], [0.1, 9.0, -0.4]])
    norms = [math.sqrt(2), 0.0, math.sqrt(0.1**2 + 1 + 0.2**2)]
    for function in (sums.norms_of, sums.norms_of.py_func):
        out = np.empty(3)
        bounds = np.array([1.0, 0.5, 2.0])
        function(as_design(layout(X), bounds, True), 1.0 / bounds, out)
        assert out == pytest.approx(np.array(norms))


@pytest.mark.parametrize("n_norms", [2, 60])
@pytest.mark.parametrize("d", [1, 2, 7, 64])
def test_the_clipping_norm_is_the_smallest_that_all_rows_keep(no_noise, d, n_norms):
    rng = np.random.default_rng(d)
    norms = math.sqrt(d) * rng.uniform(0.01, 1.0, n_norms) ** 3
    problem = problem_for(Logistic(), None, n_norms, d)
    plan = Moments().plan(problem, PLENTY)
    X = rng.uniform(-1.0, 1.0, (n_norms, d))
    X[:, 0] += np.sign(X[:, 0])  # far enough from 0
    X *= (norms / np.linalg.norm(X, axis=1))[:, None]
    if np.abs(X).max() > 1.0:  # clipped, it would be shorter
        X[:] = (norms / math.sqrt(d))[:, None]

    def clipping_norm(X):
        design = as_design(X, np.ones(d), True)
        return module._Run(plan, problem, design, np.ones(len(X)), None).clipping_norm()

    c = clipping_norm(X)
    assert norms.max() <= c <= max(norms.max(), 1e-4 * math.sqrt(d)) * math.sqrt(2) * (1 + 1e-9)
    assert c <= math.sqrt(d)
    assert clipping_norm(np.eye(1, d).repeat(n_norms, axis=0)) == pytest.approx(1.0)


# ------------------------------------------------------------------------------ plans


@pytest.mark.parametrize("row_norm", [None, 1.0])
@each_loss
def test_plans_spend_the_budget_and_no_more(loss, row_norm):
    for (n, d), intercept in itertools.product(
        ((2, 1), (50, 3), (1000, 100), (10**6, 20), (10**5, 30_000)), (False, True)
    ):
        problem = problem_for(loss, L1(0.1), n, d, intercept)
        for epsilon in (0.1, 1.0, 30.0, 1e4):
            budget = Budget(epsilon, 1e-6)
            for available in (budget, Allowance(budget.rho)):
                plan = Moments(row_norm).plan(problem, available)
                check_cost(plan.event, available)
                assert is_gaussian(plan.event)
                assert available.mu * (1 - 1e-10) <= mu_of(plan.event) <= available.mu
                count = sum(k for _, k in leaves(plan.event))
                centred = intercept and row_norm is None and not isinstance(loss, Squared)
                centred &= n * available.mu >= module.MOMENTS.centre_ratio * math.sqrt(d)
                assert (plan.centre_grid is not None) == centred
                assert count == 5 * (row_norm is None) + 5 * centred + 2 + plan.n_iter
        assert epsilon_of(Moments().plan(problem, budget).event, 1e-6) <= 1e4 * (1 + 1e-12)


def test_what_is_released_where():
    def plan(n, d, loss=LOSSES[0], n_iter=None):
        return Moments().plan(problem_for(loss, None, n, d), Budget(1.0, 1e-6), n_iter)

    little, some, much = plan(400, 100), plan(2000, 100), plan(10**5, 20)
    assert (little.matrix_grid, little.n_iter, little.response_grid) == (None, 0, None)
    assert (some.matrix_grid, some.n_iter) == (None, 1)
    assert (much.curvature_grid, much.n_iter) == (None, 6)
    assert plan(10**6, 10).n_iter == module.MOMENTS.max_rounds  # noise still counts
    assert plan(10**9, 2001).matrix_grid is None  # too large
    assert plan(10**5, 20, n_iter=3).n_iter == 3
    sufficient = plan(10**5, 20, Squared())
    assert (sufficient.n_iter, sufficient.response_grid) == (0, None)
    assert plan(10**5, 20, Squared(), n_iter=3) == sufficient


@each("row_norm", [0.0, -1.0, 1e-101, 1e101, math.inf, math.nan, True, "1", 1j])
def test_wrong_row_norms(row_norm):
    with pytest.raises((TypeError, ValueError), match=r"row_norm must be (in|a positive number)"):
        Moments(row_norm)


@pytest.mark.parametrize("loss", [Huber(0.5), SmoothHinge()])
def test_losses_whose_targets_are_in_no_moment(loss):
    with pytest.raises(TypeError, match="Moments needs the kernel `respond`"):
        check_supported(Moments(), problem_for(loss, None, 10, 2))


def test_a_clipped_squared_loss_is_another_loss():
    with pytest.raises(ValueError, match=r"needs Squared\(clip=inf\), got Squared\(clip=1"):
        Moments().plan(problem_for(Squared(1.0), None, 10, 2), PLENTY)


def test_too_much_noise_for_the_grid():
    with pytest.raises(ValueError, match="too large for the grid"):
        Moments().plan(problem_for(Logistic(), None, 10, 10**6), Allowance(1e-12))


# ------------------------------------------------------------------------------ without noise


def largest_gap(X, y, loss, penalty, coef, intercept):
    """How far the exact composite objective is from its optimality conditions."""
    A, K = np.column_stack([X, np.ones(len(X))]), loss.n_outputs
    W, D = np.column_stack([coef, intercept]), np.empty((len(X), K))
    derivatives(loss, A @ W.T, y, D)
    slopes, used = D.T @ A / len(X), L2(0.0) if penalty is None else penalty
    unit = [1.0] * X.shape[1] + [0.0]
    return max(
        stationarity_gap(used, W[k, j], slopes[k, j], 1.0, unit[j])
        for k in range(K)
        for j in range(len(unit))
    )


@pytest.mark.parametrize("penalty", PENALTIES)
@each_loss
def test_without_noise_the_minimum_is_found(no_noise, loss, penalty):
    X, y = data(loss)
    W, b, plan = fit(X, y, loss, penalty, PLENTY)
    # The ridge is made of the planned noise: 2**-25 of the largest sum at least.
    assert largest_gap(X, y, loss, penalty, W, b) < 2e-7
    assert plan.n_iter == (0 if isinstance(loss, Squared) else 300)
    if isinstance(penalty, L1 | Box):  # the penalty does something
        assert (np.abs(W) == getattr(penalty, "radius", 0.0)).any()


def fitted(model, X, y):
    model.fit(X, y)
    return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)


@pytest.mark.parametrize(
    ("loss", "penalty", "model"),
    [
        (Logistic(), L2(1 / 300), LogisticRegression(tol=1e-12, max_iter=10_000)),
        (Logistic(), L2(0.1 / 300), LogisticRegression(C=10.0, tol=1e-12, max_iter=10_000)),
        (Multinomial(3), L2(1 / 300), LogisticRegression(tol=1e-12, max_iter=10_000)),
        (Squared(), L2(2 / 300), Ridge(alpha=2.0)),
        (Squared(), L1(0.01), Lasso(alpha=0.01, tol=1e-14)),
        (Squared(), ElasticNet(0.005, 0.005), SkElasticNet(alpha=0.01, l1_ratio=0.5, tol=1e-14)),
    ],
)
def test_against_scikit_learn(no_noise, loss, penalty, model):
    X, y = data(loss)
    coef, intercept = fitted(model, X, y)
    W, b, _ = fit(X, y, loss, penalty, PLENTY)
    assert pytest.approx(coef, abs=1e-6 * np.abs(coef).max()) == W
    assert b[:, 0] == pytest.approx(intercept, abs=1e-6)


@each_loss
def test_a_huge_budget_is_nearly_no_noise(loss):
    """What remains is the floor of the grid's noise, 2**-25 of the largest sum."""
    X, y = data(loss)
    W, b, _ = fit(X, y, loss, L2(0.01), Allowance(1e14))
    assert largest_gap(X, y, loss, L2(0.01), W, b) < 1e-6


@pytest.mark.parametrize("penalty", [L1(0.02), L2(0.01)])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_rounds_converge_without_a_matrix(monkeypatch, no_noise, loss, penalty):
    few = planning.MOMENTS._replace(max_features=0)
    monkeypatch.setattr(planning, "MOMENTS", few)
    X, y = data(loss)
    W, b, plan = fit(X, y, loss, penalty, PLENTY)
    assert plan.matrix_grid is None
    assert largest_gap(X, y, loss, penalty, W, b) < 1e-6


def test_rows_are_weighted_by_what_is_cut_off(no_noise):
    """With a row norm: weights ω for the logistic loss, ω**2 for least squares."""
    row_norm, fits = 0.5, {}
    for loss in (Logistic(), Squared()):
        X, y = data(loss)
        W, b, _ = fit(X, y, loss, L2(0.01), PLENTY, row_norm=row_norm)
        omega = np.minimum(1.0, row_norm / np.linalg.norm(X, axis=1))
        weight = omega if isinstance(loss, Logistic) else omega**2
        A, D = np.column_stack([X, np.ones(len(X))]), np.empty((len(X), 1))
        derivatives(loss, A @ np.column_stack([W, b]).T, y, D)
        slope = A.T @ (weight * D[:, 0]) / len(X) + 0.01 * np.append(W, 0.0)
        fits[loss] = np.abs(slope).max()
    assert max(fits.values()) < 2e-7


# ------------------------------------------------------------------------------ with noise


@each_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 30.0])
def test_units_and_layouts(loss, intercept, epsilon):
    """Bounds are units; what lies beyond is clipped; sparse rows are the same rows."""
    X, y = data(loss)
    budget, bounds = Budget(epsilon, 1e-6), np.array([4.0, 0.5, 2.0, 1.0])
    args = (y, loss, ElasticNet(0.001, 0.01), budget)
    W, b, _ = fit(X, *args, intercept=intercept)
    edge, far = X.copy(), X.copy()
    edge[:50, 1], far[:50, 1] = 1.0, 1e90
    one, two = (fit(x, *args, intercept=intercept)[0] for x in (edge, far))
    assert np.array_equal(one, two)
    problem = problem_for(loss, args[2], 300, 4, intercept)
    plan = Moments().plan(problem, budget)
    for layout in (np.asarray, sparse.csr_matrix):
        design = as_design(layout(X * bounds), bounds, intercept)
        rng, progress = np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.int64)
        coef = Moments().run(plan, problem, design, y, rng, progress).coef
        assert coef.reshape(W.shape[0], -1) == pytest.approx(np.hstack([W, b]), rel=1e-5, abs=1e-7)


def test_close_to_the_optimum():
    """At epsilon 1, 30,000 records: less than a hundredth of the gain over no model is lost."""
    for loss in LOSSES:
        X, y = data(loss, n=30_000, d=8)
        values = []
        for budget in (Budget(1.0, 1e-6), PLENTY):
            W, b, _ = fit(X, y, loss, L2(1e-4), budget)
            Z, out = X @ W.T + b[:, 0], np.empty(len(y))
            values_of(loss, Z, y, out)
            values.append(out.mean() + 0.5e-4 * np.square(W).sum())
        out0 = np.empty(len(y))
        values_of(loss, np.zeros_like(Z), y, out0)
        gain = out0.mean() - values[1]
        assert -1e-9 < values[0] - values[1] < 0.01 * gain


@each_loss
@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("rho", [1e-4, 1e-1, 1e12])
def test_data_without_signal_is_no_trouble(loss, value, rho):
    y = np.arange(12.0) % 2 if loss.n_outputs > 1 else np.where(np.arange(12) % 2, 1.0, -1.0)
    for penalty in PENALTIES:
        W, b, _ = fit(np.full((12, 3), value), y, loss, penalty, Allowance(rho))
        assert np.isfinite(W).all()
        assert np.isfinite(b).all()
        if isinstance(penalty, Box):
            assert np.abs(W).max() <= penalty.radius * (1 + 1e-12)
