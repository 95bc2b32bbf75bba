"""Sets and penalties of the user's own: what is solved, and what is refused before the charge."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from scipy import sparse

from skdpsco._random import generator
from skdpsco.constraints import (
    L1Ball,
    L2Ball,
    LpBall,
    Polytope,
    Simplex,
    coordinate,
    minimiser,
    n_vertices,
    project,
    vertex,
)
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Squared
from skdpsco.penalties import L1, L2, Box, ElasticNet, prox, scaled_prox, subdifferential
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
    Stagewise,
    TreeFrankWolfe,
    check_supported,
)
from skdpsco.solvers.saddle.geometry import Block

CORNERS = np.array([[1.0, 0.5, 0.0], [-1.0, 0.3, 0.2], [0.1, -1.2, 0.4], [0.0, 0.1, -0.9]])
WIDTHS = np.array([0.5, 1.5, 0.2])
PLENTY = Allowance(1e10)


class Corners(NamedTuple):
    """A set that only knows its vertices."""

    vertices: np.ndarray


class Unsaid(Corners):
    """A polytope that never says that a vertex is on an axis."""


class Weighted(NamedTuple):
    """An l1 ball whose coordinates are measured in units of their own."""

    widths: np.ndarray


for cls in (Corners, Unsaid):

    @n_vertices.register(cls)
    def _(constraint, D):
        return len(constraint.vertices)

    @vertex.register(cls)
    def _(constraint, k, out):
        for j in range(out.shape[0]):
            out[j] = constraint.vertices[k, j]


@coordinate.register(Unsaid)
def _(constraint, k, D):
    return -1, 0.0


@n_vertices.register(Weighted)
def _(constraint, D):
    return 2 * D


@coordinate.register(Weighted)
def _(constraint, k, D):
    return k // 2, constraint.widths[k // 2] * (1.0 if k % 2 == 0 else -1.0)


def records(n=2000, d=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.random((n, d)) < 0.5)
    return X, np.clip(X @ [0.9, -0.7, 0.4][:d] + 0.1 * rng.normal(size=n), -1.0, 1.0)


def given(X, y, layout):
    X = X if layout == "dense" else sparse.csr_matrix(X)
    return as_design(X, np.ones(X.shape[1]), False), y


def optimum(X, y, vertices):
    """Minimum of the mean squared loss, halved, over the hull: Frank-Wolfe with exact steps."""
    w = vertices[0].copy()
    for _ in range(2_000):
        g = X.T @ (X @ w - y)
        direction = vertices[np.argmin(vertices @ g)] - w
        bend = float(np.square(X @ direction).sum())
        step = min(1.0, max(0.0, -float(g @ direction) / bend)) if bend > 0.0 else 0.0
        w = w + step * direction
    return 0.5 * float(np.square(X @ w - y).mean())


OWN = [
    (Corners(CORNERS), CORNERS),
    (Unsaid(CORNERS), CORNERS),
    (Weighted(WIDTHS), np.vstack([np.diag(WIDTHS), -np.diag(WIDTHS)])),
]  # fmt: skip
FOLLOWED = [
    (FrankWolfe(), Squared(), "dense", 400),
    (FrankWolfe(), Squared(5.0), "dense", 400),  # passes over arrays
    (FrankWolfe("laplace"), Squared(5.0), "csr", 400),
    (OnePassFrankWolfe(), Squared(), "dense", None),
    (AnytimeMirrorDescent(), Squared(), "csr", 200),
]


@pytest.mark.parametrize(
    ("solver", "loss", "layout", "n_iter", "constraint", "vertices"),
    [*((*how, *OWN[0]) for how in FOLLOWED), (*FOLLOWED[0], *OWN[1]), (*FOLLOWED[2], *OWN[2]),
     (*FOLLOWED[3], *OWN[2])],
)  # fmt: skip
def test_own_polytopes_are_solved(solver, loss, layout, n_iter, constraint, vertices):
    """Without noise the optimum is reached."""
    X, y = records(n=20_000 if isinstance(solver, AnytimeMirrorDescent) else 2000)
    problem = Problem(loss, constraint, *X.shape)
    check_supported(solver, problem)
    plan = solver.plan(problem, PLENTY, n_iter)
    rng, _ = generator()
    design, targets = given(X, y, layout)
    w = solver.run(plan, problem, design, targets, rng, np.zeros(1, dtype=np.int64)).coef
    least = optimum(X, y, vertices)
    excess, start = 0.5 * np.square(X @ w - y).mean() - least, 0.5 * np.square(y).mean() - least
    one_pass = not isinstance(solver, FrankWolfe)  # sampling errors remain
    assert excess < (0.1 if one_pass else 1e-3) * start
    assert start > 0.01


class Broken(NamedTuple):
    """A polytope with a mistake."""

    kind: str


@n_vertices.register(Broken)
def _(constraint, D):
    return {"count": 0, "half": 2.5}.get(constraint.kind, 2)


class Endless(Broken):
    """A polytope whose vertices are not finite."""


class Strange(Broken):
    """A polytope that Numba cannot compile."""


class Outside(Broken):
    """A polytope whose axes do not exist."""


vertex.register(Endless)(lambda constraint, k, out: out.fill(np.inf))
vertex.register(Strange)(lambda constraint, k, out: print(f"{constraint.kind:>{k}}", open("x")))
vertex.register(Broken)(lambda constraint, k, out: None)
coordinate.register(Outside)(lambda constraint, k, D: (D, 1.0))


@each(
    ("constraint", "error", "match"),
    [
        (Broken("count"), ValueError, "Broken: `n_vertices` must return an int >= 1, got 0"),
        (Broken("half"), ValueError, "Broken: `n_vertices` must return an int >= 1, got 2.5"),
        (Endless(""), ValueError, r"Endless: vertices must be finite numbers, of shape"),
        (Strange(""), TypeError, "Strange: Numba cannot compile or run `vertex`"),
        (Outside(""), ValueError, r"Outside: `coordinate` must return \(j, a\) with j < 3"),
        (
            Corners(CORNERS[:, :2].copy()),
            ValueError,
            "Corners: `vertex` .*: index 2 is out of bounds",
        ),
        (Weighted(np.ones(2)), ValueError, "Weighted: `coordinate` .*: index 2 is out of bounds"),
        (Polytope(np.eye(2)), ValueError, r"Polytope: .* \(n_vertices, 3\); got .* \(2, 2\)"),
        (Polytope(np.full((2, 3), np.nan)), ValueError, "Polytope: vertices must be finite"),
        (Polytope(np.full((2, 3), 1j)), ValueError, "Polytope: .* dtype complex128"),
        (L2Ball(1.0), TypeError, "needs the kernel `n_vertices`, which the constraint L2Ball"),
        (None, TypeError, "needs the kernel `n_vertices`, and there is no constraint"),
    ],
)
@each("solver", [FrankWolfe(), OnePassFrankWolfe(), AnytimeMirrorDescent()])
def test_mistakes_of_polytopes_are_found_by_the_plan(solver, constraint, error, match):
    problem = Problem(Logistic(), constraint, 100, 3)

    def prepare():
        check_supported(solver, problem)
        solver.plan(problem, Allowance(1.0))

    with pytest.raises(error, match=match):
        prepare()


class Shifted(NamedTuple):
    """A set around a point."""

    centre: np.ndarray

    def diameter(self, order=2):
        return 1.0

    def norm_bound(self):
        return 1.0

    def gaussian_width(self, D):
        return 1.0


@minimiser.register(Shifted)
def _(constraint, g, out):
    for j in range(out.shape[0]):
        out[j] = constraint.centre[j]


def test_no_kernel_reads_memory_beyond_an_array():
    """That memory may hold data, and the minimiser's point is released."""
    with pytest.raises(ValueError, match=r"Shifted: `minimiser` .*: index 2 is out of bounds"):
        check_supported(NoisyFrankWolfe(), Problem(Logistic(), Shifted(np.zeros(2)), 100, 3))
    with pytest.raises(ValueError, match=r"Polytope: .* \(n_vertices, 3\); got .* \(2, 2\)"):
        check_supported(NoisyFrankWolfe(), Problem(Logistic(), Polytope(np.eye(2)), 100, 3))


class Inflated(NamedTuple):
    """Not an lp ball, although it claims to be one: its projection pushes points apart."""

    p: float = 2.0
    radius: float = 1.0

    def projection_error(self, D):
        return 0.0


class SubBall(L2Ball):
    """A ball of the library with another projection."""


class SubOctahedron(L1Ball):
    """Another subclass of a set, like `SubBall`."""


for cls in (Inflated, SubBall, SubOctahedron):

    @project.register(cls)
    def _(constraint, w):
        w *= 1e3

    @minimiser.register(cls)
    def _(constraint, g, out):
        out[:] = 1e3


@pytest.mark.parametrize("constraint", [Inflated(), SubBall(1.0), SubOctahedron(1.0)])
def test_balls_are_those_of_the_library(constraint):
    """Their sizes are in sensitivities, and phased-sgd projects points that carry no noise."""
    problem, name = Problem(Logistic(), constraint, 100, 3), type(constraint).__name__
    for solver in (PhasedSGD(), PhasedERM(), PhasedERM(smoothing="randomised"), TreeFrankWolfe()):
        for ask in (check_supported, lambda s, p: s.plan(p, Allowance(1.0))):
            with pytest.raises((TypeError, ValueError), match=f"needs an lp ball.*got {name}"):
                ask(solver, problem)
    with pytest.raises(TypeError, match=f"Stagewise needs an L1Ball .*got {name}"):
        check_supported(Stagewise(), problem)
    with pytest.raises(TypeError, match=f"must be a Simplex, .*got {name}"):
        Block(constraint, 3, 1.0)


@each("ball", [L1Ball, L2Ball, Simplex, lambda r: LpBall(np.float32(1.5), r)])
def test_radii_are_in_double_precision(ball):
    """A float32 would make sensitivities as imprecise."""
    problem = Problem(Logistic(), ball(np.float32(0.3)), 100, 3)
    block = Block(ball(np.float32(0.3)), 3, 1.0)
    for constraint in (problem.constraint, block.constraint):
        assert [type(number) for number in constraint] == [float] * len(constraint)
        assert constraint.radius == float(np.float32(0.3))


# ------------------------------------------------------------------------------ penalties


class Mute(NamedTuple):
    """A penalty without kernels."""

    curvature: float = 0.0


class Proximal(NamedTuple):
    """A penalty that only has `prox`."""

    curvature: float = 0.0


class Jump(NamedTuple):
    """A penalty whose prox jumps or is NaN."""

    curvature: float = 0.0


prox.register(Proximal)(lambda penalty, v, step: v)
prox.register(Jump)(lambda penalty, v, step: math.nan if v > 3.0 else 1e3 if v > 0.0 else -1e3)
subdifferential.register(Jump)(lambda penalty, w: (0.0, 0.0))


def composite(penalty, loss=None):
    loss = Logistic() if loss is None else loss
    return CompositeProblem(loss, None, 100, 3, penalty=penalty, unit=(1.0,) * 3)


@each("solver", [CoordinateDescent(), GreedyCoordinateDescent(), GradientDescent(), SGD()])
def test_missing_kernels_of_penalties_are_named(solver):
    name = type(solver).__name__
    with pytest.raises(TypeError, match=f"{name} needs the kernel `prox`, which the penalty Mute"):
        check_supported(solver, composite(Mute()))
    with pytest.raises(TypeError, match=f"{name} needs the kernel `prox`, and there is no pen"):
        check_supported(solver, composite(None))
    if isinstance(solver, GreedyCoordinateDescent):
        with pytest.raises(TypeError, match="needs the kernel `subdifferential`"):
            check_supported(solver, composite(Proximal()))
    else:
        check_supported(solver, composite(Proximal()))


class Foreign(NamedTuple):
    """Kernels that are Python, but cannot be compiled."""

    curvature: float = 0.0

    def diameter(self, order=2):
        return 1.0

    def norm_bound(self):
        return 1.0

    def gaussian_width(self, D):
        return 1.0


class Complex(Foreign):
    """A penalty whose prox is not a real number."""


class Single(Foreign):
    """A penalty with one number for each slope."""


minimiser.register(Foreign)(lambda constraint, g, out: out.fill(float(f"{g[0]:.3g}")))
prox.register(Foreign)(lambda penalty, v, step: float(f"{v:.3g}"))
prox.register(Complex)(lambda penalty, v, step: v + 1j)
prox.register(Single)(lambda penalty, v, step: v)
subdifferential.register(Foreign)(lambda penalty, w: (0.0, 0.0))
subdifferential.register(Single)(lambda penalty, w: w)


@each(
    ("solver", "spec", "kernel"),
    [
        (NoisyFrankWolfe(), Foreign(), "minimiser"),
        (GradientDescent(), Foreign(), "prox"),
        (GradientDescent(), Complex(), "prox"),
        (GreedyCoordinateDescent("gs-s"), Single(), "subdifferential"),
    ],
)
def test_what_numba_cannot_compile_is_found_before_the_charge(solver, spec, kernel):
    problem = composite(spec)
    if kernel == "minimiser":
        problem = Problem(Logistic(), spec, 100, 3)
    name = type(spec).__name__
    with pytest.raises(TypeError, match=f"{name}: Numba cannot compile or run `{kernel}`: "):
        check_supported(solver, problem)


def test_own_penalties_do_not_make_steps_of_gradients_without_noise():
    for ask in (check_supported, lambda s, p: s.plan(p, Allowance(1.0))):
        with pytest.raises(TypeError, match=r"rule='gs-r' needs a penalty .*; got Jump\. Use"):
            ask(GreedyCoordinateDescent(), composite(Jump()))
        ask(GreedyCoordinateDescent("gs-s"), composite(Jump()))
        ask(GreedyCoordinateDescent(), composite(L1(0.1)))


@each(
    "penalty",
    [L1(-0.1), L2(-0.1), ElasticNet(-0.1, 0.0), ElasticNet(0.1, -0.1), Box(-1.0), L1(math.nan),
     L2(math.inf), Jump(-0.1), Jump(math.nan), Jump(math.inf), Jump("1"), Jump(None)])  # fmt: skip
def test_parameters_of_penalties(penalty):
    """With a negative one `prox` need not be Lipschitz."""
    name = type(penalty).__name__
    with pytest.raises(ValueError, match=rf"{name}.*(must be at least 0|number >= 0), got"):
        composite(penalty)


def test_parameters_of_penalties_are_in_double_precision():
    assert type(composite(L2(np.float32(0.1))).penalty.alpha) is float


def test_a_prox_that_is_no_number_moves_nothing():
    assert scaled_prox(Jump(), 2.0, 1.0, 2.0) == 2.0
    assert scaled_prox(Jump(), 1.0, 1.0, 2.0) == 500.0
