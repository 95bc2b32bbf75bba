"""Frank-Wolfe on trees: the walk, batches, plans, convergence without noise, layouts, chunks."""

import math

import numpy as np
import pytest
from cases import each
from runs import run
from stand_ins import Declared

from skdpsco import PrivateLinearRegressor
from skdpsco._clipping import shorten
from skdpsco.constraints import L1Ball, L2Ball, LpBall, Polytope, Simplex, minimiser
from skdpsco.losses import Logistic, SmoothHinge
from skdpsco.losses.library import derivative
from skdpsco.privacy import Budget, Ledger, ZCDPEvent, delta_of, epsilon_of
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball.tree_frank_wolfe import NOISES, TreeFrankWolfe

NOISELESS = Allowance(1e12)
BALLS = [L1Ball(1.0), LpBall(1.5, 1.0), L2Ball(1.0), LpBall(3.0, 1.0), LpBall(math.inf, 0.6)]


def data(n, d, loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.8)
    z = X @ np.linspace(1.0, -0.5, d)
    if loss.n_outputs > 1:
        return X, np.digitize(z + 0.3 * rng.standard_normal(n), [-0.3, 0.3]).astype(float)
    if isinstance(loss, (Logistic, SmoothHinge)):
        return X, np.where(2 * z + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, np.clip(0.7 * z + 0.2 * rng.standard_normal(n), -1, 1)


@pytest.mark.parametrize(
    ("budget", "d"),
    [
        (Allowance(0.1), 20),
        (Budget(1.0, 1e-11), 20),
        (Budget(15.0, 1e-6), 20),
        (Budget(1.0, 1e-6, 2), 20),
        (Budget(1.0, 0.1), 30_000),
    ],
)
def test_noise_that_is_not_exact_needs_an_epsilon_and_a_delta(budget, d):
    problem = Problem(Logistic(), LpBall(1.5, 1.0), 1000, d)
    with pytest.raises(ValueError, match="drawn in floating point"):
        TreeFrankWolfe("generalised-gaussian").plan(problem, budget, 6)
    assert TreeFrankWolfe().plan(problem, budget, 6).noise == "gaussian"


def test_the_report_covers_the_error_of_the_noise():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 10))
    model = PrivateLinearRegressor(
        p=1.2,
        solver=TreeFrankWolfe("generalised-gaussian"),
        radius=1.0,
        feature_bound=1.0,
        target_bound=1.0,
    )
    report = model.fit(X, X[:, 0]).privacy_
    assert report.epsilon * (1.0 - 1e-6) < epsilon_of(report.event, report.delta) <= report.epsilon
    assert delta_of(ZCDPEvent(leaf_rho(report.event)), report.epsilon) < report.delta * (1 - 1e-6)
    assert sum("gamma" in line for line in report.assumptions) == 1
    with pytest.raises(ValueError, match="drawn in floating point"):
        model.set_params(ledger=Ledger(1.0, 1e-6)).fit(X, X[:, 0])


def leaf_rho(event):
    return next(part.rho for part in event.events if isinstance(part, ZCDPEvent))


def published_run(problem, X, y, batches):
    """Algorithm 1 by recursion on strings of bits, without noise, for a scalar loss."""
    records = iter(range(len(y)))
    sizes = iter(batches)
    state = {"x": np.zeros(X.shape[1])}

    def gradient(w, rows):
        r = [derivative(problem.loss, X[i] @ w, y[i]) for i in rows]
        return X[rows].T @ np.array(r) / len(rows)

    def take():
        return [next(records) for _ in range(next(sizes))]

    def visit(phase, s, point, v):
        if s == "":
            point, v = state["x"], gradient(state["x"], take())
        elif s[-1] == "1":
            new, rows = state["x"], take()
            point, v = new, v + gradient(new, rows) - gradient(point, rows)
        if len(s) == phase:
            w = np.empty(len(v))
            minimiser(problem.constraint, v, w)
            eta = 2 / (2**phase + int(s, 2) + 1)
            state["x"] = (1 - eta) * state["x"] + eta * w
            return
        visit(phase, s + "0", point, v)
        visit(phase, s + "1", point, v)

    for phase in (1, 2, 3):
        visit(phase, "", None, None)
    return state["x"]


@each("ball", BALLS)
def test_without_noise_it_is_the_published_algorithm(ball):
    X, y = data(300, 4, Logistic())
    problem = Problem(Logistic(), ball, 300, 4)
    for noise in NOISES[:: 2 if isinstance(ball, L1Ball) else 3]:
        solver = TreeFrankWolfe(noise, shuffle=False)
        plan = solver.plan(problem, NOISELESS, 14)
        coef = run(solver, plan, problem, X, y).coef
        np.testing.assert_allclose(coef, published_run(problem, X, y, plan.batches), atol=1e-3)


def test_shorten():
    for r, order, shortened in (
        ([3.0], 2.0, [0.5]), ([-0.2], 2.0, [-0.2]), ([math.nan], 2.0, [0.5]),
        ([-math.inf], math.inf, [-0.5]), ([0.3, -0.4], 2.0, [0.3, -0.4]),
        ([0.3, -0.9], math.inf, [0.3, -0.5]), ([0.5, -0.5], 2.0, [0.125**0.5, -(0.125**0.5)]),
        ([math.nan, 0.0], 2.0, [0.5, 0.0]),
    ):  # fmt: skip
        r = np.array(r)
        shorten(r, order, 0.5)
        np.testing.assert_allclose(r, shortened, rtol=1e-12)
        assert np.linalg.norm(r, order) <= 0.5 * (1 + 1e-12)


def test_problems_that_are_refused():
    budget, solver = Budget(1.0, 1e-6), TreeFrankWolfe()
    for constraint in (Simplex(), Polytope(np.eye(3))):
        with pytest.raises(TypeError, match="needs an lp ball"):
            solver.plan(Problem(Logistic(), constraint, 100, 3), budget)
    for ball in BALLS[1:]:
        with pytest.raises(ValueError, match="needs an L1Ball"):
            TreeFrankWolfe("exponential").plan(Problem(Logistic(), ball, 100, 3), budget)
    with pytest.raises(ValueError, match="n_iter=101 steps need as many records"):
        solver.plan(Problem(Logistic(), L2Ball(1.0), 100, 3), budget, 101)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="The Lipschitz constant of Declared must be positive"):
            solver.plan(Problem(Declared(bad, 1.0), L2Ball(1.0), 100, 3), budget)
    not_smooth = "needs a smooth loss"
    for bad, match in ((-1.0, "a bound >= 0"), (math.nan, not_smooth), (math.inf, not_smooth)):
        with pytest.raises(ValueError, match=match):
            solver.plan(Problem(Declared(1.0, bad), L2Ball(1.0), 100, 3), budget)
    for noise in ("gaussian", "exponential"):
        with pytest.raises(ValueError, match="too large for the grid"):
            TreeFrankWolfe(noise).plan(Problem(Logistic(), L1Ball(1.0), 100, 3), Allowance(1e-16))
