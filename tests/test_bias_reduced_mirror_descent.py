"""Bias-reduced mirror descent: the law of the levels, the estimate, plans and costs."""

import itertools
import math

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import Simplex
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import rho_of
from skdpsco.solvers import Allowance, BiasReducedMirrorDescent
from skdpsco.solvers.saddle import bias_reduced_mirror_descent as module
from skdpsco.solvers.saddle.bias_reduced_mirror_descent import Levels, draws_of
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block

NOISELESS = Allowance(1e8)


class Cubic:
    """``sum(x**3) / 3 + x' A y - sum(y**3) / 3``: convex-concave on simplices, not quadratic."""

    saddle = True
    second_smoothness = 2.0
    smoothness = ((2.0, 1.0), (1.0, 2.0))

    def __init__(self, A, bound=2.0):
        self.A = np.array(A, dtype=float)
        m, k = self.A.shape
        self.blocks = (Block(Simplex(), m, bound), Block(Simplex(), k, bound))
        self.calls = []

    def mean(self, z):
        m = len(self.A)
        x, y = z[:m], z[m:]
        return np.concatenate([x**2 + self.A @ y, y**2 - self.A.T @ x])

    def total(self, z, data):
        self.calls.append((z.copy(), data[0].tolist()))
        return len(data[0]) * self.mean(z)


def test_the_law_of_the_levels(monkeypatch):
    for most in range(5):
        levels, number = Levels(most), 2 ** (most + 1) - 1
        found = np.zeros(most + 1)
        for k in range(number):
            monkeypatch.setattr(
                module, "below", lambda rng, m, k=k, n=number: k if m == n else None
            )
            found[levels.draw(None)] += 1.0
        np.testing.assert_allclose(found / number, levels.probability, rtol=1e-14)
        assert levels.total == pytest.approx(sum(2.0**-k for k in range(most + 1)))
        assert 1.0 <= levels.total < 2.0


class Given:
    """Scores whose draws are given, one vertex of each player at a time."""

    def __init__(self, choices, m):
        self.choices, self.m = list(choices), m

    def draw(self, rng, n_draws, counts):
        for _ in range(n_draws):
            i, j = self.choices.pop(0)
            counts[i] += 1.0
            counts[self.m + j] += 1.0


def test_the_estimate_is_that_of_the_largest_mean():
    """Exact expectations over levels and draws: only bias of 2**(M + 1) vertices is left."""
    game, levels = Cubic([[0.2, -0.5], [0.4, 0.1]]), Levels(1)
    problem, data = VariationalProblem(game, 3), (np.arange(3),)
    p = {(i, j): (0.3, 0.7)[i] * (0.6, 0.4)[j] for i in (0, 1) for j in (0, 1)}
    solver, expected = BiasReducedMirrorDescent(), np.zeros(4)
    largest = np.zeros(4)
    for level, share in enumerate(levels.probability):
        n_draws = 2 ** (level + 1)
        for choices in itertools.product(p, repeat=n_draws):
            probability = math.prod(p[c] for c in choices)
            scores = Given(choices, 2)
            total = solver._total(levels, level, problem, [data], scores, None)
            assert not scores.choices
            expected += share * probability * total
            if level == 1:
                z = np.zeros(4)
                Given(choices, 2).draw(None, n_draws, z)
                largest += probability * game.total(z / n_draws, data)
    np.testing.assert_allclose(expected, largest, rtol=1e-12)
    # The bias of a single vertex would show.
    single = sum(q * game.total(np.eye(4)[i] + np.eye(4)[2 + j], data) for (i, j), q in p.items())
    assert np.abs(single - largest).max() > 0.1


@each("seed", range(5))
def test_the_exact_cost_of_a_schedule(seed):
    """Against sums over what every record sees, from the grids that are used."""
    game, n, rho, bound = Cubic(np.eye(3)), 60, 1e-3, 2.0
    solver, problem = BiasReducedMirrorDescent(max_level=3), VariationalProblem(game, n)
    plan = solver.plan(problem, Allowance(rho), 8)
    assert rho_of(plan.event) == rho
    rng = np.random.default_rng(seed)
    level = np.array([plan.levels.draw(rng) for _ in range(7)])
    batches = plan.batches(problem, level)
    assert sum(batches.sizes) == n
    draws = [*draws_of(level), 1]  # after each batch, up to the next
    C, costs = 2.0 - 2.0**-3, []
    for s, grid in enumerate(batches.grid):
        change = 1.0
        if s > 0:
            k = level[s - 1]
            change = 2 * C * 2**k + 1 if k > 0 else 2 * C - 1
        ranges = [4.0 * bound * change / (g * 2.0**SCALE_BITS) for g in grid]
        costs.append(sum(draws[s:]) * sum(r**2 for r in ranges) / 8.0)
    assert rho * (1.0 - 1e-4) <= max(costs) <= rho


def test_without_noise_the_gap_vanishes():
    # x**3 / 3 has its minimum in the middle; y likewise. No single vertex is near it.
    game, n = Cubic(np.zeros((2, 2))), 3_000
    solver, problem = BiasReducedMirrorDescent(), VariationalProblem(game, n)
    plan = solver.plan(problem, NOISELESS, n)
    z = solver.run(plan, problem, (np.arange(n),), np.random.default_rng(0))
    assert np.abs(z - 0.5).max() < 0.05
