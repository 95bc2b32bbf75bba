"""Norms of saddle-point problems, and the prox step against a certificate and against cvxpy."""

import math

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L1Ball, L2Ball, Polytope, Simplex
from skdpsco.constraints.norms import conjugate
from skdpsco.constraints.sets import LpBall
from skdpsco.solvers.saddle.geometry import Block, Geometry

SETS = [
    Simplex(),
    Simplex(3.0),
    L1Ball(2.0),
    L2Ball(0.5),
    LpBall(1.5, 1.5),
    LpBall(1.1, 2.0),
    LpBall(2.0, 1.0),
]
each_set = pytest.mark.parametrize("constraint", SETS, ids=str)


def inside(block, rng):
    """A random point of the set."""
    if isinstance(block.constraint, Simplex):
        return block.constraint.radius * rng.dirichlet(np.full(block.size, 0.3))
    x = rng.standard_normal(block.size) ** 3
    return block.constraint.radius * x / np.linalg.norm(x, block.p) * rng.random() ** 0.2


def corner(block):
    z = np.zeros(block.size)
    z[0] = block.constraint.radius
    return z


def outside(block, z):
    """How far a point is from being in the set."""
    if isinstance(block.constraint, Simplex):
        return max(abs(z.sum() - block.constraint.radius), -z.min())
    return np.linalg.norm(z, block.p) - block.constraint.radius


@pytest.mark.parametrize("constraint", [*SETS, LpBall(1.001, 1.0)], ids=str)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_prox_has_a_certificate(constraint, size):
    block = Block(constraint, size, 1.0)
    rng = np.random.default_rng(size)
    for centre in (inside(block, rng), block.start(), corner(block)):
        for scale in (1e-8, 1e-3, 1.0, 1e3, 1e8):
            g, weight = scale * rng.standard_normal(size), rng.uniform(0.5, 2.0)
            u = block.prox(g, centre, weight)
            unit = constraint.radius * np.abs(g).max()
            unit += weight * (constraint.radius / block.scale) ** 2
            assert abs(block.gap(g, centre, weight, u)) <= 1e-11 * unit
            assert outside(block, centre + u) <= 1e-12 * constraint.radius
            assert outside(block, block.point(centre, u)) <= 1e-15 * size * constraint.radius


def test_the_certificate_finds_what_is_not_optimal():
    rng = np.random.default_rng(0)
    for constraint in SETS:
        block = Block(constraint, 5, 1.0)
        centre, g = inside(block, rng), rng.standard_normal(5)
        u = block.prox(g, centre, 1.0)
        assert block.gap(g, centre, 1.0, 0.9 * u) > 1e-4
        # It is a bound on the excess.
        excess = g @ (0.9 * u - u) + 0.5 * (block.norm(0.9 * u) ** 2 - block.norm(u) ** 2)
        assert 0 < excess <= block.gap(g, centre, 1.0, 0.9 * u)


@each_set
@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.filterwarnings("ignore:pnorm with p=:UserWarning")  # of cvxpy: error below 1e-5
def test_prox_equals_cvxpy(constraint, size):
    import cvxpy as cp

    block = Block(constraint, size, 1.0)
    rng = np.random.default_rng(size)
    for k, centre in enumerate((inside(block, rng), corner(block))):
        g, weight = 10.0 ** (k - 1) * rng.standard_normal(size), 1.0
        z = cp.Variable(size)
        square = cp.square(cp.pnorm(z - centre, block.pbar)) / block.scale**2
        if isinstance(constraint, Simplex):
            allowed = [z >= 0, cp.sum(z) == constraint.radius]
        else:
            allowed = [cp.pnorm(z, block.p) <= constraint.radius]
        problem = cp.Problem(cp.Minimize(g @ (z - centre) + weight / 2 * square), allowed)
        problem.solve(solver=cp.CLARABEL)
        u = block.prox(g, centre, weight)
        value = g @ u + weight / 2 * block.norm(u) ** 2
        assert value == pytest.approx(problem.value, rel=2e-5, abs=1e-6)


@each("size", [1, 2, 3, 4, 10, 1000])
@each("constraint", [Simplex(), L2Ball(1.0), LpBall(1.2, 1.0)])
def test_norms(constraint, size):
    block, rng = Block(constraint, size, 1.0), np.random.default_rng(0)
    assert block.p <= block.pbar <= 2.0
    assert block.kappa <= max(1.0 / (block.p - 1.0) if block.p > 1 else np.inf, 1.0)
    assert block.kappa <= max(1.0, math.log(size)) * (1 + 1e-12)
    assert block.distortion <= math.e
    for _ in range(20):
        g, u = rng.standard_normal((2, size)) ** 3
        dual = np.linalg.norm(g, conjugate(block.p))
        assert np.linalg.norm(g, conjugate(block.pbar)) <= block.distortion * dual * (1 + 1e-12)
        assert np.linalg.norm(g) <= block.lipschitz_l2 * dual * (1 + 1e-12)
        assert np.linalg.norm(u, block.p) <= block.distortion * np.linalg.norm(u, block.pbar) * (
            1 + 1e-12
        )
        # <gradient, u> = norm**2 = dual norm of the gradient, squared.
        slope, square = block.gradient(u), block.norm(u) ** 2
        assert slope @ u == pytest.approx(square)
        dual = block.scale * np.linalg.norm(slope, conjugate(block.pbar))
        assert dual**2 == pytest.approx(square)
        # Strong convexity of half of the square, with modulus 1 / kappa.
        convex = block.norm(u + g) ** 2 - square - 2.0 * slope @ g
        assert convex >= block.norm(g) ** 2 / block.kappa - 1e-12 * (1 + square)
        a, b = inside(block, rng), inside(block, rng)
        assert block.norm(a - b) <= 1.0 + 1e-12
        assert block.norm(a - block.start()) <= block.radius() + 1e-12


def test_product_geometry():
    blocks = (Block(L2Ball(3.0), 4, 2.0), Block(Simplex(), 6, 0.5))
    geometry, rng = Geometry(blocks), np.random.default_rng(0)
    u = rng.standard_normal(10)
    assert geometry.norm(u) ** 2 == pytest.approx(
        blocks[0].norm(u[:4]) ** 2 + blocks[1].norm(u[4:]) ** 2
    )
    assert geometry.kappa == blocks[1].kappa
    assert geometry.diameter == math.sqrt(2)
    assert geometry.bound == pytest.approx(
        math.hypot(6.0 * 2.0, blocks[1].scale * blocks[1].distortion * 0.5)
    )
    # A bilinear operator with |A x| <= M |x| between the spaces' own norms.
    A = rng.standard_normal((4, 6))
    M = np.linalg.norm(A, axis=0).max()  # from l1 to l2, and from l2 to l_inf
    beta = geometry.smoothness(np.array([[0.0, M], [M, 0.0]]))
    for _ in range(100):
        u = rng.standard_normal(10) ** 3
        moved = (A @ u[4:], -A.T @ u[:4])
        dual = math.hypot(
            *(
                b.scale * np.linalg.norm(g, conjugate(b.pbar))
                for b, g in zip(blocks, moved, strict=True)
            )
        )
        assert dual <= beta * geometry.norm(u) * (1 + 1e-12)


@each(
    ("arguments", "error", "match"),
    [
        ((LpBall(2.5, 1.0), 3, 1.0), ValueError, "order"),
        ((LpBall(1.0, 1.0), 3, 1.0), ValueError, "order"),
        ((Polytope(np.eye(3)), 3, 1.0), TypeError, "constraint"),
        ((L2Ball(np.nan), 3, 1.0), ValueError, "radius"),
        ((L2Ball(1.0), 0, 1.0), ValueError, "size"),
        ((L2Ball(1.0), True, 1.0), ValueError, "size"),
        ((L2Ball(1.0), 3, 0.0), ValueError, "lipschitz"),
        ((L2Ball(1.0), 3, "1"), TypeError, "lipschitz"),
        ((L2Ball(1.0), 3, 1.0, -1.0), ValueError, "sensitivity"),
    ],
)
def test_bad_blocks(arguments, error, match):
    with pytest.raises(error, match=match):
        Block(*arguments)
