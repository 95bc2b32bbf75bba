"""What losses, sets and penalties declare: a number that float64 cannot use fails in the plan.

A run follows the charge, so that nothing may fail there.
"""

import math
from functools import partial

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L1Ball, L2Ball, Polytope
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic
from skdpsco.mechanisms import generator
from skdpsco.penalties import L1, L2
from skdpsco.solvers import (
    SGD,
    Allowance,
    AnytimeMirrorDescent,
    CompositeProblem,
    CoordinateDescent,
    FrankWolfe,
    GradientDescent,
    GreedyCoordinateDescent,
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    Stagewise,
    TreeFrankWolfe,
    check_supported,
)

N, D = 60, 3
ABSURD = [
    0.0, 5e-324, 1e-300, 1e-150, 1e-99, 1e-50, 1e99, 1e100, 1e150, 1e300, math.inf, math.nan, -1.0,
    -5e-324,
]  # fmt: skip
PENALIZED = [GradientDescent, SGD, CoordinateDescent, GreedyCoordinateDescent]
IN_BALLS = {
    FrankWolfe: L1Ball,
    Stagewise: L1Ball,
    OnePassFrankWolfe: L1Ball,
    AnytimeMirrorDescent: L1Ball,
    NoisyFrankWolfe: L2Ball,
    PhasedERM: L2Ball,
    PhasedSGD: L2Ball,
    ProjectedDescent: L2Ball,
    TreeFrankWolfe: L2Ball,
}
CORNERS = np.vstack([np.ones(D), -np.ones(D)])


def in_range(x):
    return 1e-100 <= x <= 1e100


def outcome(solver, make, rho, n_iter=None):
    """Whether a plan is refused; otherwise it is followed, to finite numbers."""
    try:
        problem = make()
        check_supported(solver, problem)
        plan = solver.plan(problem, Allowance(rho), n_iter)
    except ValueError:
        return True
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (N, problem.n_features))
    design, y = as_design(X, np.ones(problem.n_features), False), np.sign(X[:, 0])
    with np.errstate(all="ignore"):
        progress = np.zeros(1, dtype=np.int64)
        coef = solver.run(plan, problem, design, y, generator()[0], progress).coef
    assert np.isfinite(coef).all()
    return False


def penalized(penalty=L2, alpha=0.01):
    return CompositeProblem(Logistic(), None, N, D, penalty=penalty(alpha), unit=(1.0,) * D)


def problems():
    """Every solver with a problem of Logistic, whose machine code is cached."""
    for solver in PENALIZED:
        yield solver(), penalized, None
    for solver, ball in IN_BALLS.items():
        yield solver(), lambda ball=ball: Problem(Logistic(), ball(2.0), N, D), None
    yield Stagewise(), lambda: Problem(Logistic(), None, N, 20), None
    yield Stagewise(), lambda: Problem(Logistic(), L1Ball(2.0), N, 20), None
    yield Stagewise(), lambda: Problem(Logistic(), None, N, 20), 4  # a path, and its best point
    polytope = Polytope(CORNERS)
    yield FrankWolfe("laplace"), lambda: Problem(Logistic(), polytope, N, D), 4


DECLARED = {
    "slope": lambda x: (x, 0.25, 0.7),
    "bend": lambda x: (1.0, x, 0.7),
    "both": lambda x: (x, x, 0.7),
    "opposite": lambda x: (x, 1.0 / x if x else math.inf, 0.7),
    "baseline": lambda x: (1.0, 0.25, x),
}


@each("which", DECLARED)
def test_constants_of_a_loss(which, monkeypatch):
    for x in ABSURD:
        slope, bend, baseline = DECLARED[which](x)
        monkeypatch.setattr(Logistic, "lipschitz", lambda *_, slope=slope, **__: slope)
        monkeypatch.setattr(Logistic, "smoothness", lambda _, bend=bend: bend)
        monkeypatch.setattr(Logistic, "baseline", lambda *_, baseline=baseline: baseline)
        for solver, make, n_iter in problems():
            fails = outcome(solver, make, 0.5, n_iter)
            if not (slope > 0.0 and bend >= 0.0) or math.inf in (slope, bend):
                assert fails or type(solver) is PhasedERM  # it does not ask for all of it


@each("x", ABSURD)
def test_sizes_of_a_set(x, monkeypatch):
    for solver, ball in IN_BALLS.items():
        fails = outcome(solver(), lambda ball=ball: Problem(Logistic(), ball(x), N, D), 0.5)
        assert fails or in_range(x)
    for mechanism in ("exponential", "laplace"):
        for n_iter in (None, 4):
            fails = outcome(
                FrankWolfe(mechanism),
                lambda: Problem(Logistic(), Polytope(x * CORNERS), N, D),
                0.5,
                n_iter,
            )
            assert fails or in_range(abs(x))
    for name in ("diameter", "gaussian_width"):
        monkeypatch.setattr(L2Ball, name, lambda *_: x)
        fails = outcome(NoisyFrankWolfe(), lambda: Problem(Logistic(), L2Ball(2.0), N, D), 0.5)
        assert fails or in_range(x) or name == "diameter"


@each("penalty", [L1, L2])
@each("bend", [1e-99, 0.25, 1e99])
def test_weights_of_a_penalty(penalty, bend, monkeypatch):
    monkeypatch.setattr(Logistic, "smoothness", lambda _: bend)
    for x in ABSURD:
        for solver in PENALIZED:
            fails = outcome(solver(), partial(penalized, penalty, x), 0.5)
            assert fails or 0.0 <= x < math.inf or (x == math.inf and penalty is L1)


@each(
    ("solver", "make"),
    [
        (NoisyFrankWolfe(), lambda: Problem(Logistic(), L2Ball(2.0), N, D)),
        (FrankWolfe(), lambda: Problem(Logistic(), L1Ball(2.0), N, D)),
        (GradientDescent(), penalized),
    ],
)
def test_messages_name_the_constant_and_its_range(solver, make, monkeypatch):
    monkeypatch.setattr(Logistic, "lipschitz", lambda *_: 0.0)
    message = r"derivative of Logistic\(\) must have a bound in \[1e-100, 1e\+100\], got 0.0"
    with pytest.raises(ValueError, match=message):
        solver.plan(make(), Allowance(0.5))
