"""Losses that are steeper than they declare: what is released is what their bounds allow."""

import math

import numpy as np
import pytest
from cases import each

from skdpsco._clipping import clip_entries
from skdpsco._kernels import njit
from skdpsco.constraints import L1Ball, L2Ball, Polytope
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, Squared, curvature, derivative, derivatives, value
from skdpsco.solvers import (
    Allowance,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Stagewise,
)
from skdpsco.solvers import (
    gradient_sums as _block_sums,
)

N = 400


class Liar(Logistic):
    """Far steeper than it declares, and infinite or not a number for some targets."""

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 0.5

    def smoothness(self):
        return 0.25


class Honest(Liar):
    """What bounds leave of it."""


@derivative.register(Honest)
def _(loss, z, y):
    return 0.5 if y > -2.0 else -0.5


@curvature.register(Honest)
def _(loss, z, y):
    return 0.0 if y == 1.0 else 0.25


@value.register(Honest)
def _(loss, z, y):
    return 2.0 * math.log(2.0) if y > -2.0 else 0.0


@derivative.register(Liar)
def _(loss, z, y):
    return math.nan if y == 1.0 else 1e200 if y > -2.0 else -math.inf


@curvature.register(Liar)
def _(loss, z, y):
    return -1e200 if y == 1.0 else math.nan if y > -2.0 else 1e200


@value.register(Liar)
def _(loss, z, y):
    return math.nan if y == 1.0 else 1e200 if y > -2.0 else -1e200


CASES = [
    (FrankWolfe(), L1Ball(2.0), 3, 0.5, None),
    (FrankWolfe("laplace"), Polytope(np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, -2.0]])), 2, 0.5, 4),
    (NoisyFrankWolfe(), L2Ball(2.0), 3, 0.5, None),
    (Stagewise(), None, 20, 0.5, 6),  # a path, and a point of it
    (Stagewise(), L1Ball(2.0), 20, 50.0, 6),  # Newton steps after it
    (Stagewise(), L1Ball(2.0), 2, 50.0, None),  # Newton steps alone
    (Stagewise(), L1Ball(2.0), 20, 1.0, None),  # gradient steps alone
]


@pytest.mark.parametrize(("solver", "constraint", "d", "rho", "n_iter"), CASES)
def test_what_is_beyond_the_bounds_is_clipped(solver, constraint, d, rho, n_iter, monkeypatch):
    """Noise is the same: any other sum would show. In Python: compiling takes half a minute."""
    for module, name in ((_block_sums, "add_gradients"),):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)
    rng = np.random.default_rng(0)
    X = as_design(rng.uniform(-1.0, 1.0, (N, d)), np.ones(d), False)
    y = rng.choice([1.0, -1.0, -3.0], N)
    found = []
    for loss in (Honest(), Liar()):
        problem = Problem(loss, constraint, N, d)
        plan = solver.plan(problem, Allowance(rho), n_iter)
        noise, progress = np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.int64)
        found.append(solver.run(plan, problem, X, y, noise, progress).coef)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()
    assert np.abs(found[0]).max() > 1e-3


class SeveralLies(Multinomial):
    """All of its derivatives as large as one may be."""


@derivatives.register(SeveralLies)
def _(loss, Z, y, out):
    out[:] = 1e200


def test_several_derivatives_of_a_record_are_clipped_together(monkeypatch):
    released = []
    monkeypatch.setattr(_block_sums, "add_gradients", _block_sums.add_gradients.py_func)
    monkeypatch.setattr(_block_sums, "gaussian_mechanism", lambda _, G, grid: released.append(G))
    loss, d = SeveralLies(5), 3
    problem = Problem(loss, L2Ball(2.0), N, d)
    plan = NoisyFrankWolfe().plan(problem, Allowance(0.5), 2)
    X, progress = as_design(np.ones((N, d)), np.ones(d), False), np.zeros(1, dtype=np.int64)
    NoisyFrankWolfe().run(plan, problem, X, np.zeros(N), None, progress)
    for G in released:
        assert np.linalg.norm(G) == pytest.approx(N * plan.slope * math.sqrt(d))


@njit
def clipped(R, b):
    clip_entries(R, b)
    return R


def test_not_a_number_is_clipped_in_machine_code():
    R = np.array([[math.nan, 0.3], [math.inf, -math.inf], [-0.5, 1e200]])
    expected = [[0.5, 0.3], [0.5, -0.5], [-0.5, 0.5]]
    for function in (clipped, clipped.py_func):
        np.testing.assert_array_equal(function(R.copy(), 0.5), expected)


@each(
    ("solver", "constraint"),
    [(Stagewise(), L1Ball(2.0)), (Stagewise(), None), (NoisyFrankWolfe(), L2Ball(2.0))],
)
@each("n_iter", [None, 4])
def test_unbounded_derivatives_are_refused_before_the_charge(solver, constraint, n_iter):
    problem = Problem(Squared(), constraint, N, 3)
    with pytest.raises(ValueError, match="must have a bound"):
        solver.plan(problem, Allowance(0.5), n_iter)
    assert solver.plan(Problem(Squared(clip=1.0), constraint, N, 3), Allowance(0.5), n_iter)
