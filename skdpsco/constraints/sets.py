"""Constraint sets: vertices and linear minimisation for kernels, public constants for plans.

A constraint is a ``NamedTuple``. Coefficients are one flat vector of ``D`` numbers, see
`skdpsco.data.design`. A user's polytope registers `n_vertices` and `vertex`, or `coordinate` if its
vertices are multiples of unit vectors: see `skdpsco.solvers.vertex_choice`. A set for
`noisy-frank-wolfe`, of whatever shape, registers `minimiser`. The balls and polytopes of this
module also register `project`, which solvers call with unreleased values; a user's version of this
kernel is never called. The proofs for balls are in ``docs/proofs/lp_ball.md``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner, kernel
from skdpsco.constraints.norms import (
    check_order,
    conjugate,
    lp_norm,
    power,
    project_l1,
    project_l2,
    project_linf,
    project_lp,
    projection_error,
)
from skdpsco.constraints.norms import regularity as regularity  # for importers of this module

__all__ = [
    "BALLS",
    "L1Ball",
    "L2Ball",
    "LpBall",
    "Polytope",
    "Simplex",
    "coordinate",
    "in_double_precision",
    "minimiser",
    "n_vertices",
    "project",
    "vertex",
]


@kernel
def n_vertices(constraint, D):
    """Number of vertices in ``D`` dimensions."""
    raise NotImplementedError


@kernel
def coordinate(constraint, k, D):
    """``(j, a)`` if vertex k is ``a e_j``, otherwise ``(-1, 0.0)``."""
    raise NotImplementedError


@kernel
def vertex(constraint, k, out):
    """Write vertex k into ``out``."""
    raise NotImplementedError


@kernel
def minimiser(constraint, g, out):
    """Write a point of the set that minimises ``<., g>`` (LMO) into ``out``."""
    raise NotImplementedError


@kernel
def project(constraint, w):
    """Move ``w`` to the nearest point of the set, in place."""
    raise NotImplementedError


class L1Ball(NamedTuple):
    """Ball of the l1 norm around 0: its vertices are ``+radius e_j``, then ``-radius e_j``.

    Parameters
    ----------
    radius : float
    """

    radius: float

    @property
    def p(self) -> float:
        """Order of the norm."""
        return 1.0

    def diameter(self, order: float = 1) -> float:
        """Largest distance of two points; 2 radius in every lp norm."""
        return 2.0 * self.radius

    def norm_bound(self) -> float:
        """Largest l1 norm of a point: bounds ``|<x, w>|`` for features in [-1, 1]."""
        return self.radius

    def gaussian_width(self, D: int) -> float:
        """Bound on ``E sup |<b, w>|``, b standard normal in ``D`` dimensions."""
        return self.radius * math.sqrt(2.0 * math.log(2.0 * D))

    def projection_error(self, D: int) -> float:
        """Bound on the rounding of `project`, in l2 norm, relative to that of its argument."""
        return projection_error(D)


class Simplex(NamedTuple):
    """Non-negative vectors that sum to ``radius``: its vertices are ``radius e_j``.

    Parameters
    ----------
    radius : float, default=1.0
    """

    radius: float = 1.0

    def diameter(self, order: float = 1) -> float:
        """Largest distance of two points in the lp norm of ``order``."""
        return self.radius * 2.0 ** (1.0 / order)

    def norm_bound(self) -> float:
        """The bound of the l1 ball, which holds for its part, too."""
        return L1Ball(self.radius).norm_bound()

    def gaussian_width(self, D: int) -> float:
        """The bound of the l1 ball, which holds for its part, too."""
        return L1Ball(self.radius).gaussian_width(D)


class Polytope(NamedTuple):
    """Convex hull of the rows of ``vertices``.

    Parameters
    ----------
    vertices : ndarray of shape (n_vertices, D), float64, C order
    """

    vertices: np.ndarray

    def diameter(self, order: float = 1) -> float:
        """Largest distance of two points in the lp norm of ``order``."""
        return max(
            float(np.linalg.norm(self.vertices - v, ord=order, axis=1).max()) for v in self.vertices
        )

    def norm_bound(self) -> float:
        """Largest l1 norm of a point: bounds ``|<x, w>|`` for features in [-1, 1]."""
        return float(np.abs(self.vertices).sum(axis=1).max())

    def gaussian_width(self, D: int) -> float:
        """Bound on ``E sup |<b, w>|``, b standard normal in ``D`` dimensions."""
        largest = float(np.linalg.norm(self.vertices, axis=1).max())
        return largest * math.sqrt(2.0 * math.log(2.0 * len(self.vertices)))


class L2Ball(NamedTuple):
    """Euclidean ball around 0, for `noisy-frank-wolfe`; it has no vertices to choose from.

    Parameters
    ----------
    radius : float
    """

    radius: float

    @property
    def p(self) -> float:
        """Order of the norm."""
        return 2.0

    def diameter(self, order: float = 2) -> float:
        """Largest distance of two points in the norm of ``order`` >= 2."""
        if order < 2:
            raise ValueError(f"The l{order} diameter of an l2 ball depends on the dimension.")
        return 2.0 * self.radius

    def norm_bound(self) -> float:
        """No bound on the l1 norm that holds in every dimension."""
        return math.inf

    def gaussian_width(self, D: int) -> float:
        """Bound on ``E sup |<b, w>|``, b standard normal in ``D`` dimensions."""
        return self.radius * math.sqrt(D)

    def projection_error(self, D: int) -> float:
        """Bound on the rounding of `project`, in l2 norm, relative to that of its argument."""
        return projection_error(D)


class LpBall(NamedTuple):
    """Ball of the l_p norm around 0.

    Parameters
    ----------
    p : float
        Order of the norm, from 1 to inf. An `L1Ball` has p = 1, an `L2Ball` p = 2.
    radius : float
    """

    p: float
    radius: float

    def diameter(self, order: float = 2) -> float:
        """Largest distance of two points in the norm of ``order`` >= the ball's own."""
        if order < self.p:
            raise ValueError(f"The l{order} diameter of an l{self.p} ball depends on the size.")
        return 2.0 * self.radius

    def norm_bound(self) -> float:
        """Largest l1 norm of a point, for p = 1; for other p no bound holds in every dimension."""
        return self.radius if self.p == 1.0 else math.inf

    def gaussian_width(self, D: int) -> float:
        """Bound on ``E sup |<b, w>|``, b standard normal in ``D`` dimensions."""
        if self.p == 1.0:
            return L1Ball(self.radius).gaussian_width(D)
        # E ||b||_q <= E ||b||_t <= (D E |b_1|^t)^(1/t) for t <= q; about t = 2 log D is best.
        t = min(conjugate(self.p), max(2.0, 2.0 * math.log(D)))
        moment = math.lgamma((t + 1.0) / 2.0) - math.lgamma(0.5) + math.log(D)
        return self.radius * math.sqrt(2.0) * math.exp(moment / t)

    def projection_error(self, D: int) -> float:
        """Bound on the rounding of `project`, in l2 norm, relative to that of its argument.

        Raises
        ------
        ValueError
            If p is closer to 1 than 1 + 2**-40, or above 2**40 but not inf.
        """
        check_order(self.p)
        return projection_error(D)


BALLS = (L1Ball, L2Ball, LpBall)  # of l_p norms; a subclass may be another set


def in_double_precision(constraint: Any) -> Any:
    """A ball or simplex of this module with float fields; other sets as they are."""
    known = type(constraint) in (*BALLS, Simplex)
    return type(constraint)(*map(float, constraint)) if known else constraint


@n_vertices.register(L1Ball)
def _(constraint, D):
    return 2 * D


@coordinate.register(L1Ball)
def _(constraint, k, D):
    if k < D:
        return k, constraint.radius
    return k - D, -constraint.radius


@vertex.register(L1Ball)
def _(constraint, k, out):
    D = out.shape[0]
    out[:] = 0.0
    if k < D:
        out[k] = constraint.radius
    else:
        out[k - D] = -constraint.radius


@inner
def _farthest_vertex(g, radius, out):
    best = 0
    for j in range(g.shape[0]):
        if abs(g[j]) > abs(g[best]):
            best = j
    out[:] = 0.0
    out[best] = -radius if g[best] > 0.0 else radius


@minimiser.register(L1Ball)
def _(constraint, g, out):
    _farthest_vertex(g, constraint.radius, out)


@project.register(L1Ball)
def _(constraint, w):
    project_l1(w, constraint.radius)


@n_vertices.register(Simplex)
def _(constraint, D):
    return D


@coordinate.register(Simplex)
def _(constraint, k, D):
    return k, constraint.radius


@vertex.register(Simplex)
def _(constraint, k, out):
    out[:] = 0.0
    out[k] = constraint.radius


@minimiser.register(Simplex)
def _(constraint, g, out):
    best = 0
    for j in range(g.shape[0]):
        if g[j] < g[best]:
            best = j
    out[:] = 0.0
    out[best] = constraint.radius


@n_vertices.register(Polytope)
def _(constraint, D):
    return constraint.vertices.shape[0]


@coordinate.register(Polytope)
def _(constraint, k, D):
    return -1, 0.0


@vertex.register(Polytope)
def _(constraint, k, out):
    for j in range(out.shape[0]):
        out[j] = constraint.vertices[k, j]


@minimiser.register(Polytope)
def _(constraint, g, out):
    best, best_score = 0, np.inf
    for k in range(constraint.vertices.shape[0]):
        score = 0.0
        for j in range(g.shape[0]):
            score += constraint.vertices[k, j] * g[j]
        if score < best_score:
            best, best_score = k, score
    for j in range(out.shape[0]):
        out[j] = constraint.vertices[best, j]


@minimiser.register(L2Ball)
def _(constraint, g, out):
    norm = 0.0
    for j in range(g.shape[0]):
        norm = math.hypot(norm, g[j])  # squares would overflow, or vanish
    for j in range(g.shape[0]):
        out[j] = -constraint.radius * (g[j] / norm) if norm > 0.0 else 0.0


@project.register(L2Ball)
def _(constraint, w):
    project_l2(w, constraint.radius)


@minimiser.register(LpBall)
def _(constraint, g, out):
    p, radius = constraint.p, constraint.radius
    top = lp_norm(g, np.inf)
    if p == 1.0:
        _farthest_vertex(g, radius, out)
        return
    total = 0.0
    for j in range(g.shape[0]):
        size = abs(g[j]) / top if top > 0.0 else 0.0
        out[j] = power(size, 1.0 / (p - 1.0)) if size > 0.0 else 0.0
        total += size * out[j]
    norm = total ** (1.0 / p)  # the norm of what is in out
    for j in range(g.shape[0]):
        if out[j] > 0.0:
            out[j] = math.copysign(radius * (out[j] / norm), -g[j])


@project.register(LpBall)
def _(constraint, w):
    if constraint.p == 1.0:
        project_l1(w, constraint.radius)
    elif constraint.p == 2.0:
        project_l2(w, constraint.radius)
    elif constraint.p == np.inf:
        project_linf(w, constraint.radius)
    else:
        project_lp(w, constraint.radius, constraint.p)
