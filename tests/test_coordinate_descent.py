"""Cyclic, random and greedy coordinate descent: plans, convergence, layouts, choices."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from cases import each
from runs import make_problem, solve
from scipy import sparse

from skdpsco.data.design import CSC, Columns, as_columns, as_design, columns_of
from skdpsco.losses import Logistic, Multinomial, Squared, derivative, derivatives
from skdpsco.penalties import L1, L2, Box
from skdpsco.privacy import Budget
from skdpsco.scaling.column_scales import Scales
from skdpsco.solvers import SGD, Allowance, GradientDescent, check_supported
from skdpsco.solvers.penalized import coordinate_descent as cd_module
from skdpsco.solvers.penalized import greedy_coordinate_descent as greedy_module
from skdpsco.solvers.penalized.coordinate_descent import CoordinateDescent, slopes
from skdpsco.solvers.penalized.greedy_coordinate_descent import GreedyCoordinateDescent
from skdpsco.solvers.penalized.problem import CompositeProblem, CoordinateModel

SOLVERS = [
    CoordinateDescent(), CoordinateDescent("random", clip=0.5, average=True),
    GreedyCoordinateDescent(), GreedyCoordinateDescent("gs-s", clip=2.0),
]  # fmt: skip
HUGE = Allowance(1e22)


def test_other_bad_parameters():
    for change, message in (
        ({"unit": (1.0,)}, "one entry per feature, 2, got 1"),
        ({"unit": (1.0, -1.0)}, "unit must be at least 0"),
        ({"unit": (1.0, 1e200)}, r"weight \* unit\*\*2 finite"),
        ({"weight": 0.0}, "weight must be positive"),
        ({"constraint": L1(1.0)}, "has a penalty, and no constraint"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(make_problem(Logistic(), 10, 2), **change)
    for solver in (*SOLVERS, GradientDescent(), SGD()):
        problem = make_problem(Logistic(), 10, 100_000)
        with pytest.raises(ValueError, match="fewer, larger draws"):
            solver.plan(problem, Budget(1e-5, 1e-12), 1000)
        check_supported(solver, problem)


@each("intercept", [False, True])
@each("layout", [np.asarray, sparse.csr_matrix])
def test_columns_are_what_kernels_see(layout, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(scale=2.0, size=(3000, 4)) * (rng.random((3000, 4)) < 0.5)
    design = as_design(layout(X), np.array([1.0, 0.5, 2.0, 9.0]), intercept)
    columns = as_columns(design)
    if isinstance(columns, CSC):
        shape = (columns.n, 4 + intercept)
        assert len(columns.data) == np.count_nonzero(X) + 3000 * intercept  # not densified
        seen = sparse.csc_matrix((columns.data, columns.indices, columns.indptr), shape).toarray()
    else:
        assert isinstance(columns, Columns)
        seen = columns.values.T
    assert (seen == columns_of(design, 0, 3000, np.arange(4 + intercept))).all()


def test_fast_slopes_are_exact():
    z = np.concatenate([np.linspace(-60, 60, 20_001), [0.0, 1e-300, -1e300, 1e300]])
    for y in (-1.0, 1.0):
        exact, fast = np.empty((len(z), 1)), np.empty((len(z), 1))
        derivatives(Logistic(), z[:, None], np.full(len(z), y), exact)
        slopes(Logistic(), z[:, None], np.full(len(z), y), fast)
        assert np.abs(fast - exact).max() < 1e-14


@pytest.mark.parametrize("solver", SOLVERS[1:3], ids=["CD", "GCD"])
def test_slopes_of_a_subclass_are_those_of_its_derivative(solver):
    class Half(Logistic):
        pass

    @derivative.register(Half)
    def _(loss, z, y):
        return 0.5 * derivative.dispatch(Logistic)(loss, z, y)

    solver.plan(CompositeProblem(Half(), None, 99, 2, penalty=L2(0.01), unit=(1.0,) * 2), HUGE)
    Z, y = np.array([[0.3], [-2.0]]), np.array([1.0, -1.0])
    own, parents = np.empty_like(Z), np.empty_like(Z)
    slopes(Half(), Z, y, own)
    slopes(Logistic(), Z, y, parents)
    np.testing.assert_allclose(own, 0.5 * parents, rtol=1e-12)


def test_a_box_is_kept_to():
    """By gradient descent, too."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 5))
    y = X @ [2, -1, 0.5, 0, 0] + 0.7 + 0.2 * rng.normal(size=400)
    y = y / np.abs(y).max()
    for solver, budget in itertools.product(
        [*SOLVERS, GradientDescent()], (HUGE, Budget(1.0, 1e-6))
    ):
        problem = make_problem(Squared(1.0), 400, 5, True, Box(0.05), 2.0)
        coef = solve(solver, problem, X, y, budget, bounds=2.0).coef
        assert (np.abs(coef[:5] / 2.0) <= 0.05 * (1 + 1e-12)).all()
        assert budget is not HUGE or np.abs(coef[0] / 2.0) == pytest.approx(0.05)
        assert budget is not HUGE or abs(coef[5]) > 0.05  # the intercept is free


@pytest.mark.parametrize("rule", ["gs-r", "gs-s"])
def test_greedy_takes_the_best_coordinate(rule):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (2000, 30))
    y = np.clip(0.9 * X[:, 17] - 0.5 * X[:, 3], -1, 1)
    problem = make_problem(Squared(1.0), 2000, 30, penalty=L1(0.01))
    one, two = (
        solve(GreedyCoordinateDescent(rule), problem, X, y, Allowance(1e12), t).coef for t in (1, 2)
    )
    assert np.flatnonzero(one).tolist() == [17]
    assert np.flatnonzero(two).tolist() == [3, 17]
    # With a tiny budget all are alike: 20 draws of one of 30.
    L0, budget = make_problem(Squared(1.0), 2000, 30, penalty=L2(0.0)), Allowance(1e-6)
    chosen = {
        int(
            np.flatnonzero(
                solve(GreedyCoordinateDescent(rule, clip=1.0), L0, X, y, budget, 1, seed=s).coef
            )[0]
        )
        for s in range(20)
    }
    assert len(chosen) > 5


def test_scores_are_gains_over_the_root_of_the_curvature():
    """Without a penalty both rules are |slope| / sqrt(M); an l1 penalty takes its weight off."""
    w, slope, smooth = np.zeros(3), np.array([0.3, -0.5, 0.1]), np.array([0.25, 0.04, 0.01])
    score = np.empty(3)
    for by_step in (True, False):
        for penalty, left in ((L2(0.0), np.abs(slope)), (L1(0.2), [0.1, 0.3, 0.0])):
            model = CoordinateModel(penalty, 1.0, np.ones(3), smooth, np.zeros(3))
            greedy_module.write_scores.py_func(model, by_step, w, slope, score)
            assert score == pytest.approx(left / np.sqrt(smooth))


def test_bounds_of_derivatives():
    """Automatic bounds follow the scales; none exceeds what no derivative does."""
    scales = Scales(np.array([1.0, 1e-4]), 0.1)
    for loss, clip, expected in (
        (Squared(), "auto", [0.3, 0.003]),
        (Squared(0.2), "auto", [0.2, 0.003]),
        (Squared(), 2.0, [2.0, 0.02]),
        (Logistic(), "auto", [1.0, 0.013]),
        (Logistic(), 0.5, [0.5, 0.005]),
        (Multinomial(3), "auto", [math.sqrt(2), 0.013 * math.sqrt(2)]),
    ):
        problem = make_problem(loss, 10, 2)
        assert cd_module.clip_bounds(problem, scales, clip, 1.0) == pytest.approx(expected)
