"""Polytopes as solvers see them, and the private choice of a vertex.

A user's set is asked for its vertices once, before anything is charged. Sensitivities follow from
these vertices, and no function of the user's ever sees a gradient. Kernels see all polytopes as one
class. Proofs: docs/proofs/frank_wolfe.md, and docs/proofs/one_pass_frank_wolfe.md for draws in one
pass.
"""

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import compiled, implements, inner, njit
from skdpsco._problem import Problem
from skdpsco._validation import check_bound, is_number
from skdpsco.constraints.sets import (
    L1Ball,
    Polytope,
    Simplex,
    coordinate,
    in_double_precision,
    n_vertices,
    vertex,
)
from skdpsco.mechanisms.samplers import select, to_grid
from skdpsco.solvers.base import DERIVATIVES, check_smooth

__all__ = [
    "OverPolytope",
    "choose_vertex",
    "polytope_of",
    "vertices_of",
    "write_vertex",
]


class OverPolytope:
    """Base of solvers for smooth losses over polytopes, of which they choose vertices."""

    requires: ClassVar[dict[str, Any]] = {
        "loss": DERIVATIVES,
        "constraint": ((n_vertices,), (vertex, coordinate)),
    }

    def check(self, problem: Problem) -> None:
        """Check that the loss is smooth, since its curvature decides the number of steps.

        Raises
        ------
        ValueError
            If the loss is not smooth.
        """
        check_smooth(self, problem.loss)


class AxisPolytope(NamedTuple):
    """Convex hull of points on the axes: vertex k is ``length[k]`` times unit vector ``axis[k]``.

    Parameters
    ----------
    axis : ndarray of shape (n_vertices,), int64
    length : ndarray of shape (n_vertices,), float64
    """

    axis: np.ndarray
    length: np.ndarray

    def diameter(self, order: float = 1) -> float:
        """Largest distance of two points in the lp norm of ``order``."""
        n_axes = int(self.axis.max()) + 1
        high, low, far = np.full(n_axes, -np.inf), np.full(n_axes, np.inf), np.zeros(n_axes)
        np.maximum.at(high, self.axis, self.length)
        np.minimum.at(low, self.axis, self.length)
        np.maximum.at(far, self.axis, np.abs(self.length))
        across = np.linalg.norm(np.sort(far)[-2:], ord=order)
        return float(max(across, (high - low).max()))

    def norm_bound(self) -> float:
        """Largest l1 norm of a point: bounds ``|<x, w>|`` for features in [-1, 1]."""
        return float(np.abs(self.length).max())


@n_vertices.register(AxisPolytope)
def _(constraint, D):
    return constraint.axis.shape[0]


class VertexSet(NamedTuple):
    """The vertices of any polytope as kernels see them, which are compiled once for all polytopes.

    Parameters
    ----------
    axis, length : ndarray of shape (n_vertices,), int64 and float64
        What they are for an `AxisPolytope`, or nothing if vertices are given as points.
    points : ndarray of shape (n_vertices, D), float64
        The rows of a `Polytope`, or none.
    """

    axis: np.ndarray
    length: np.ndarray
    points: np.ndarray


def vertices_of(polytope: Any, D: int) -> VertexSet:
    """The vertices of what `polytope_of` returns."""
    axes = np.arange(D)
    if type(polytope) is Polytope:
        return VertexSet(axes[:0], np.empty(0), polytope.vertices)
    if type(polytope) is L1Ball:
        axes, length = np.tile(axes, 2), np.repeat([polytope.radius, -polytope.radius], D)
    elif type(polytope) is Simplex:
        length = np.full(D, polytope.radius)
    else:
        axes, length = polytope.axis, polytope.length
    return VertexSet(axes, length, np.empty((0, D)))


@n_vertices.register(VertexSet)
def _(vertices, D):
    return max(vertices.axis.shape[0], vertices.points.shape[0])


@vertex.register(VertexSet)
def _(vertices, k, out):
    out[:] = 0.0
    if vertices.axis.shape[0] > 0:
        out[vertices.axis[k]] = vertices.length[k]
        return
    for j in range(out.shape[0]):
        out[j] = vertices.points[k, j]


@inner
def vertex_scores(vertices, g, out):
    """Write ``<v_k, g>`` for every vertex ``v_k`` into ``out``."""
    axis, length, points = vertices
    for k in range(axis.shape[0]):
        out[k] = length[k] * g[axis[k]]
    for k in range(points.shape[0]):
        out[k] = 0.0
        for j in range(g.shape[0]):
            out[k] += points[k, j] * g[j]


def polytope_of(constraint: Any, D: int) -> Any:
    """Convert ``constraint``, a set with vertices in ``D`` dimensions, to one of the library's own.

    Raises
    ------
    TypeError
        If a necessary kernel is missing, or does not compile.
    ValueError
        If the vertices are not finite numbers of ``D`` dimensions, or a radius is outside
        [1e-100, 1e100].
    """
    if type(constraint) in (L1Ball, Simplex):
        constraint = in_double_precision(constraint)
        check_bound("radius", constraint.radius)
        return constraint
    if type(constraint) is Polytope:
        return Polytope(_checked_vertices(np.asarray(constraint.vertices), D, "Polytope"))
    cls = type(constraint)
    K = n_vertices(constraint, D)
    if not is_number(K, Integral) or K < 1:
        raise ValueError(f"{cls.__name__}: `n_vertices` must return an int >= 1, got {K!r}.")
    if implements(coordinate, cls):
        axis, length = np.full(int(K), -1), np.zeros(int(K))
        compiled(_write_coordinates, "coordinate", constraint, D, axis, length)
        if (axis >= 0).all():
            if not (axis < D).all() or not np.isfinite(length).all():
                raise ValueError(
                    f"{cls.__name__}: `coordinate` must return (j, a) with j < {D} and finite a."
                )
            return AxisPolytope(axis, length)
    if not implements(vertex, cls):
        raise TypeError(f"{cls.__name__} needs the kernel `vertex`: not all vertices are on axes.")
    vertices = np.zeros((int(K), D))
    compiled(_write_vertices, "vertex", constraint, vertices)
    return Polytope(_checked_vertices(vertices, D, cls.__name__))


def _checked_vertices(vertices: np.ndarray, D: int, name: str) -> np.ndarray:
    numeric = vertices.dtype.kind in "iuf" and vertices.ndim == 2 and len(vertices) > 0
    if not numeric or vertices.shape[1] != D or not np.isfinite(vertices).all():
        raise ValueError(
            f"{name}: vertices must be finite numbers, of shape (n_vertices, {D}); got an array "
            f"of shape {vertices.shape} and dtype {vertices.dtype}."
        )
    return np.ascontiguousarray(vertices, dtype=np.float64)


@njit
def _write_coordinates(constraint, D, axis, length):
    for k in range(axis.shape[0]):
        j, a = coordinate(constraint, k, D)
        axis[k], length[k] = j, a


@njit
def _write_vertices(constraint, out):
    for k in range(out.shape[0]):
        vertex(constraint, k, out[k])


@njit
def choose_vertex(vertices, gradient, grid, mechanism, rng):
    """Draw the number of a vertex whose product with ``gradient`` is probably small."""
    scores = np.empty(n_vertices(vertices, gradient.shape[0]))
    vertex_scores(vertices, gradient, scores)
    units = np.empty(scores.shape[0], dtype=np.int64)
    for k in range(scores.shape[0]):
        units[k] = to_grid(-scores[k], grid)  # the largest score wins, but a minimum is sought
    return select(mechanism, rng, units)


@njit
def write_vertex(vertices, k, out):
    """Write vertex k."""
    vertex(vertices, k, out)
