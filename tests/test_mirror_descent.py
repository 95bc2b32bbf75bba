"""Mirror descent on private draws of vertices: plans, batches, directions, and the games."""

import math

import numpy as np
import pytest
from cases import each
from stand_ins import Payoffs

from skdpsco.constraints import L2Ball, Simplex
from skdpsco.data.pieces import sum_error
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import rho_of
from skdpsco.solvers import Allowance, BiasReducedMirrorDescent, MirrorDescent
from skdpsco.solvers.saddle.geometry import Geometry
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import (
    BilinearGame,
    Block,
    MatrixGame,
    Operator,
    QuadraticGame,
    duality_gap,
    solve_variational_inequality,
)
from skdpsco.variational.clipped_operator import check_operator
from skdpsco.variational.solve import _clipped

NOISELESS = Allowance(1e8)
ROW = np.ones((1, 2))


def play(operator, n, budget=NOISELESS, n_iter=None, seed=0, **options):
    """Plan and result of a run on n records."""
    solver, problem = MirrorDescent(**options), VariationalProblem(operator, n)
    plan = solver.plan(problem, budget, n_iter)
    return plan, solver.run(plan, problem, (np.arange(n),), np.random.default_rng(seed))


@pytest.mark.parametrize("A", [[[1.0, -1.0], [-1.0, 1.0]], [[1.0, -0.2], [-0.5, 0.4], [0.9, 1.0]]])
def test_without_noise_the_gap_vanishes(A):
    gaps = []
    for n_iter in (10, 100, 500, 5_000):
        game = Payoffs(A)
        gaps.append(game.gap(play(game, 5_000, n_iter=n_iter)[1]))
    # Of order 1 / sqrt(T); with y descending it does not fall below 0.2.
    assert gaps[3] < 0.025
    assert gaps[2] < 0.08
    assert gaps[3] < 0.3 * gaps[1] + 0.005


@each("bounds", [(1.0, 1.0), (0.3, 7.0)])
@each("n_iter", [1, 5, 40, None])
def test_no_record_pays_more_than_the_budget(bounds, n_iter):
    game, n, rho, K = Payoffs(np.zeros((4, 9))), 400, 0.02, 3
    game.blocks = (Block(Simplex(), 4, bounds[0]), Block(Simplex(), 9, bounds[1]))
    problem = VariationalProblem(game, n)
    plan = MirrorDescent(n_draws=K).plan(problem, Allowance(rho), n_iter)
    T = plan.n_iter + 1
    costs = []
    for t, grid in enumerate(plan.batches.grid, start=1):
        ranges = [4.0 * b / (g * 2.0**SCALE_BITS) for b, g in zip(bounds, grid, strict=True)]
        costs.append(K * (T - t) * sum(r**2 for r in ranges) / 8.0)
    assert max(costs) <= rho
    assert rho_of(plan.event) == pytest.approx(max(costs), rel=1e-5)
    if n_iter in (5, 40):  # otherwise the limit on the steps may leave some
        assert max(costs) >= rho * (1.0 - 1e-5)


@pytest.mark.parametrize("solver", [MirrorDescent(n_draws=1), BiasReducedMirrorDescent(0)])
def test_rounding_is_paid_for(solver):
    """With so many records, the rounding of their sum is as large as what a record adds."""
    game, n, rho, bound = Payoffs(np.zeros((3, 3)), 2.0), 10**11, 1e-6, 2.0
    problem = VariationalProblem(game, n)
    plan = solver.plan(problem, Allowance(rho), 1)
    single = isinstance(solver, MirrorDescent)
    batches = plan.batches if single else plan.batches(problem, np.zeros(0, np.int64))
    (grid,), costs = batches.grid, []
    for error in (0.0, sum_error(n, bound)):
        units = [4.0 * (bound + error) / g + 2.5 for g in grid]  # and of scores to the grid
        costs.append(sum((u / 2.0**SCALE_BITS) ** 2 for u in units) / 8.0)
    assert costs[0] < 0.8 * batches.rho
    assert 0.99 * batches.rho < costs[1] <= batches.rho <= rho


@pytest.mark.parametrize("n", [1, 1_000, 10**9])
@pytest.mark.parametrize("rho", [1e-12, 1e-9, 1e12])
def test_the_automatic_schedule_is_affordable(n, rho):
    # Steps are limited by the grid of the scores too, of which every draw costs something.
    game = Payoffs(np.zeros((2, 2)))
    for game.second_smoothness in (0.0, 1e6):
        game.smoothness = [[1e-6, 1.0], [1.0, 1e6]]
        for solver in (MirrorDescent(), BiasReducedMirrorDescent()):
            plan = solver.plan(VariationalProblem(game, n), Allowance(rho))
            assert rho_of(plan.event) <= rho


@each(
    ("changes", "match"),
    [
        ({"blocks": (Block(Simplex(), 2, 1.0),)}, "exactly two"),
        ({"blocks": (Block(Simplex(), 2, 1.0),) * 3}, "exactly two"),
        ({"blocks": (Block(Simplex(), 2, 1.0), Block(L2Ball(1.0), 2, 1.0))}, "blocks"),
        ({"blocks": (Block(Simplex(), 2, 1.0), Block(Simplex(2.0), 2, 1.0))}, "radius 1"),
        ({"saddle": False}, "saddle"),
        ({"weights": lambda z: z}, "weights"),
        ({"second_smoothness": -1.0}, "second_smoothness"),
        ({"second_smoothness": math.nan}, "second_smoothness"),
        ({"second_smoothness": 10**400}, "second_smoothness"),
        ({"second_smoothness": None, "smoothness": None}, "smoothness"),
        ({"n_iter": 11}, "n_iter"),
        ({"rho": 1e-14}, "n_iter=10 is too large for a budget"),
    ],
)
def test_problems_that_are_refused(changes, match):
    game, n_iter = Payoffs(np.eye(2)), changes.get("n_iter", 10)
    budget = Allowance(changes.get("rho", 0.1))
    for name, value in changes.items():
        setattr(game, name, value)
    for solver in (MirrorDescent(), BiasReducedMirrorDescent()):
        with pytest.raises(ValueError, match=match):
            solver.plan(VariationalProblem(game, 10), budget, n_iter)


def records(game, n, seed=0):
    rng = np.random.default_rng(seed)
    u, v = (rng.uniform(-1.5, 1.5, (n, block.size)) for block in game.blocks)
    return (u, v) if isinstance(game, BilinearGame) else (u, v, u[:, 0], v[:, 1])


@pytest.mark.parametrize("game", [BilinearGame(3, 4, 0.7), QuadraticGame(3, 4, 0.7)])
def test_games(game):
    data, rng = records(game, 5_000), np.random.default_rng(1)
    operator = _clipped(game)
    check_operator(operator, Geometry(game.blocks), tuple(array[:9] for array in data))
    z = Geometry(game.blocks).point(Geometry(game.blocks).start(), rng.uniform(-0.2, 0.2, 7))
    rows = game(z, *data)
    np.testing.assert_allclose(game.total(z, data), rows.sum(axis=0), rtol=1e-10, atol=1e-9)
    np.testing.assert_array_equal(operator.total(z, data), game.total(z, data))
    for j in range(7):
        h = np.zeros(7)
        h[j] = 1e-5
        slope = (game.value(z + h, *data) - game.value(z - h, *data)) / 2e-5
        np.testing.assert_allclose(rows[:, j], slope if j < 3 else -slope, atol=1e-8)
    smaller = [Block(Simplex(), 3, 0.1), Block(Simplex(), 4, 0.1)]  # not the game's own bounds
    total = _clipped(Operator(game, smaller)).total(z, tuple(array[:1] for array in data))
    assert np.abs(total).max() <= 0.1 * (1 + 1e-12) < np.abs(rows[0]).max()


@each("game", [BilinearGame(2, 3), QuadraticGame(2, 3)])
@each("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_no_record_exceeds_its_bounds(game, bad):
    data = records(game, 6)
    z = np.array([0.3, 0.7, 0.2, 0.2, 0.6])
    before = game.total(z, data)
    for array in data:
        array[2] = bad
    moved = np.abs(game.total(z, data) - before)
    assert np.isfinite(moved).all()
    assert moved.max() <= 2.0 * game.blocks[0].lipschitz * (1 + 1e-12)


def test_duality_gap():
    A = np.array([[0.2, -0.7], [-0.1, 0.6]])
    vectors = np.linalg.svd(A)
    u = np.repeat((vectors.U * np.sqrt(2 * vectors.S)).T, 50, axis=0)
    v = np.repeat((vectors.Vh.T * np.sqrt(2 * vectors.S)).T, 50, axis=0)
    game, z = BilinearGame(2, 2, 2.0), np.array([0.3, 0.7, 0.4, 0.6])
    exact = (A.T @ z[:2]).max() - (A @ z[2:]).min()
    assert duality_gap(game, z, u, v) == pytest.approx(exact, abs=3e-6)
    game = QuadraticGame(2, 2)
    data = records(game, 40)
    weights = np.linspace(0.0, 1.0, 2_001)

    def payoff(x, y):
        return float(np.mean(game.value(np.array([x, 1.0 - x, y, 1.0 - y]), *data)))

    best = max(payoff(0.3, y) for y in weights) - min(payoff(x, 0.4) for x in weights)
    assert duality_gap(game, z, *data) == pytest.approx(best, abs=1e-5)


@each(
    ("call", "error", "match"),
    [
        (lambda: QuadraticGame(2, 2, bound="1"), TypeError, "bound"),
        (lambda: MatrixGame(2, 2, bound=-1.0), ValueError, "bound"),
        (
            lambda: solve_variational_inequality(MatrixGame(2, 3), np.ones((9, 2, 2))),
            ValueError,
            "matrix of shape",
        ),
        (lambda: duality_gap(MatrixGame(2, 2), np.ones(4) / 2), TypeError, "game"),
        (lambda: duality_gap(BilinearGame(2, 2), np.ones(3), ROW, ROW), ValueError, "z"),
        (lambda: duality_gap(BilinearGame(2, 2), np.ones(4), ROW, ROW, tol=0), ValueError, "tol"),
        (lambda: BilinearGame(2, 2)(np.ones(4), ROW), ValueError, "2 arrays"),
        (lambda: BilinearGame(2, 2)(np.ones(4), ROW, np.ones((1, 3))), ValueError, "shapes"),
    ],
)
def test_bad_games(call, error, match):
    with pytest.raises(error, match=match):
        call()
