"""Boosted mirror descent: parts, brute force over neighbours, responses, the choice, input."""

import math

import numpy as np
import pytest

from skdpsco.constraints import Simplex
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget, GaussianEvent, Ledger, NoOpEvent, ZCDPEvent, rho_of
from skdpsco.solvers import Allowance, BoostedMirrorDescent, Plan
from skdpsco.solvers.saddle import boosted_mirror_descent as module
from skdpsco.solvers.saddle.boosted_mirror_descent import best_response, plan_response, total_value
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import BilinearGame, Operator, QuadraticGame, duality_gap
from skdpsco.variational.solve import MatrixGame, solve_variational_inequality


class Toy:
    """Records are one number: operators as large as may be, payoffs that differ between points.

    What a record says is times its own number, and beyond the bounds of payoffs.
    """

    saddle = True
    value_bound = 2.0
    payoffs = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    slopes = np.array([1.5, -1.5, 1.5, 3.0, 3.0, -3.0])

    def __init__(self, curvature=0.0):
        self.blocks = (Block(Simplex(), 3, 1.5), Block(Simplex(), 3, 3.0))
        self.smoothness = [[curvature, 0.0], [0.0, 0.0]]

    def total(self, z, data):
        return data[0].sum() * self.slopes

    def value(self, z, signs):
        pays = 1e9 * (z[:3] @ self.payoffs @ z[3:])
        return np.where(signs == 0.0, 0.0, signs * pays)


class Given:
    """A base solver that knows its points, and keeps the records that it sees."""

    def __init__(self, points, cost=None):
        self.points, self.seen, self.event = points, [], cost or NoOpEvent()
        self.assumptions = ()

    def plan(self, problem, budget, n_iter=None):
        return Plan(event=self.event, n_iter=n_iter or 1, assumptions=self.assumptions)

    def run(self, plan, problem, data, rng, progress=None):
        assert len(data[0]) == problem.n_samples
        self.seen.append(data[0].copy())
        return self.points[(len(self.seen) - 1) % len(self.points)].copy()


def vertices(*pairs):
    return [np.concatenate([np.eye(3)[i], np.eye(3)[j]]) for i, j in pairs]


def logged(monkeypatch, forced):
    """Have `choose_index` take a given index, and keep the scores."""
    log = []

    def choose(rng, scores, grid):
        log.append(scores / grid)
        return min(forced, len(scores) - 1)

    monkeypatch.setattr(module, "choose_index", choose)
    return log


@pytest.mark.parametrize("curvature", [0.0, 1000.0])
def test_no_neighbour_exceeds_the_budget(curvature, monkeypatch):
    """Whichever record is replaced: what its part releases costs the budget at most, once.

    Payoffs are such that what one run's responses gain rises by all it can, another's falls.
    """
    n, rho = 60, 0.3
    solver = BoostedMirrorDescent(1.0, Given(vertices((0, 0), (1, 1))))
    problem = VariationalProblem(Toy(curvature), n)
    plan = solver.plan(problem, Allowance(rho))
    assert plan.event == ZCDPEvent(rho)
    assert (plan.steps[0] > 1) == (curvature > 0.0)
    rows = np.random.default_rng(0).permutation(n)
    (runs, responses), (own, _, last) = plan.counts, plan.parts
    log, paid = logged(monkeypatch, 2), []
    for place in range(n):
        records, scores = np.zeros(n), []
        for own_value in (-1.0, 1.0):
            records[rows[place]] = own_value
            log.clear()
            solver.solver.seen.clear()
            solver.run(plan, problem, (records,), np.random.default_rng(0))
            scores.append(list(log))
        assert len(scores[0]) == runs * responses * sum(plan.steps) + 1
        ranges = [np.ptp(a - b) / 2.0**SCALE_BITS for a, b in zip(*scores, strict=True)]
        part = np.array(ranges) > 0.0
        if place < runs * own:
            assert not part.any()
        elif place < n - last:
            assert part.sum() in plan.steps
            assert not part[-1]
        else:
            assert part.sum() == part[-1] == 1
        paid.append(np.square(ranges).sum() / 8.0)
    assert max(paid) <= rho
    responded, chosen = paid[runs * own : n - last], paid[n - last :]
    assert min(responded) > 0.99 * rho
    assert min(chosen) > 0.99 * rho


def test_the_cost_is_that_of_the_costliest_part():
    problem = VariationalProblem(Toy(), 500)
    for cost, expected in ((1e-3, 0.5), (0.5, 0.5)):
        base = Given(vertices((0, 0)), ZCDPEvent(cost))
        plan = BoostedMirrorDescent(1.0, base).plan(problem, Allowance(0.5), 3)
        assert rho_of(plan.event) == expected
        assert plan.n_iter == 3
    dear = Given(vertices((0, 0)), GaussianEvent(0.9))
    with pytest.raises(ValueError, match="costs mu"):
        BoostedMirrorDescent(1.0, dear).plan(problem, Allowance(0.5))


def games(n, seed=0, d=4):
    rng = np.random.default_rng(seed)
    sign = np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0)
    tilt = np.linspace(0.1, 0.9, d)
    u, v = (np.where(rng.random((n, d)) < (1 + tilt) / 2, 1.0, -1.0) for _ in range(2))
    yield BilinearGame(d, d), (sign * u, sign * v)
    yield QuadraticGame(d, d), (u, v, np.full(n, 0.3), np.full(n, 0.2))


def test_responses_are_best_responses():
    for game, data in games(3000):
        problem = VariationalProblem(game, 3000)
        z, rng = problem.geometry.start(), np.random.Generator(np.random.PCG64(0))
        gains = []
        for player, sign in ((0, -1.0), (1, 1.0)):
            steps, grid = plan_response(problem, player, 3000, 1e6)
            assert (steps > 1) == isinstance(game, QuadraticGame)
            other = best_response(problem, player, z, data, steps, grid, rng)
            kept = problem.geometry.parts[1 - player]
            np.testing.assert_array_equal(other[kept], z[kept])
            gains.append(sign * np.mean(game.value(other, *data) - game.value(z, *data)))
        gap = duality_gap(game, z, *data)
        assert 0.95 * gap < sum(gains) <= gap + 1e-9


def test_the_run_with_the_smallest_gap_is_chosen():
    n = 4000
    for game, data in games(n):
        size = game.blocks[0].size
        edges = [np.concatenate([np.eye(size)[i], np.eye(size)[j]]) for i, j in ((3, 0), (2, 2))]
        best = np.concatenate([np.eye(size)[0], np.eye(size)[3]])
        if isinstance(game, QuadraticGame):
            best = np.full(2 * size, 1.0 / size)
        gaps = [duality_gap(game, z, *data) for z in (*edges, best)]
        assert gaps[2] < min(gaps[:2]) - 0.2
        problem = VariationalProblem(game, n)
        for place in range(3):
            points = [*edges[:place], best, *edges[place:]]
            solver = BoostedMirrorDescent(0.6, Given(points))
            plan = solver.plan(problem, Allowance(100.0))
            assert plan.counts[0] == 3
            z = solver.run(plan, problem, data, np.random.Generator(np.random.PCG64(place)))
            np.testing.assert_array_equal(z, best)


def test_payoffs_are_clipped():
    game = Toy()
    wild = {"value": lambda z, x: np.array([np.nan, np.inf, -np.inf, 1e300, 0.5])}
    vars(game).update(wild)
    assert total_value(game, np.zeros(6), (np.zeros(5),)) == -2.0 + 2.0 - 2.0 + 2.0 + 0.5
    for bad in (lambda z, x: np.zeros((5, 1)), lambda z, x: 0.0, lambda z, x: x + 1j, lambda: 0):
        game.value = bad
        assert total_value(game, np.zeros(6), (np.zeros(5),)) == -10.0


def test_payoffs_of_another_shape_are_refused_before_the_charge():
    game, ledger = MatrixGame(3, 3), Ledger(1.0, 1e-6)
    for bad in (lambda z, x: np.zeros((len(x), 1)), lambda z, x: 0.0, lambda z, x: None):
        game.value = bad
        with pytest.raises(ValueError, match=r"value must return real numbers of shape"):
            solve_variational_inequality(
                game, np.zeros((5000, 3, 3)), solver="boosted-mirror-descent", ledger=ledger
            )
    assert ledger.charges() == []


def test_bad_problems():
    solver, budget = BoostedMirrorDescent(), Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="n_samples must be at least 216 for 6 runs and 9 resp"):
        solver.plan(VariationalProblem(BilinearGame(2, 2), 215), budget)
    plan = solver.plan(VariationalProblem(BilinearGame(2, 2), 216), budget)
    assert plan.parts == (9, 1, 54)

    def silent(z, signs):
        return np.zeros((len(signs), 6))

    silent.value_bound = 1.0
    silent = Operator(silent, Toy().blocks, saddle=True)
    with pytest.raises(TypeError, match="needs an operator with value"):
        solve_variational_inequality(silent, np.zeros(500), solver="boosted-mirror-descent")
    game = Toy()
    for changes, match in (
        ({"value_bound": None}, "needs an operator with value"),
        *(({"value_bound": bad}, "value_bound must be")
          for bad in (0.0, -1.0, math.nan, math.inf, "1", True)),
        ({"value_bound": 1.0, "smoothness": None}, "needs the operator's smoothness"),
        ({"saddle": False}, "needs saddle=True"),
    ):  # fmt: skip
        vars(game).update(changes)
        with pytest.raises((TypeError, ValueError), match=match):
            solver.plan(VariationalProblem(game, 1000), budget)
