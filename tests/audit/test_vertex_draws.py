"""Mirror descent on draws of vertices: all transcripts of tiny runs, with exact probabilities.

The runs are the solvers' own, with scores as they compute them; what is drawn is given, and its
probability noted. Records and gradients are the worst that bounds allow.
"""

import itertools

import numpy as np
import pytest

from skdpsco.constraints import Simplex
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import Allowance, BiasReducedMirrorDescent, MirrorDescent
from skdpsco.solvers.saddle import mirror_descent
from skdpsco.solvers.saddle.bias_reduced_mirror_descent import BiasReducedPlan, Levels
from skdpsco.solvers.saddle.mirror_descent import Scores
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block

ORDERS = (1.01, 1.5, 2.0, 5.0, 20.0)
D = 2  # vertices of each player


class Worst:
    """A record c in [-1, 1] has the gradient ``c * sign * (1, -1)`` in both blocks.

    ``signs`` are those of the evaluations within a step, so that differences add up. What is not
    the record's own depends on the transcript, as in any run.
    """

    saddle = True
    second_smoothness = 1.0
    smoothness = ((1.0, 1.0), (1.0, 1.0))
    blocks = (Block(Simplex(), D, 1.0),) * 2

    def __init__(self, signs=(1.0,)):
        self.signs, self.count = signs, 0

    def total(self, z, data):
        (c,) = data
        sign = self.signs[self.count]
        self.count += 1
        tilt = np.where(c == 0.0, z[0] - z[2], sign * c).sum()
        return tilt * np.array([1.0, -1.0, 1.0, -1.0])


class Order:
    """A stand-in for the generator, with a given order of the records."""

    def __init__(self, rows):
        self.rows = np.array(rows)

    def permutation(self, n):
        return self.rows


class Noted(Scores):
    """Scores whose draws are given, and their log-probabilities added up."""

    choices: list
    log_probability: float

    def draw(self, rng, n_draws, counts):
        for _ in range(n_draws):
            for part in self._parts:
                nats = self._units[part] * 2.0**-SCALE_BITS
                k = Noted.choices.pop(0)
                Noted.log_probability += nats[k] - np.log(np.exp(nats).sum())
                counts[part][k] += 1.0


def transcripts(solver, plan, problem, data, order, signs, n_draws):
    """Log-probabilities of all transcripts of ``n_draws`` draws."""
    found = []
    for choices in itertools.product(range(D), repeat=n_draws):
        problem.operator.signs, problem.operator.count = signs, 0
        Noted.choices, Noted.log_probability = list(choices), 0.0
        solver.run(plan, problem, (data,), Order(order))
        assert not Noted.choices
        found.append(Noted.log_probability)
    assert np.exp(found).sum() == pytest.approx(1.0)
    return np.array(found)


def zcdp(p, q):
    """The largest Renyi divergence over its order, in both directions."""
    return max(
        np.log(np.exp(a * x + (1.0 - a) * y).sum()) / (a - 1.0) / a
        for a in ORDERS
        for x, y in ((p, q), (q, p))
    )


def neighbours(n, position):
    first = np.zeros(n)
    second = np.zeros(n)
    first[position], second[position] = 1.0, -1.0
    return first, second


@pytest.mark.parametrize("rho", [0.02, 0.5])
def test_mirror_descent(monkeypatch, rho):
    monkeypatch.setattr(mirror_descent, "Scores", Noted)
    n = 4
    problem = VariationalProblem(Worst((1.0,) * 3), n)
    solver = MirrorDescent(n_draws=1)
    plan = solver.plan(problem, Allowance(rho), 3)
    assert plan.batches.rho == pytest.approx(rho)
    costs = []
    for position in range(n):
        for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
            p, q = (
                transcripts(solver, plan, problem, data, order, (1.0,) * 3, 6)
                for data in neighbours(n, position)
            )
            costs.append(zcdp(p, q))
    assert max(costs) <= rho * (1.0 + 1e-9)
    assert max(costs) >= (0.97 if rho < 0.1 else 0.8) * rho


@pytest.mark.parametrize(
    ("level", "rho", "positions"), [(0, 0.02, [0, 1]), (0, 0.5, [0, 1]), (1, 0.02, [1])]
)
def test_bias_reduced_mirror_descent(monkeypatch, level, rho, positions):
    monkeypatch.setattr(mirror_descent, "Scores", Noted)
    monkeypatch.setattr(Levels, "draw", lambda levels, rng: level)
    n = 2
    # The centre, then the first vertex, the first half, and all. At level 0 the first two are one
    # point, so that their gradients must be one: the worst is the opposite at the third.
    signs = (1.0, 1.0, -1.0, 1.0) if level else (1.0, -1.0, 1.0)
    problem = VariationalProblem(Worst(signs), n)
    solver = BiasReducedMirrorDescent(max_level=1)
    plan = solver.plan(problem, Allowance(rho), 2)
    batches = plan.batches(problem, np.array([level]))
    assert batches.rho == pytest.approx(rho)
    monkeypatch.setattr(BiasReducedPlan, "batches", lambda *_: batches)  # in less time
    n_draws = 2 * (1 + 2 ** (level + 1) + 1)
    costs = []
    for position in positions:
        p, q = (
            transcripts(solver, plan, problem, data, [0, 1], signs, n_draws)
            for data in neighbours(n, position)
        )
        costs.append(zcdp(p, q))
    assert max(costs) <= rho * (1.0 + 1e-9)
    assert max(costs) >= (0.97 if rho < 0.1 else 0.8) * rho
