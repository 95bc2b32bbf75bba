"""Selection of coordinates by one noisy gradient: its sensitivity, what it finds, when it runs."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from stand_ins import Declared

from skdpsco import PrivateLogisticL1, RowBlocks
from skdpsco.constraints import L1Ball
from skdpsco.data.design import as_design
from skdpsco.losses import (
    Huber,
    Logistic,
    Multinomial,
    SmoothHinge,
    Squared,
    curvature,
    derivatives,
    lipschitz_l2,
)
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.privacy import Budget, GaussianEvent
from skdpsco.solvers import Problem, Stagewise
from skdpsco.solvers.l1 import screening as screen_module
from skdpsco.solvers.l1 import stagewise
from skdpsco.solvers.l1.screening import plan_screen, select_coordinates

# Fits with a seed, for tests that can be repeated, warn that their noise is not secret.
seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")


def select(problem, X, y, rng, mu):
    plan, rest = plan_screen(problem, mu)
    spent = plan.gradient**-2.0 + (plan.intercept**-2.0 if problem.intercept else 0.0)
    assert spent + rest**2 == pytest.approx(mu**2, rel=1e-14)
    return select_coordinates(plan, problem, X, y, rng)


@cache
def words(n=4000, d=3000, seed=0, n_classes=2, bias=0.0):
    """Short binary records, and classes that the first ten columns decide."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.005, format="lil", random_state=seed)
    X[:, :10] = rng.random((n, 10)) < 0.2
    X = X.tocsr().sign()
    W = np.zeros((d, n_classes))
    W[:10, -1] = 3.0 * np.tile([1.0, -1.0], 5)
    W[:10, 0] = -W[:10, -1]
    scores = X @ W + rng.gumbel(size=(n, n_classes))
    scores[:, 0] += bias
    return X, scores.argmax(axis=1)


class Untrue(Declared):
    """A loss that is steeper than it declares, and declares less if not asked about bounds."""

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 0.3 if prediction_bound == math.inf else 0.5


@derivatives.register(Untrue)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = -9.0 if y[i] > 0.0 else 9.0


@curvature.register(Untrue)
def _(loss, z, y):
    return 1.0


@seeded_fits
def test_blocks_are_screened_as_arrays_are(monkeypatch):
    X, y = words(n=2000)
    found = []

    def counted(*arguments):
        found.append(1)
        return select_coordinates(*arguments)

    monkeypatch.setattr(stagewise, "select_coordinates", counted)
    one = PrivateLogisticL1(epsilon=8.0, classes=[0, 1], random_state=0).fit(X, y)
    two = PrivateLogisticL1(epsilon=8.0, classes=[0, 1], random_state=0)
    two.fit(RowBlocks.from_arrays(X, y, block_size=700))
    assert len(found) == 2
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9)


def test_the_norm_of_several_derivatives():
    """The norm of softmax derivatives is smaller than their components alone would allow."""
    assert lipschitz_l2(Multinomial(5)) == 2.0**0.5
    assert lipschitz_l2(Untrue(0.5, 1.0)) == 0.3
    assert lipschitz_l2(Untrue(0.5, 1.0, 25)) == pytest.approx(1.5)


class Recorded:
    """Stand-in for the noise: keeps units, replays public outputs."""

    def __init__(self, monkeypatch):
        self.units: list = []
        self.outputs: list = []
        monkeypatch.setattr(samplers, "gaussian_mechanism", self.release)
        for name in ("differentiate", "normalised_gradient"):
            monkeypatch.setattr(screen_module, name, getattr(screen_module, name).py_func)

    def release(self, rng, values, grid):
        self.units.append(np.array([float(to_grid(v, grid)) for v in values]))
        values[:] = self.outputs[len(self.units) - 1][: len(values)]
        return deviation_on(grid)

    def run(self, problem, rows, targets, mu):
        self.units = []
        X = sparse.csr_matrix(np.array(rows))
        design = as_design(X, np.linspace(0.5, 2.0, X.shape[1]), problem.intercept)
        found = select(problem, design, np.array(targets), None, mu)
        return self.units, found


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss",
    [
        Logistic(),
        Squared(),
        Squared(0.7),
        Huber(0.5),
        SmoothHinge(0.5),
        Multinomial(3),
        Untrue(0.5, 1.0),
        Untrue(0.5, 1.0, 3),
    ],
)
def test_releases_change_by_what_is_charged(monkeypatch, loss, intercept):
    """Over neighbours of extreme records; and nothing but releases decides what is selected."""
    recorded, mu, n = Recorded(monkeypatch), 50.0, 2
    problem = Problem(loss, None, n, 2 + intercept, intercept, sparse=True)
    targets = [0.0, 1.0, 2.0] if loss.n_outputs > 1 else [-1.0, 1.0]
    features = [(0.0, 0.0), (9.0, 0.0), (-9.0, 9.0), (0.01, 0.0), (0.4, -9.0)]
    shares = [screen_module.SCREEN.gradient_share]
    if intercept:
        shares.insert(0, screen_module.SCREEN.intercept_share)
    charges = [(s * (4.0**SCALE_BITS - 16)) ** 0.5 * mu for s in shares]
    worst = np.zeros(len(shares))
    for outputs in ((0.0, 0.0), (3.0, 1.0), (-3.0, -0.2)):
        shift = np.resize([outputs[0], 0.0, 1.0], loss.n_outputs)
        recorded.outputs = [shift, np.full(20, outputs[1])] if intercept else [np.full(20, 1.0)]
        for rest, target in (((9.0, 9.0), targets[0]), ((0.0, 1.0), targets[-1])):
            runs = [
                recorded.run(problem, [x, rest], [y, target], mu) for x in features for y in targets
            ]
            assert all(np.array_equal(found, runs[0][1]) for _, found in runs)
            for k, charge in enumerate(charges):
                units = np.array([u[k] for u, _ in runs])
                change = np.linalg.norm(units[:, None] - units[None], axis=2).max()
                worst[k] = max(worst[k], change / charge)
    assert worst.max() <= 1.0
    assert worst.min() > 0.5


def test_when_it_runs():
    budget = Budget(1.0, 1e-6)

    def plan(n=10_000, d=10_000, n_iter=None, radius=3.0, given=True):
        ball = None if radius is None else L1Ball(radius)
        return Stagewise().plan(Problem(Logistic(), ball, n, d, sparse=given), budget, n_iter)

    screened = plan()
    assert screened.screen
    assert screened.event == GaussianEvent(1.0 / budget.mu)
    assert screened.path is None
    assert screened.radius == 3.0
    assert plan(radius=None).screen
    assert plan(radius=None).radius > 100.0
    assert not plan(given=False).screen
    tuning = stagewise.STAGEWISE
    for given, enough in ((False, tuning.all_records), (True, tuning.sparse_records)):
        n = enough * 200 / math.sqrt(2.0 * budget.rho)
        fewer, more = plan(int(0.99 * n), 200, given=given), plan(int(1.01 * n), 200, given=given)
        assert (fewer.path is None) == given
        assert (fewer.screen is None) != given
        assert fewer.descent is None
        assert more.path is more.screen is None
        assert more.descent
    assert plan(500, 10_000, given=False).path is None  # it would be a guess
    assert plan(n_iter=20).path is not None
    assert plan(n=10**5, d=10).descent
    assert not plan(n=10).screen


@seeded_fits
def test_the_matrix_decides_nothing():
    """Only its sparsity counts: whatever it holds, the plan and its event are the same."""
    seen = set()
    y = np.arange(4000) % 2
    for X in (sparse.csr_matrix((4000, 3000)), words()[0], words()[0].tocsc()):
        model = PrivateLogisticL1(classes=[0, 1], random_state=0).fit(X, y)
        seen.add((model.privacy_.event, model.privacy_.rho))
    assert len(seen) == 1
    assert math.isfinite(model.intercept_[0])
