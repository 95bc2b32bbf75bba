"""Laws of the constraint sets: kernels against geometry, public constants against brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest
from cases import each
from exact_projections import exact_projection

from skdpsco._kernels import njit
from skdpsco.constraints import (
    L1Ball,
    L2Ball,
    Polytope,
    Simplex,
    coordinate,
    minimiser,
    n_vertices,
    project,
    vertex,
)
from skdpsco.solvers.vertex_choice import vertex_scores, vertices_of

D = 5
POLYTOPE = Polytope(np.random.default_rng(7).normal(size=(9, D)))
# A vertex in the middle of others, a repeated one, and the origin.
FLAT = Polytope(np.vstack([np.eye(D), np.full(D, 1 / D), np.eye(D)[0], np.zeros(D)]))

WITH_VERTICES = [L1Ball(2.5), L1Ball(1e-12), Simplex(), Simplex(0.3), POLYTOPE, FLAT]
BALLS = [L2Ball(2.5), L2Ball(1e-12)]


def name(constraint):
    if isinstance(constraint, Polytope):
        return "POLYTOPE" if constraint is POLYTOPE else "FLAT"
    return str(constraint)


with_vertices = pytest.mark.parametrize("constraint", WITH_VERTICES, ids=name)
every = pytest.mark.parametrize("constraint", WITH_VERTICES + BALLS, ids=name)


def gradients():
    """Directions with ties, zeros, and very large and small numbers."""
    rng = np.random.default_rng(0)
    return [
        *rng.normal(size=(20, D)),
        *rng.integers(-1, 2, (20, D)).astype(float),
        np.zeros(D),
        np.ones(D),
        -np.ones(D),
        np.array([0.0, 0.0, -1e-3, 0.0, 0.0]),
        1e250 * np.array([1.0, -3.0, 2.0, 3.0, 0.0]),
        1e-250 * np.array([1.0, -3.0, 2.0, 3.0, 0.0]),
    ]


def expected_vertices(constraint):
    if isinstance(constraint, L1Ball):
        return constraint.radius * np.vstack([np.eye(D), -np.eye(D)])
    if isinstance(constraint, Simplex):
        return constraint.radius * np.eye(D)
    return constraint.vertices


@njit
def compiled_project(constraint, w):
    project(constraint, w)


@njit
def compiled_vertices(constraint, seen, g, scores, V, places, factors, point):
    vertex_scores(seen, g, scores)
    for k in range(n_vertices(constraint, g.shape[0])):
        vertex(constraint, k, V[k])
        j, a = coordinate(constraint, k, g.shape[0])
        places[k], factors[k] = j, a
    minimiser(constraint, g, point)


@with_vertices
@pytest.mark.parametrize("run", [compiled_vertices, compiled_vertices.py_func])
def test_vertices_scores_coordinates_and_minimisers(constraint, run):
    V, seen = expected_vertices(constraint), vertices_of(constraint, D)
    m = n_vertices(constraint, D)
    assert m == n_vertices(seen, D) == len(V)
    for k in range(m):
        point = np.full(D, np.nan)
        vertex(seen, k, point)
        np.testing.assert_array_equal(point, V[k])
    for g in gradients():
        scores, found, point = np.full(m, np.nan), np.full((m, D), np.nan), np.full(D, np.nan)
        places, factors = np.empty(m, dtype=np.int64), np.empty(m)
        run(constraint, seen, g, scores, found, places, factors, point)
        np.testing.assert_array_equal(found, V)
        # Sums of products of different signs are compared with the sum of their magnitudes.
        error = 1e-15 * D * (np.abs(V) @ np.abs(g))
        assert (np.abs(scores - V @ g) <= error).all()
        assert (V == point).all(axis=1).any()  # the best vertex
        assert point @ g <= (V @ g).min() + error.max()
        if isinstance(constraint, Polytope):
            assert (places == -1).all()
            assert (factors == 0.0).all()
        else:
            np.testing.assert_array_equal(factors[:, None] * np.eye(D)[places], V)


def points():
    """What is projected, with a radius each: inside, outside, ties, very large and very small."""
    rng = np.random.default_rng(1)
    for d in (1, 2, 8):
        for radius in (1e-200, 1e-12, 0.3, 1.0, 1e12):
            for scale in (1e-250, 1e-6, 1.0, 1e15, 1e250):
                w = rng.normal(size=d)
                yield scale * w, radius
                yield radius * w, radius
                yield scale * np.round(w), radius
                yield scale * np.where(np.arange(d) == 0, -1.0, 1e-9 * w), radius
            yield np.zeros(d), radius
            yield np.full(d, -radius), radius
            yield np.full(d, radius / d), radius
    # The threshold equals an entry up to rounding; the entry must not come and go for ever.
    for tied in ([3, 1, 1, 2, 3], [1, 1, 3, 2, 1], [3, 2, 1, 3, 3, 2, 2, 1], [1, 3, 2, 1]):
        for unit in (0.1, 0.3, 0.7, 1.1, 1 / 3):
            for k in range(1, 8):
                yield unit * np.array(tied, dtype=float), k * unit
    for _ in range(300):
        unit = rng.choice([0.1, 0.3, 0.7, 1 / 3])
        yield unit * rng.integers(-3, 4, 6), unit * rng.integers(1, 8)


def test_exact_projection():
    # The reference itself, by the variational inequality that defines projections.
    for w, radius in points():
        p = exact_projection(w, radius)
        w, radius = [Fraction(float(x)) for x in w], Fraction(float(radius))
        assert sum(map(abs, p)) <= radius
        residual = [a - b for a, b in zip(w, p, strict=True)]
        # <w - p, v - p> <= 0 for all vertices v: the largest <w - p, v> is at +-radius e_j.
        assert radius * max(map(abs, residual)) <= sum(
            a * b for a, b in zip(residual, p, strict=True)
        )


def test_projection_on_the_l1_ball_is_exact():
    for w, radius in points():
        p = w.copy()
        compiled_project(L1Ball(float(radius)), p)
        expected = np.array([float(x) for x in exact_projection(w, radius)])
        np.testing.assert_allclose(p, expected, rtol=1e-14, atol=1e-15 * len(w) * radius)


def random_points(constraint, n=300):
    rng = np.random.default_rng(4)
    if isinstance(constraint, L2Ball):
        P = rng.normal(size=(n, D))
        P *= constraint.radius / np.linalg.norm(P, axis=1, keepdims=True)
        return np.vstack([P, -P, np.zeros((1, D))])
    V = expected_vertices(constraint)
    return np.vstack([V, rng.dirichlet(np.full(len(V), 0.3), n) @ V])


@pytest.mark.parametrize("order", [1, 2, 3.5, np.inf])
@every
def test_diameter(constraint, order):
    if isinstance(constraint, L2Ball):
        if order < 2:
            with pytest.raises(ValueError, match="l1 diameter of an l2 ball depends on the dim"):
                constraint.diameter(order)
            return
        P = np.vstack([random_points(constraint), constraint.radius * np.vstack([np.eye(D)] * 2)])
        P[-D:] *= -1.0
    else:
        P = random_points(constraint)
    largest = max(np.linalg.norm(P - p, ord=order, axis=1).max() for p in P)
    assert constraint.diameter(order) == pytest.approx(largest, rel=1e-12)


@every
def test_norm_bound(constraint):
    if isinstance(constraint, L2Ball):
        assert constraint.norm_bound() == math.inf
    else:
        largest = np.abs(random_points(constraint)).sum(axis=1).max()
        assert constraint.norm_bound() == pytest.approx(largest, rel=1e-12)


@each("dimension", [1, 2, D, 300])
@every
def test_gaussian_width(constraint, dimension):
    if isinstance(constraint, Polytope) and dimension != D:
        constraint = Polytope(np.random.default_rng(5).normal(size=(dimension, dimension)))
    B = np.random.default_rng(6).normal(size=(20_000 if dimension <= D else 2000, dimension))
    if isinstance(constraint, L2Ball):
        largest = constraint.radius * np.linalg.norm(B, axis=1)
    elif isinstance(constraint, Polytope):
        largest = np.abs(B @ constraint.vertices.T).max(axis=1)
    else:
        largest = constraint.radius * np.abs(B).max(axis=1)
    error = 4.0 * largest.std() / math.sqrt(len(B))
    width = constraint.gaussian_width(dimension)
    assert largest.mean() <= width + error
    # A bound that is loose by more than this would ruin the automatic number of steps.
    assert width <= 2.2 * largest.mean()
