"""Whether accelerated recursion tells neighbours apart no better than its budget allows."""

import math
from itertools import product

import numpy as np
import pytest

from skdpsco.constraints import L2Ball
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import AcceleratedRecursive, Allowance
from skdpsco.solvers.saddle import accelerated_recursive as module
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block
from skdpsco.variational.solve import MatrixGame, _clipped

RUNS = 1_000  # on each data set


class Constant:
    """G(z; x) = x: the solution of a round moves by as much as its stability allows."""

    saddle = True
    monotone = True
    smoothness = ((0.0,),)
    blocks = (Block(L2Ball(1.0), 1, 1.0),)

    def total(self, z, data):
        return np.array([data[0].sum()])


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_neighbours(n_rounds):
    mu = 1.0
    problem, solver = VariationalProblem(Constant(), 4), AcceleratedRecursive(n_rounds)
    plan = solver.plan(problem, Allowance(mu**2 / 2))
    rng = np.random.default_rng(0)
    released = [
        [solver.run(plan, problem, (np.array([0.0, 0.0, 0.0, x]),), rng)[0] for _ in range(RUNS)]
        for x in (-1.0, 1.0)
    ]
    # The total variation of mu-GDP, 0.38. The first threshold is known: the released solutions are
    # symmetric. Deviation below 1 / sqrt(2 RUNS) = 0.023; with half of the noise it is 0.68.
    first, second = np.array(released)
    advantage = np.mean(first > 0.0) - np.mean(second > 0.0)
    assert advantage <= math.erf(mu / 2 / math.sqrt(2)) + 6 * 0.023
    assert advantage >= (0.25 if n_rounds == 1 else 0.1)  # it does see the record


def test_solutions_before_noise_move_by_less_than_is_charged(monkeypatch):
    # All extreme payoffs of one record, for every round that it may be in.
    moved, before = 0.0, []
    monkeypatch.setattr(module, "gaussian_mechanism", lambda rng, z, grid: before.append(z.copy()))
    problem = VariationalProblem(_clipped(MatrixGame(2, 2)), 6)
    solver = AcceleratedRecursive(2)
    plan = solver.plan(problem, Allowance(0.5))
    rest = np.random.default_rng(0).uniform(-1, 1, (5, 2, 2))
    for record in range(2):  # of which the first round has one, and the second the other
        groups = []
        for signs in product((-3.0, 3.0), repeat=4):  # beyond the bound
            before.clear()
            payoffs = np.insert(rest, 5 * record, np.reshape(signs, (2, 2)), axis=0)
            solver.run(plan, problem, (payoffs,), np.random.default_rng(3))
            groups.append(before.copy())
        groups = np.array(groups)  # (data set, round, coordinate)
        moves = np.linalg.norm(groups[:, None] - groups, axis=3).max(axis=(0, 1))
        # Only one round sees the record at first hand; that of the next follows what was released,
        # which is the un-noised solution here.
        t = int(np.flatnonzero(moves > 1e-9)[0])
        charged = plan.rounds[t].grid * 2.0**SCALE_BITS  # at a budget of mu = 1
        assert moves[t] <= charged
        moved = max(moved, moves[t] / charged)
    assert moved > 0.4  # payoffs of one sign move nothing: the bound is not attained
