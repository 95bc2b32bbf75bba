"""Whether whole runs of mirror prox tell neighbours apart no better than their budget allows."""

import math

import numpy as np
import pytest

from skdpsco.constraints import L2Ball
from skdpsco.solvers import Allowance
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

RUNS = 3_000  # on each data set


class Constant:
    """G(z; x) = x: every call sees the whole difference between neighbours."""

    saddle = True
    smoothness = ((0.0,),)
    blocks = (Block(L2Ball(1.0), 1, 1.0),)

    def total(self, z, data):
        return np.array([data[0].sum()])


@pytest.mark.parametrize(
    ("solver", "n_iter"),
    [
        (MirrorProx("mirror-descent"), 2),
        (MirrorProx("mirror-prox"), 2),
        (RecursiveRegularisation(MirrorProx("mirror-prox"), n_rounds=2), 2),
    ],
)
def test_neighbours(solver, n_iter):
    mu = 1.0
    problem = VariationalProblem(Constant(), 4)
    plan = solver.plan(problem, Allowance(mu**2 / 2), n_iter)
    rng = np.random.default_rng(0)
    released = [
        [solver.run(plan, problem, (np.array([0.0, 0.0, 0.0, x]),), rng)[0] for _ in range(RUNS)]
        for x in (-1.0, 1.0)
    ]
    # The total variation of mu-GDP. A threshold, chosen on one half and tried on the other, has
    # deviation below 1 / sqrt(RUNS / 2) = 0.026; with half of the noise the value is 0.68.
    limit = math.erf(mu / 2 / math.sqrt(2))
    first, second = np.array(released)
    half = RUNS // 2
    both = np.sort(np.concatenate([first[:half], second[:half]]))
    gaps = [np.mean(first[:half] > c) - np.mean(second[:half] > c) for c in both[::50]]
    cut = both[::50][np.argmax(gaps)]
    advantage = np.mean(first[half:] > cut) - np.mean(second[half:] > cut)
    assert advantage <= limit + 6 * 0.026
    assert advantage >= 0.08  # it does see the record
