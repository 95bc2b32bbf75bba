"""Sets with false declarations, by brute force: scores change by at most what is charged."""

import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from stand_ins import Forced

from skdpsco.constraints import coordinate, minimiser, n_vertices, vertex
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Squared, derivative
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import (
    Allowance,
    AnytimeMirrorDescent,
    FrankWolfe,
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    Problem,
)
from skdpsco.solvers import gradient_sums as sums_module
from skdpsco.solvers.l1 import frank_wolfe as frank_wolfe_module
from skdpsco.solvers.l1 import vertex_path as path_module
from skdpsco.solvers.lp_ball import anytime_mirror_descent as anytime_module
from skdpsco.solvers.lp_ball import one_pass_frank_wolfe as one_pass_module

ONE = 2.0**SCALE_BITS


class Steep(Logistic):
    """A loss as steep as allowed wherever it is evaluated, which uses up what is charged."""


@derivative.register(Steep)
def _(loss, z, y):
    return -y * 1e3


class Understated(NamedTuple):
    """An l1 ball that declares a hundredth of its size."""

    radius: float

    def diameter(self, order=1):
        return 0.02 * self.radius

    def norm_bound(self):
        return 0.01 * self.radius


class Crooked(Understated):
    """A set that hides that its vertices are on the axes."""


@n_vertices.register(Understated)
def _(constraint, D):
    return 2 * D


@vertex.register(Understated)
def _(constraint, k, out):
    out[:] = 0.0
    out[k // 2] = constraint.radius if k % 2 == 0 else -constraint.radius


@coordinate.register(Understated)
def _(constraint, k, D):
    return k // 2, constraint.radius if k % 2 == 0 else -constraint.radius


@coordinate.register(Crooked)
def _(constraint, k, D):
    return -1, 0.0


@pytest.fixture
def python(monkeypatch):
    for module, name in (
        (path_module, "choose_vertex"),
        (path_module, "draw"),
        (path_module, "write_vertex"),
        (one_pass_module, "choose_vertex"),
        (anytime_module, "choose_vertex"),
        (frank_wolfe_module, "write_minimiser"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)
    return monkeypatch


def scores_along(python, solver, plan, problem, X, y, choices):
    """Scores of every draw in grid units, given the vertices of the earlier ones."""
    forced = Forced(choices, [])
    if isinstance(solver, FrankWolfe):
        path = dataclasses.replace(plan.path, mechanism=forced)
        plan = dataclasses.replace(plan, path=path)
    for module in (one_pass_module, anytime_module):
        python.setattr(module, "EXPONENTIAL", forced)
    coins = np.random.Generator(np.random.PCG64(0))  # the same places of draws for all
    solver.run(plan, problem, X, y, coins, np.zeros(1, dtype=np.int64))
    return np.array(forced.log)


CASES = [
    (FrankWolfe(), Steep(), 3),
    (FrankWolfe(), Squared(), 3),
    (OnePassFrankWolfe(shuffle=False), Steep(), None),
    (AnytimeMirrorDescent(shuffle=False), Steep(), 3),
]


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("constraint", [Understated(1.5), Crooked(1.5)])
@pytest.mark.parametrize(("solver", "loss", "n_iter"), CASES)
def test_draws_cost_what_is_charged(python, solver, loss, n_iter, constraint, layout):
    n, d, rho = 6, 2, 0.5
    n_iter = 4 if isinstance(loss, Squared) else n_iter
    problem = Problem(loss, constraint, n, d)
    plan = solver.plan(problem, Allowance(rho), n_iter)
    extreme = [
        (x, y) for x, y in itertools.product(itertools.product((-9.0, 9.0), repeat=d), (-1.0, 1.0))
    ]
    rng, worst = np.random.default_rng(0), 0.0
    for position in (0, n - 1):
        choices = tuple(rng.integers(2 * d, size=7).tolist())
        rows = [extreme[i] for i in rng.integers(len(extreme), size=n)]
        logs = []
        for own in extreme:
            rows[position] = own
            X, y = (np.array(column) for column in zip(*rows, strict=True))
            X = as_design(X if layout == "dense" else sparse.csr_matrix(X), np.ones(d), False)
            logs.append(scores_along(python, solver, plan, problem, X, y, choices))
        for one, other in itertools.combinations(logs, 2):
            ranges = np.ptp((one - other) / ONE, axis=1)
            worst = max(worst, float(np.square(ranges).sum()) / 8.0)
    assert worst <= rho
    assert worst > 0.2 * rho  # what a hundredth of the size would not reach


class Far(NamedTuple):
    """A set whose points are elsewhere than declared, or NaN."""

    size: float

    def diameter(self, order=2):
        return 1.0

    def norm_bound(self):
        return 1.0

    def gaussian_width(self, D):
        return 1.0


@minimiser.register(Far)
def _(constraint, g, out):
    out[0] = constraint.size
    if g[0] > 0.0:
        out[1] = math.nan


@pytest.mark.parametrize("size", [1e9, 1e308, math.inf, math.nan])
def test_sums_of_a_set_that_is_elsewhere(python, size):
    """Derivatives are clipped wherever predictions are."""
    n, d, T, mu = 4, 2, 3, 1.0
    problem = Problem(Logistic(), Far(size), n, d)
    plan = NoisyFrankWolfe().plan(problem, Allowance(0.5 * mu**2), T)
    python.setattr(sums_module, "add_gradients", sums_module.add_gradients.py_func)
    logs = []
    for x, label in itertools.product(itertools.product((-9.0, 9.0), repeat=d), (-1.0, 1.0)):
        log: list = []

        def replayed(_, G, grid, log=log):
            log.append(G / grid)
            G[:] = 1.0 if len(log) == 1 else -1.0

        python.setattr(frank_wolfe_module, "gaussian_mechanism", replayed)
        X = as_design(np.array([x, (0.5, 0.5), (-1.0, 1.0), (1.0, 0.0)]), np.ones(d), False)
        y, progress = np.array([label, 1.0, -1.0, 1.0]), np.zeros(1, dtype=np.int64)
        with np.errstate(all="ignore"):
            NoisyFrankWolfe().run(plan, problem, X, y, None, progress)
        logs.append(log)
    change = np.array(logs)[:, None] - np.array(logs)[None]
    assert np.linalg.norm(change, axis=-1).max() <= ONE * mu / math.sqrt(T)


def test_a_minimiser_that_writes_nothing_releases_no_memory(python):
    class Silent(Far):
        pass

    minimiser.register(Silent)(lambda constraint, g, out: None)
    X = as_design(np.ones((4, 2)), np.ones(2), False)
    problem = Problem(Logistic(), Silent(1.0), 4, 2)
    plan = NoisyFrankWolfe().plan(problem, Allowance(1.0), 2)
    rng, progress = np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.int64)
    for _ in range(20):
        np.full(2, 7.0)  # what an array that is not written to may find
        coef = NoisyFrankWolfe().run(plan, problem, X, np.ones(4), rng, progress).coef
        assert (coef == 0.0).all()
