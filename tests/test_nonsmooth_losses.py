"""Laws of the losses without a second derivative, and which solvers refuse them."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each

from skdpsco._kernels import implements, njit
from skdpsco.constraints import L1Ball
from skdpsco.losses import (
    Absolute,
    Hinge,
    Quantile,
    curvature,
    derivative,
    derivatives,
    lipschitz_l2,
    value,
    values,
)
from skdpsco.losses.library import for_kernels
from skdpsco.privacy import Budget
from skdpsco.solvers import FrankWolfe, NoisyFrankWolfe, Problem, Stagewise, check_supported
from skdpsco.solvers.base import curvature_of

REGRESSION = [Absolute(), Quantile(), Quantile(0.1), Quantile(0.95)]
NONSMOOTH = [Hinge(), *REGRESSION]
every = pytest.mark.parametrize("loss", NONSMOOTH, ids=str)
GRID = np.linspace(-6.0, 6.0, 1201)  # with all the kinks


def targets(loss, bound=1.5):
    return (-1.0, 1.0) if isinstance(loss, Hinge) else (-bound, -0.4, 0.0, 1.0, bound)


@every
def test_derivative_is_a_subgradient(loss):
    for y in targets(loss):
        at = np.array([value(loss, z, y) for z in GRID])
        slopes = np.array([derivative(loss, z, y) for z in GRID])
        assert (at >= 0.0).all()
        assert (np.diff(slopes) >= 0.0).all()
        # Below the loss at every other point: the tangent of a convex function.
        tangents = at[:, None] + slopes[:, None] * (GRID[None, :] - GRID[:, None])
        assert (tangents <= at + 1e-12).all()


@each("bound", [0.0, 0.3, 5.0, math.inf])
@every
def test_lipschitz_is_the_largest_derivative(loss, bound):
    reach = min(bound, 1e4)
    largest = max(
        abs(derivative(loss, z, y)) for z in np.linspace(-reach, reach, 101) for y in targets(loss)
    )
    assert loss.lipschitz(bound, 1.5) == loss.lipschitz() == lipschitz_l2(loss) == largest


@every
def test_constants(loss):
    assert loss.smoothness() == curvature_of(loss, 2.0) == math.inf
    assert not implements(curvature, type(loss))
    assert loss.baseline(1.5) == pytest.approx(max(value(loss, 0.0, y) for y in targets(loss)))


@njit
def compiled(loss, Z, y, at, slopes):
    values(loss, Z, y, at)
    derivatives(loss, Z, y, slopes)


@every
def test_compiled_kernels_agree_with_python(loss):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(0.0, 4.0, (300, 1)), rng.choice(targets(loss), 300)
    Z[:4, 0] = [1e300, -1e300, y[2], 1.0]
    at, slopes = np.empty(300), np.empty((300, 1))
    compiled(for_kernels(loss), Z, y, at, slopes)
    for z, t, v, s in zip(Z[:, 0], y, at, slopes[:, 0], strict=True):
        assert v == pytest.approx(value(loss, z, t), rel=1e-14)
        assert s == derivative(loss, z, t)
    # The derivative at a NaN is within the bound: privacy depends on it.
    compiled(for_kernels(loss), np.full((1, 1), np.nan), y[:1], at[:1], slopes[:1])
    assert abs(slopes[0, 0]) <= loss.lipschitz()


class Curved(NamedTuple):
    """A loss that declares no more than Frank-Wolfe asks for, and that is infinite."""

    n_outputs = 1
    lipschitz = Hinge.lipschitz

    def curvature_constant(self, diameter):
        return math.inf


value.register(Curved)(lambda loss, z, y: max(0.0, 1.0 - y * z))
derivative.register(Curved)(lambda loss, z, y: -y if y * z < 1.0 else 0.0)
curvature.register(Curved)(lambda loss, z, y: 0.0)


@each("loss", [*NONSMOOTH, Curved()])
@each("solver", [FrankWolfe(), NoisyFrankWolfe(), Stagewise()])
def test_solvers_whose_steps_need_a_curvature_refuse(solver, loss):
    problem = Problem(loss, L1Ball(1.0), 100, 3)
    match = (
        f"{type(solver).__name__} needs a smooth loss, which {type(loss).__name__} is not: use "
        "the solver PhasedERM .*, or a smooth loss such as SmoothHinge or Huber"
    )
    for n_iter in (None, 5):
        with pytest.raises(ValueError, match=match):
            solver.plan(problem, Budget(1.0, 1e-6), n_iter)
    with pytest.raises(ValueError, match=match):
        check_supported(solver, problem)
