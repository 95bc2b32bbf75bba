"""Empirical risk minimisation over lp balls: plans, phases, convergence, smoothing, layouts."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from runs import solve
from stand_ins import Declared

from skdpsco.constraints import L1Ball, L2Ball, LpBall, Simplex
from skdpsco.data.design import as_design
from skdpsco.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    value,
    values,
)
from skdpsco.privacy import Budget, epsilon_of, mu_of
from skdpsco.solvers import Allowance, Problem, check_supported
from skdpsco.solvers.lp_ball import phased_erm as smoothed
from skdpsco.solvers.lp_ball.noisy_step import Steps, ball_slope, step_grid
from skdpsco.solvers.lp_ball.phased_erm import PhasedERM, marginals

BALLS = (L1Ball(1.0), LpBall(1.5, 2.0), L2Ball(1.0), LpBall(3.0, 0.5), LpBall(math.inf, 0.7))
LOSSES = (
    Hinge(), Absolute(), Quantile(0.9), Logistic(), Squared(), Huber(0.5), SmoothHinge(0.1),
    Multinomial(3),
)  # fmt: skip

OPTIONS: tuple[dict[str, str], ...] = ({}, {"schedule": "localised"}, {"smoothing": "randomised"})


def make_data(loss, n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    z = X @ np.linspace(1.0, -0.5, d)
    if loss.n_outputs > 1:
        return X, np.digitize(z, [-0.3, 0.3]).astype(float)
    if isinstance(loss, (Hinge, Logistic, SmoothHinge)):
        return X, np.where(z + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, np.clip(0.6 * z + 0.1 * rng.standard_normal(n), -1, 1)


def mean_loss(loss, X, y, coef, intercept=False):
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
    Z = X @ coef.reshape(loss.n_outputs, -1).T
    if loss.n_outputs == 1:
        return np.mean([value(loss, z, t) for z, t in zip(Z[:, 0], y, strict=True)])
    out = np.empty(len(y))
    values(loss, Z, y, out)
    return out.mean()


def test_a_phase_sees_records_that_no_other_sees(monkeypatch):
    seen = []
    gradient = Steps.gradient

    def spy(self, rows, *args, **options):
        seen.append(tuple(rows))
        return gradient(self, rows, *args, **options)

    monkeypatch.setattr(Steps, "gradient", spy)
    X, y = make_data(Hinge(), 100, 3)
    problem = Problem(Hinge(), L2Ball(1.0), 100, 3)
    solver, budget = PhasedERM("localised"), Budget(4.0, 1e-6)
    orders = []
    for seed in (0, 1):
        seen.clear()
        solve(solver, problem, X, y, budget, seed=seed)
        phases = solver.plan(problem, budget).phases
        expected = [phase.n_records for phase in phases for _ in range(phase.n_iter)]
        assert [len(rows) for rows in seen] == expected
        groups = list(dict.fromkeys(seen))  # in order
        assert len(groups) == len(phases)
        taken = np.concatenate(groups)
        assert len(set(taken)) == len(taken)
        orders.append(groups)
    assert orders[0] != orders[1]


def optimum(loss, ball, X, y):
    import cvxpy as cp

    w = cp.Variable(X.shape[1])
    z = X @ w
    total = {
        Hinge: lambda: cp.sum(cp.pos(1 - cp.multiply(y, z))),
        Absolute: lambda: cp.norm1(z - y),
        Quantile: lambda: cp.sum(cp.maximum(0.9 * (y - z), -0.1 * (y - z))),
        Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, z))),
    }[type(loss)]()
    problem = cp.Problem(cp.Minimize(total / len(y)), [cp.norm(w, ball.p) <= ball.radius])
    problem.solve()
    return problem.value


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Logistic()], ids=str)
def test_without_noise_phases_and_smoothing_find_the_optimum(loss):
    X, y = make_data(loss, 400, 3)
    problem, ball = Problem(loss, L2Ball(1.0), 400, 3), L2Ball(1.0)
    best, nothing = optimum(loss, ball, X, y), mean_loss(loss, X, y, np.zeros(3))
    for solver, n_iter, tolerance in (
        (PhasedERM(smoothing="randomised"), 3000, 0.01),
        # Half of the records come first, and every later part is pulled to what they say.
        (PhasedERM("localised"), 4000, 0.4),
    ):
        coef = solve(solver, problem, X, y, n_iter=n_iter).coef
        excess = mean_loss(loss, X, y, coef) - best
        assert -1e-6 < excess < tolerance * (nothing - best)


def test_smoothed_plans():
    cases = itertools.product(LOSSES, BALLS[::2], (1, 300, 5000), (1, 40))
    for loss, ball, n, d in itertools.islice(cases, 0, None, 13):
        problem = Problem(loss, ball, n, d)
        solver, budget = PhasedERM(smoothing="randomised"), Budget(1.0, 1e-5)
        plan = solver.plan(problem, budget, 20)
        assert plan.n_iter == 20
        assert epsilon_of(plan.event, budget.delta) <= budget.epsilon * (1 + 1e-9)
        assert 0 < plan.step < math.inf
        assert plan.radius > 0 or loss.smoothness() < math.inf
        assert plan.slope == ball_slope(problem, plan.radius)
        assert (plan.sampling is None) == (n == 1)
        rest = solver.plan(problem, Allowance(0.01), 20)
        assert rest.sampling is None  # sampling counts for nothing in zCDP
        assert mu_of(rest.event) == pytest.approx(math.sqrt(0.02))
    problem = Problem(Hinge(), L2Ball(1.0), 10_000, 100)
    plan = PhasedERM(smoothing="randomised").plan(problem, Budget(1.0, 1e-6))
    assert plan.n_iter == math.ceil(10_000 * Budget(1.0, 1e-6).mu / 10)
    assert plan.n_iter * plan.sampling.sampling_probability < 20  # passes


def test_what_a_sample_has_drawn_stays_secret(monkeypatch):
    """Its size would reveal who was in; so would points from a generator that is not secret."""
    X, y = make_data(Hinge(), 300, 3)
    problem = Problem(Hinge(), L2Ball(1.0), 300, 3)
    solver, budget = PhasedERM(smoothing="randomised"), Budget(1.0, 1e-6)
    plan, sizes = solver.plan(problem, budget, 20), []

    def spy(rng, size, k, D):
        sizes.append(size)
        streams.add(rng.bit_generator.state["state"]["inc"])
        return marginals(rng, size, k, D)

    monkeypatch.setattr(smoothed, "marginals", spy)
    counts = []
    for seed in range(3):
        streams = set()
        counts.append(solve(solver, problem, X, y, budget, 20, seed=seed).n_gradients)
        assert streams == {np.random.PCG64(seed).state["state"]["inc"]}  # the fit's own
    p = plan.sampling.sampling_probability
    assert counts == [round(20 * 300 * p)] * 3
    assert abs(sum(sizes) - 18_000 * p) < 6 * math.sqrt(18_000 * p * (1 - p)) < 9_000 * p


def test_one_step():
    """Predictions are shifted in proportion to the length of a row; the regulariser is a prox."""
    problem = Problem(Squared(), L2Ball(9.0), 2, 2)
    grid = step_grid(problem, 2, 50.0, 1e-7, 2.0)
    X, y, w = np.array([[0.3, -0.4], [0.0, 0.0]]), np.array([0.1, -1.0]), np.array([2.0, 1.0])
    steps = Steps(problem, as_design(X, np.ones(2), False), y, 50.0)
    rng, shifts = np.random.default_rng(0), np.array([[3.0], [5.0]])
    new, centre = np.array([1.0, -3.0]), np.array([-1.0, 0.5])
    gradient = steps.gradient(np.arange(2), 2.0, w, grid, rng, shifts)
    steps.move(new, gradient, 0.5, 3.0, centre)
    np.testing.assert_allclose(gradient, (X[0] @ w + 3.0 * 0.5 - 0.1) * X[0] / 2, atol=1e-4)
    np.testing.assert_allclose(new, ([-0.5, -2.25] - 0.5 * gradient) / 2.5, rtol=1e-12)


def test_long_rows_are_shrunk_for_prediction_and_gradient():
    X, y = make_data(Logistic(), 200, 4)
    short = X * np.minimum(1.0, 0.7 / np.linalg.norm(X, axis=1))[:, None]
    problem = Problem(Logistic(), L2Ball(3.0), 200, 5, True, row_norm=0.7)
    fits = [solve(PhasedERM(), problem, given, y, n_iter=100).coef for given in (X, short)]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-6, atol=1e-9)
    whole = dataclasses.replace(problem, row_norm=math.inf)
    assert np.abs(solve(PhasedERM(), whole, X, y, n_iter=100).coef - fits[0]).max() > 0.05


def test_what_it_cannot_solve():
    for constraint in (Simplex(1.0), None):
        with pytest.raises((TypeError, ValueError), match=r"needs (an lp ball|the kernel)"):
            check_supported(PhasedERM(), Problem(Hinge(), constraint, 10, 2))
    with pytest.raises(ValueError, match="fewer, larger draws"):
        PhasedERM().plan(Problem(Hinge(), L2Ball(1.0), 10, 10**5), Allowance(1e-12), 10_000)


@pytest.mark.parametrize("options", OPTIONS)
def test_extreme_plans(options):
    solver = PhasedERM(**options)
    plan = solver.plan(Problem(Declared(1.0, 0.0), L2Ball(1.0), 10, 2), Budget(1.0, 1e-6))
    assert 0.0 < (plan.step if options.get("smoothing") else plan.phases[0].step) < math.inf
    problem = Problem(Hinge(), L2Ball(1.0), 10**6, 2)
    for budget in (Budget(1e300, 1e-6), Allowance(1e300), Allowance(1e-300)):
        with pytest.raises(ValueError, match="noise_multiplier must be"):
            solver.plan(problem, budget)
