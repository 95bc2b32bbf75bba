"""Group DRO: whether all that a fit releases tells neighbours apart no better than is charged.

One pair of neighbours where the groups of records are public, and pairs where a record changes its
group or leaves several. What was released is weighed as the likelihood ratio does.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse
from test_group_dro import Given, problem_for

from skdpsco.data.design import as_design
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, gaussian_mechanism
from skdpsco.solvers.groups import moments as module
from skdpsco.solvers.groups.moments import GroupMoments
from skdpsco.solvers.groups.problem import LogisticMoments

RUNS = 20_000  # on each data set
MU = 1.0
LABELS = np.eye(2, dtype=bool)[[0, 1, 0, 1]]
OVERLAPS = np.array([[1, 1], [1, 0], [0, 1], [0, 0]], dtype=bool)


class Recorder:
    """Stand-in for the noise: draws it many times, in units of its deviation."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(module, "gaussian_mechanism", self)
        # At public points releases do not depend on each other, and the law of all is known.
        monkeypatch.setattr(module.Saddle, "solve", lambda *_: (np.array([9.0]), np.full(2, 0.5)))

    def __call__(self, rng, values, grid):
        self.exact.extend(values / (grid * 2.0**SCALE_BITS))
        for value in values:
            noisy = np.full(RUNS, value)
            gaussian_mechanism(rng, noisy, grid)
            self.released.append(noisy / (grid * 2.0**SCALE_BITS))
        return deviation_on(grid)

    def run(self, plan, problem, data, rng):
        self.exact, self.released = [], []
        GroupMoments().run(plan, problem, *data, rng, np.zeros(1, int))
        return np.array(self.exact), np.array(self.released).T


def with_less_noise(plan, factor):
    """The plan with so many times less noise."""
    grids = {
        field.name: getattr(plan, field.name)
        for field in dataclasses.fields(plan)
        if "grid" in field.name and getattr(plan, field.name) is not None
    }
    return dataclasses.replace(
        plan,
        **{
            name: tuple(g / factor for g in grid) if isinstance(grid, tuple) else grid / factor
            for name, grid in grids.items()
        },
    )


# The last number: how much less noise would be found. It is more where a record leaves both groups,
# which changes the sums by half as much as what is charged for.
@pytest.mark.parametrize(
    ("member", "mode", "before", "after", "factor"),
    [
        (LABELS, "public", (0.5, [1, 0]), (-0.5, [1, 0]), 2),
        (OVERLAPS, "public", (0.5, [1, 1]), (-0.5, [1, 1]), 2),
        (LABELS, "prior", (-0.5, [1, 0]), (0.5, [0, 1]), 2),
        (LABELS, "counts", (-0.5, [1, 0]), (-0.5, [0, 1]), 2),
        (OVERLAPS, "counts", (-0.5, [1, 1]), (0.5, [0, 0]), 3),
        (OVERLAPS, "counts", (-0.5, [1, 1]), (0.5, [1, 1]), 2),
    ],
)
def test_neighbours(monkeypatch, member, mode, before, after, factor):
    problem = problem_for(LogisticMoments(), member, 1, False, mode=mode)
    plan = GroupMoments().plan(problem, Given(MU), 1)
    recorder, rng = Recorder(monkeypatch), np.random.Generator(np.random.PCG64(0))

    def runs(plan, target, groups):
        X = as_design(np.array([[1.0], [1.0], [-1.0], [0.5]]), np.ones(1), False)
        y = np.array([target, 0.5, -0.5, 0.5])
        among = sparse.csr_array(np.vstack([groups, member[1:]]).astype(float))
        return recorder.run(plan, problem, (X, y, among), rng)

    def advantage(plan):
        (one, released), (two, others) = runs(plan, *before), runs(plan, *after)
        ratios = ((found - (one + two) / 2) @ (one - two) for found in (released, others))
        hits = [np.mean(ratio > 0) for ratio in ratios]
        return hits[0] - hits[1]

    # The total variation of mu-GDP. A difference of two frequencies has deviation 0.005 at most:
    # six of them are a false alarm below 1e-8.
    limit = math.erf(MU / 2 / math.sqrt(2)) + 6 * 0.005
    assert advantage(plan) <= limit
    assert advantage(with_less_noise(plan, factor)) > limit + 6 * 0.005
