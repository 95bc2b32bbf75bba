"""Noise is no larger than it has to be: what is charged for rounding, and sharp sensitivities."""

import math

import numpy as np
from cases import each

import skdpsco.data.pieces as summation
from skdpsco.constraints import L1Ball, L2Ball, Simplex
from skdpsco.data.design import as_design
from skdpsco.data.pieces import replace_one, sum_in_runs
from skdpsco.losses import Hinge, Logistic
from skdpsco.mechanisms.samplers import SCALE_BITS, release
from skdpsco.penalties import L2
from skdpsco.preprocessing.scaler import plan_moments
from skdpsco.preprocessing.selector import plan_selection
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.problem import GroupProblem
from skdpsco.solvers.lp_ball.anytime_mirror_descent import cut, grid_of
from skdpsco.solvers.lp_ball.noisy_step import Steps
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import OnePassFrankWolfe, polytope_bounds
from skdpsco.solvers.lp_ball.phased_erm import PhasedERM
from skdpsco.solvers.penalized.coordinate_descent import CoordinateDescent
from skdpsco.solvers.penalized.gradient_descent import GradientDescent
from skdpsco.solvers.penalized.greedy_coordinate_descent import GreedyCoordinateDescent
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem, runs_of

ZCDP = Allowance(0.1)
F = 50


class Operator:
    """Records that are their own operators."""

    saddle, smoothness = True, None

    def __init__(self, *blocks):
        self.blocks = blocks

    def total(self, z, data):
        return data[0].sum(axis=0)


def phased(n):
    return [PhasedERM().plan(Problem(Hinge(), L2Ball(1.0), n, F), ZCDP, 4).phases[0].grid]


def mirror_prox(n):
    operator = Operator(Block(L2Ball(1.0), F, 1.0), Block(Simplex(), F, 1.0))
    return MirrorProx().plan(VariationalProblem(operator, n), ZCDP, 4).grid


def group_descent(n, private):
    sizes = None if private else (n // 2, n - n // 2)
    problem = GroupProblem(
        Logistic(), L2Ball(math.inf), n, F, n_groups=2, group_sizes=sizes, intercept=True
    )
    plan = GroupDescent().plan(problem, ZCDP, 4)
    return [plan.inner.grid, plan.losses.grid, *[plan.count_grid] * private]


def composite(solver, n):
    problem = CompositeProblem(Logistic(), None, n, F, False, penalty=L2(0.01), unit=(1.0,) * F)
    return solver.plan(problem, ZCDP, 4)


def screen(n):
    return [release(np.random.default_rng(0), np.zeros(F), replace_one(n, 1.0), 10.0, n)]


def one_pass(n):
    return [OnePassFrankWolfe().plan(Problem(Logistic(), L1Ball(1.0), n, F), ZCDP, 4).grid]


def anytime(n):
    bounds = polytope_bounds(Problem(Logistic(), L1Ball(1.0), n, F), L1Ball(1.0))
    return [grid_of(cut(n, 4, 0), bounds, ZCDP.rho)]


GRIDS = {
    "phased-erm": phased,
    "one-pass-frank-wolfe": one_pass,
    "anytime-mirror-descent": anytime,
    "mirror-prox": mirror_prox,
    "group-descent": lambda n: group_descent(n, False),
    "private-group-descent": lambda n: group_descent(n, True),
    "coordinate-descent": lambda n: [composite(CoordinateDescent(), n).grid],
    "greedy": lambda n: [composite(GreedyCoordinateDescent(), n).grid],
    "gradient-descent": lambda n: [composite(GradientDescent(), n).grid],
    "screen": screen,
    "scaler": lambda n: [plan_moments(n, F, True, 0.1).grid],
    "selector": lambda n: [plan_selection(n, F, 5, False, None, 0.1).grid],
}


@each("name", GRIDS)
def test_noise_of_sums_does_not_grow_with_the_number_of_records(name):
    """One record moves a sum by as much, whatever n: with rounding by 1 % more at 10^8."""
    few, many = (np.array(GRIDS[name](n)) for n in (10**6, 10**8))
    assert (many <= 1.02 * few).all()


def test_runs_are_short_and_add_up_to_all_records(monkeypatch):
    monkeypatch.setattr(summation, "PIECE_ROWS", 3)
    cuts = []

    def total(start, stop):
        cuts.append((start, stop))
        return np.arange(start, stop).sum(keepdims=True)

    assert sum_in_runs(8, total) == 28
    assert cuts == [(0, 3), (3, 6), (6, 8)]
    assert sum_in_runs(0, total) == 0  # a sample may be empty


def test_steps_add_up_runs(monkeypatch):
    """No kernel call sees more records than a run has, and no record is lost."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (20, 3)), np.where(rng.random(20) < 0.5, -1.0, 1.0)
    steps = Steps(Problem(Logistic(), L2Ball(1.0), 20, 3), as_design(X, np.ones(3), False), y, 1.0)
    rows, w = np.arange(0, 20, 2), np.zeros(3)
    expected = -0.5 * y[rows] @ X[rows] / 10
    for size in (2**16, 4):
        monkeypatch.setattr(summation, "PIECE_ROWS", size)
        point, noise = np.zeros(3), np.random.default_rng(1)
        gradient = steps.gradient(rows, 10.0, w, 1e-7 / 2.0**SCALE_BITS, noise)
        steps.move(point, gradient, 0.5)
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
        np.testing.assert_allclose(point, -0.5 * gradient)
    empty = steps.gradient(rows[:0], 10.0, w, 1e-7 / 2.0**SCALE_BITS, noise)
    np.testing.assert_allclose(empty, 0.0, atol=1e-6)


def test_operators_add_up_runs(monkeypatch):
    monkeypatch.setattr("skdpsco.solvers.saddle.problem.PIECE_ROWS", 4)
    G = np.random.default_rng(0).uniform(-1.0, 1.0, (10, 2))
    problem = VariationalProblem(Operator(Block(L2Ball(1.0), 2, 1.0)), 10)
    runs = runs_of((G,))
    assert [len(run[0]) for run in runs] == [4, 4, 2]
    np.testing.assert_allclose(problem.total(np.zeros(2), runs), G.sum(axis=0))
    plan = MirrorProx().plan(problem, Allowance(1e10), 2)
    z = MirrorProx().run(plan, problem, (G,), np.random.default_rng(1))
    monkeypatch.undo()
    same = MirrorProx().run(plan, problem, (G,), np.random.default_rng(1))
    np.testing.assert_allclose(z, same, atol=1e-6)
