"""Polytopes as solvers see them, and the private choice of a vertex.

A user's set is asked for its vertices once, before anything is charged. Sensitivities follow from
these vertices, and no function of the user's ever sees a gradient. Proofs:
docs/proofs/frank_wolfe.md, and docs/proofs/one_pass_frank_wolfe.md for draws in one pass.
"""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import compiled, implements, inner, njit
from skdpsco.constraints.sets import (
    L1Ball,
    Polytope,
    Simplex,
    coordinate,
    in_double_precision,
    n_vertices,
    vertex,
    vertex_scores,
)
from skdpsco.mechanisms.samplers import select, to_grid

__all__ = ["VertexModel", "polytope_of", "select_vertex"]


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


class VertexModel(NamedTuple):
    """The classes of these objects decide how kernels that choose vertices are compiled.

    Parameters
    ----------
    loss : loss
    polytope : polytope
    mechanism : mechanism
        Mechanism that chooses vertices by their scores.
    """

    loss: Any
    polytope: Any
    mechanism: Any


@n_vertices.register(AxisPolytope)
def _(constraint, D):
    return constraint.axis.shape[0]


@vertex_scores.register(AxisPolytope)
def _(constraint, g, out):
    for k in range(constraint.axis.shape[0]):
        out[k] = constraint.length[k] * g[constraint.axis[k]]


@coordinate.register(AxisPolytope)
def _(constraint, k, D):
    return constraint.axis[k], constraint.length[k]


@vertex.register(AxisPolytope)
def _(constraint, k, out):
    out[:] = 0.0
    out[constraint.axis[k]] = constraint.length[k]


def polytope_of(constraint: Any, D: int) -> Any:
    """Convert ``constraint``, a set with vertices in ``D`` dimensions, to one of the library's own.

    Raises
    ------
    TypeError
        If a necessary kernel is missing, or does not compile.
    ValueError
        If the vertices are not finite numbers of ``D`` dimensions.
    """
    if type(constraint) in (L1Ball, Simplex):
        return in_double_precision(constraint)
    if type(constraint) is Polytope:
        return Polytope(_checked_vertices(np.asarray(constraint.vertices), D, "Polytope"))
    cls = type(constraint)
    K = n_vertices(constraint, D)
    if isinstance(K, (bool, np.bool_)) or not isinstance(K, Integral) or K < 1:
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


@inner
def select_vertex(constraint, gradient, grid, mechanism, rng, scores, units):
    """Draw the number of a vertex whose product with ``gradient`` is probably small.

    ``scores`` and ``units`` are work space.
    """
    vertex_scores(constraint, gradient, scores)
    for k in range(scores.shape[0]):
        units[k] = to_grid(-scores[k], grid)  # the largest score wins, but a minimum is sought
    return select(mechanism, rng, units)
