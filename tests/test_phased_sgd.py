"""Phased SGD: plans, one pass, convergence, input."""

import math

import numpy as np
import pytest
from cases import each
from runs import run

from skdpsco.constraints import L1Ball, L2Ball, LpBall, Simplex
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, lipschitz_norm
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget, GaussianEvent
from skdpsco.solvers import Allowance, Problem, check_cost
from skdpsco.solvers.lp_ball import phased_sgd as module
from skdpsco.solvers.lp_ball.phased_sgd import PhasedSGD, euclidean_bounds

ALMOST_NONE = Allowance(1e12)  # noise
BALLS = [L1Ball(2.0), LpBall(1.5, 1.0), L2Ball(1.5), LpBall(4.0, 0.5), LpBall(math.inf, 0.3)]
LOSSES = [Logistic(), Squared(), Huber(0.5), SmoothHinge(0.5), Multinomial(3)]

balls = pytest.mark.parametrize("ball", BALLS, ids=lambda b: f"p={b.p:g}")
schedules = pytest.mark.parametrize("schedule", ["practical", "theorem"])


class Falling(Logistic):
    """A loss with absurd declarations: steps of any length would be allowed."""

    def smoothness(self):
        return -1.0


def norm(w, ball):
    top = np.abs(w).max() or 1.0
    return top * np.linalg.norm(w / top, ord=ball.p)


def run_of(solver, plan, problem, X, y):
    result = run(solver, plan, problem, X, y)
    assert result.n_gradients == problem.n_samples
    assert norm(result.coef, problem.constraint) <= problem.constraint.radius * (1 + 1e-12)
    return result.coef


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, d)) * (rng.random((n, d)) < 0.7)
    return X, rng


@schedules
@each("loss", LOSSES)
@balls
def test_plans_keep_to_the_budget_and_to_the_proof(ball, loss, schedule):
    d = 4
    for n, row_norm, budget in (
        (1, math.inf, Budget(1.0, 1e-6)), (2, 0.3, Budget(8.0, 1e-6)), (3, 2.0, Allowance(1e-3)),
        (1000, 1.0, Budget(0.5, 1e-6)), (10**9, math.inf, Allowance(0.5)), (5000, 1.0, ALMOST_NONE),
    ):  # fmt: skip
        problem = Problem(loss, ball, n, d + 1, True, 1.0, row_norm)
        plan = PhasedSGD(schedule).plan(problem, budget)
        assert plan.event == GaussianEvent(1.0 / budget.mu)
        check_cost(plan.event, budget)
        assert hash(plan) is not None
        assert plan.n_iter == len(plan.phases) == PhasedSGD(schedule).plan(problem, budget).n_iter
        assert sum(phase.n_records for phase in plan.phases) == n
        features = problem.feature_norm(2.0)
        for phase in plan.phases:
            assert 1 <= phase.n_averaged <= phase.n_records + 1
            drift = phase.every * phase.step * plan.bounds.slope * features / plan.bounds.radius
            assert phase.every == 1 or (schedule == "practical" and drift <= 0.126)
            # Steps are not expansive, and noise is for two steps in opposite directions.
            assert phase.step * loss.smoothness() * features**2 <= 2.0
            scale = 2.0 * phase.step * plan.bounds.slope * features / budget.mu
            assert phase.grid * 2**SCALE_BITS >= scale
            assert phase.grid * 2.0**49 >= plan.bounds.radius  # or points would be clamped
        first = plan.phases[0]
        scale = 2.0 * first.step * plan.bounds.slope * features / budget.mu
        if n < 10**9 and budget is not ALMOST_NONE:  # otherwise rounding is not small beside it
            assert first.grid * 2**SCALE_BITS <= 1.01 * scale
        ratios = [a.step / b.step for a, b in zip(plan.phases, plan.phases[1:], strict=False)]
        np.testing.assert_allclose(ratios, 2.5 if schedule == "practical" else 4.0)


@schedules
@each("intercept", [False, True])
@balls
def test_the_longest_steps_are_not_expansive(ball, intercept, schedule):
    """Two over the smoothness, which little noise and a curved loss would exceed otherwise."""
    for loss, row_norm in ((SmoothHinge(1e-3), math.inf), (Squared(1e-3), 0.4)):
        problem = Problem(loss, ball, 20, 3 + intercept, intercept, 1.0, row_norm)
        plan = PhasedSGD(schedule).plan(problem, ALMOST_NONE)
        ratio = plan.phases[0].step * loss.smoothness() * problem.feature_norm(2.0) ** 2 / 2.0
        assert 1.0 - 1e-11 < ratio <= 1.0


def test_slopes_are_those_of_predictions_within_the_ball():
    """And never more than those of any prediction."""
    for ball in BALLS:
        for loss in LOSSES:
            problem = Problem(loss, ball, 100, 3)
            bounds = euclidean_bounds(problem)
            assert bounds.slope <= lipschitz_norm(loss, 2.0)
            points = np.random.default_rng(0).normal(size=(200, 3))
            points *= ball.radius / np.array([[norm(w, ball)] for w in points])
            assert np.linalg.norm(points, axis=1).max() <= bounds.radius
            if loss.n_outputs == 1:
                largest = np.abs(points).sum(axis=1).max()  # of a prediction
                assert bounds.slope >= loss.lipschitz(largest, 1.0) * (1 - 1e-12)
            inside = 0.999 * math.sqrt(bounds.inside)
            points *= inside / np.linalg.norm(points, axis=1, keepdims=True)
            assert max(norm(w, ball) for w in points) <= ball.radius
    assert euclidean_bounds(Problem(Logistic(), L2Ball(0.1), 10, 1)).slope == pytest.approx(
        0.52498, 1e-4
    )
    # Targets count.
    wide = euclidean_bounds(Problem(Squared(), L2Ball(1.0), 10, 1, target_bound=3.0))
    assert wide.slope == pytest.approx(4.0)


def test_every_record_takes_part_once():
    """Each has its own feature. The point after the last record's step is what is released."""
    n = 16
    problem = Problem(Logistic(), L2Ball(50.0), n, n)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    for shuffle in (False, True):
        solver = PhasedSGD(shuffle=shuffle)
        plan = solver.plan(problem, ALMOST_NONE, 1)
        assert plan.phases[0].n_averaged == 1
        coef = run_of(solver, plan, problem, np.eye(n), y)
        np.testing.assert_allclose(coef / plan.phases[0].step, 0.5 * y, atol=1e-4)


@pytest.mark.parametrize(("schedule", "n_averaged"), [("practical", 2), ("theorem", 25)])
def test_the_mean_of_a_phase_is_that_of_its_last_points(schedule, n_averaged):
    """The points include the start and the one after the last step; some or all are averaged."""
    n = 24
    problem = Problem(Logistic(), L2Ball(50.0), n, n)
    solver = PhasedSGD(schedule, shuffle=False)
    plan = solver.plan(problem, ALMOST_NONE, 1)
    assert plan.phases[0].n_averaged == n_averaged
    coef = run_of(solver, plan, problem, np.eye(n), np.ones(n))
    points = np.vstack([np.zeros(n), np.tril(np.full((n, n), 0.5 * plan.phases[0].step))])
    np.testing.assert_allclose(coef, points[-n_averaged:].mean(axis=0), rtol=1e-3, atol=1e-9)


def test_noise_that_is_huge_ends_in_the_ball():
    X, rng = data(2, 3)
    for ball in BALLS:
        for radius in (1e-90, 1.0, 1e90):
            problem = Problem(Squared(0.5), ball._replace(radius=radius), 2, 3)
            for budget in (Allowance(1e-12), ALMOST_NONE):
                plan = PhasedSGD().plan(problem, budget, 1)
                scale = plan.phases[0].grid * 2**SCALE_BITS / radius
                huge = budget is not ALMOST_NONE and radius <= 1.0  # otherwise steps are short
                assert scale > 300.0 if huge else scale < 1e-3
                coef = run_of(PhasedSGD(), plan, problem, X, rng.choice([-1.0, 1.0], 2))
                assert np.isfinite(coef).all()


def test_derivatives_are_clipped():
    """A record moves no further than its noise allows, whatever a loss declares."""
    X = as_design(np.ones((1, 1)), np.ones(1), False)
    for y, expected in (
        (np.array([1e6]), 0.25),
        (np.array([-1e6]), -0.25),
        (np.array([np.nan]), -0.25),
    ):
        w, total = np.zeros(1), np.zeros(1)
        chunk = X, y, np.zeros(1, dtype=np.int64)
        steps = module.SGDSteps(0.5, 0.5, 100.0, every=1, first=0, due=1)
        module.sgd_pass(chunk, math.inf, for_kernels(Squared()), L2Ball(10.0), steps, w, total)
        assert w[0] == expected
        assert total[0] == expected


def test_points_are_projected_after_so_many_steps():
    """Not earlier, however far out they are: the times of projections do not depend on the data."""
    X = as_design(np.ones((9, 1)), np.ones(1), False)
    y, rows, ball, found = np.ones(9), np.arange(9), L2Ball(0.25), []
    for due in (1, 3):
        for stop in range(1, 10):
            w = np.zeros(1)
            chunk = X, y, rows[:stop]
            steps = module.SGDSteps(0.5, 0.5, 0.0625, every=4, first=9, due=due)
            module.sgd_pass(chunk, math.inf, for_kernels(Squared(0.5)), ball, steps, w, np.zeros(1))
            found.append(w[0])
    assert found == [
        0.25, 0.5, 0.75, 0.875, 0.25, 0.5, 0.75, 0.875, 0.25,
        0.25, 0.5, 0.25, 0.5, 0.75, 0.875, 0.25, 0.5, 0.75,
    ]  # fmt: skip


def test_projections_are_as_exact_as_the_proof_says():
    """Projections whose bound is not that of `projection_error`."""
    rng = np.random.default_rng(0)
    for D in (1, 7, 1000):
        for p, radius in ((2.0, 0.3), (2.0, 1e-90), (math.inf, 0.3)):
            ball = L2Ball(radius) if p == 2.0 else LpBall(p, radius)
            bounds = euclidean_bounds(Problem(Logistic(), ball, 10, D))
            for _ in range(20):
                v = radius * rng.standard_normal(D) * 10.0 ** rng.uniform(-2, 2)
                w, wide = v.copy(), v.astype(np.longdouble)
                module.project(ball, w)
                exact = np.clip(wide, -radius, radius)
                if p == 2.0:
                    exact = wide * min(1, radius / np.sqrt(wide @ wide))
                error = np.linalg.norm((w - exact) / radius) / np.linalg.norm(v / radius)
                assert error <= bounds.rounding * module.UNIT


def test_what_the_solver_cannot_do():
    budget = Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="needs an lp ball as constraint, got Simplex"):
        PhasedSGD().plan(Problem(Logistic(), Simplex(1.0), 10, 2), budget)
    for clip in (0.0, 1e-101, math.nan):
        with pytest.raises(ValueError, match=r"constant of Squared must be in \[1e-100, "):
            PhasedSGD().plan(Problem(Squared(clip), L2Ball(1.0), 10, 2), budget)
    for radius in (0.0, -1.0, 1e-101, 1e101, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"radius must be in \[1e-100, 1e\+100\], got"):
            PhasedSGD().plan(Problem(Logistic(), L2Ball(radius), 10, 2), budget)
    for p in (0.5, 1 + 2**-41, 1 + 2**-52, 2.0**41, math.nan):
        with pytest.raises(ValueError, match=r"p must be 1, inf or in \[1 \+ 2\*\*-40, 2\*\*40\]"):
            PhasedSGD().plan(Problem(Logistic(), LpBall(p, 1.0), 10, 2), budget)
    with pytest.raises(ValueError, match="smooth loss, which Falling is not"):
        PhasedSGD().plan(Problem(Falling(), L2Ball(1.0), 10, 2), budget)
    with pytest.raises(ValueError, match="too large for the grid"):
        PhasedSGD().plan(Problem(Logistic(), L2Ball(1.0), 10, 2), Allowance(1e-16))
