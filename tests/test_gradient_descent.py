"""Full-batch gradient descent: plans, convergence, steps, layouts."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from runs import make_problem, solve

from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.penalties import L1, L2, ElasticNet
from skdpsco.privacy import Budget, mu_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers import SGD, Allowance, GradientDescent
from skdpsco.solvers.penalized import quadratic_model

both_solvers = pytest.mark.parametrize("cls", [GradientDescent, SGD])


def in_user_units(coef, problem, bounds, scale=1.0):
    """Coefficients and intercepts as scikit-learn has them."""
    W = coef.reshape(problem.loss.n_outputs, -1) * scale
    d = problem.n_features - problem.intercept
    return W[:, :d] / bounds, W[:, d:]


def small_data(seed=0, n=3000, d=4):
    """Correlated features of different sizes, with outliers beyond their bounds."""
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    bounds = np.array([2.0, 20.0, 0.5, 4.0])[:d]
    X = np.clip(rng.standard_normal((n, d)) @ mix * bounds / 3, -bounds, bounds)
    z = X @ (np.array([1.0, -0.5, 0.0, 1.0])[:d] * 3 / bounds) + 0.5
    return X, z, bounds, rng


class Unbounded(Logistic):
    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return math.inf


def test_all_of_the_budget_goes_to_gradients_whatever_the_layout():
    """Lengths and clipping norms follow from them; a metric alone has a share of its own."""
    for loss in (Logistic(), Squared(), Multinomial(3), SmoothHinge(1.0), Huber(1.0)):
        for d, epsilon in itertools.product((10, 300), (0.25, 1.0, 8.0)):
            problem = conditioned(loss, 4000, d + 1)
            dense, other = (
                GradientDescent().plan(
                    dataclasses.replace(problem, sparse=sparse), Budget(epsilon, 1e-6)
                )
                for sparse in (False, True)
            )
            counts = [count for _, count in leaves(dense.event)]
            assert counts.count(dense.n_iter) == 1
            assert len(counts) == 1 + (dense.metric_grid is not None) + dense.scales.target
            if dense.metric_grid is None:
                # Sums over sparse rows minus a centre are rounded more.
                assert dense.grid < other.grid < 1.001 * dense.grid
                assert dataclasses.replace(other, grid=dense.grid) == dense


@both_solvers
def test_a_derivative_without_a_bound_needs_a_clipping_norm(cls):
    problem = make_problem(Unbounded(), 10, 2)
    with pytest.raises(ValueError, match="must have a bound"):
        cls().plan(problem, Budget(1.0, 1e-6))
    cls(clip=1.0).plan(problem, Budget(1.0, 1e-6))


def test_preconditioning_makes_units_irrelevant():
    """A bound that is far too generous is a feature that is small in the kernels' units."""
    X, z, bounds, _ = small_data(n=20_000)
    generous = bounds * np.array([1.0, 15.0, 1.0, 7.0])
    y = np.clip(z, -8, 8) / 8.0

    def risk(bounds, preconditioned):
        problem = make_problem(Squared(), len(z), 4, True, L2(1e-6), bounds, 8.0)
        solver = GradientDescent(preconditioned=preconditioned)
        result = solve(solver, problem, X, y, Budget(4.0, 1e-6), 50, bounds=bounds)
        coef, intercept = in_user_units(result.coef, problem, bounds)
        return np.mean((X @ coef[0] + intercept[0] - y) ** 2) / np.mean(y**2)

    assert risk(bounds, True) < 0.02
    assert risk(generous, True) < 0.02
    assert risk(generous, False) > 0.04


def conditioned(loss, n, d, **options):
    options = {"centred": True, "mean_square": (1.0,) * (d - 1), **options}
    return dataclasses.replace(make_problem(loss, n, d - 1, True), **options)


def test_a_metric_follows_public_sizes():
    """It takes a tenth of the rest of mu squared, and a fifth of the passes."""
    budget = Allowance(0.02)  # mu is 0.2
    n = math.ceil(4 * 100**1.5 / budget.mu / (1 - 2.0**-39))
    for added in (False, True):
        known = [
            GradientDescent().plan(conditioned(Logistic(), m >> added, 100, added=added), budget)
            for m in (n + 1, n - 1)
        ]
        assert [plan.metric_grid is not None for plan in known] == [True, False]
        assert known[0].n_iter == round(0.2 * known[1].n_iter) < 20
    for loss, is_sparse in itertools.product((Squared(), Huber(0.5), Multinomial(3)), (0, 1)):
        problem = conditioned(loss, 100 * n, 16, sparse=bool(is_sparse))
        plan = GradientDescent().plan(problem, budget)
        assert plan.metric_grid
        assert mu_of(plan.event) == pytest.approx(budget.mu, rel=1e-11)
        shares = [(leaf.noise_multiplier * budget.mu) ** -2.0 for leaf, _ in leaves(plan.event)]
        left = 0.98 if plan.scales.target else 1.0  # by the scale of targets
        assert pytest.approx(0.1 * left, rel=1e-9) in shares
    for problem in (
        conditioned(SmoothHinge(0.5), 100 * n, 16),
        conditioned(Logistic(), 100 * n, 16, sparse=True, added=True),
        conditioned(Logistic(), 100 * n, 16, centred=False),
        conditioned(Logistic(), 10**9, 1001),
    ):
        assert GradientDescent().plan(problem, budget).metric_grid is None
    problem = conditioned(Logistic(), 100 * n, 16)
    assert GradientDescent().plan(problem, budget, 20).metric_grid is None
    assert GradientDescent(preconditioned=False).plan(problem, budget).metric_grid is None


def test_a_step_in_a_metric_is_the_best_of_its_model():
    """With a ridge penalty by a linear system, with any other by coordinate descent."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 3))
    M, point, gradient = A.T @ A, rng.normal(size=6), rng.normal(size=6)
    for penalty in (L2(0.3), L1(0.2), ElasticNet(0.1, 0.2)):
        problem = make_problem(Multinomial(2), 100, 3, penalty=penalty)
        for square in (M, np.array([1.0, 2.0, 3.0])):
            model = quadratic_model.Model(square, problem, np.array([1.0, 0.5, 2.0]))

            def value(w, model=model, penalty=penalty):
                move, unit = w - point, np.tile(model.unit, 2)
                curved = move @ model.apply(move) / (2.0 * 0.7)
                psi = sum(map(penalty_of(penalty), unit * w))
                return gradient @ w + curved + psi

            step = model.proximal_step(point, gradient, 0.7)
            for move in 1e-3 * rng.normal(size=(20, 6)):
                assert value(step) <= value(step + move)


def penalty_of(penalty):
    """The function of one coefficient."""
    if isinstance(penalty, ElasticNet):
        return lambda v: penalty.l1 * abs(v) + 0.5 * penalty.l2 * v * v
    return lambda v: penalty.alpha * (abs(v) if isinstance(penalty, L1) else 0.5 * v * v)
