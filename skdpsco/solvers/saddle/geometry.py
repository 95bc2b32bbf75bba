"""Norms of saddle-point problems beyond the Euclidean norm.

A block is one player, with a convex set in an l_p space, 1 <= p <= 2. Its norm is
``||u||_pbar / diameter``. The squared norm of a whole vector is the sum of its blocks' squares.
Proofs: ``docs/proofs/mirror_prox.md``.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from skdpsco._validation import check_bound, is_number
from skdpsco.constraints.norms import conjugate
from skdpsco.constraints.sets import Simplex, in_double_precision
from skdpsco.solvers.saddle.prox import order_of, unit_prox

__all__ = ["Block", "Geometry", "finite_lp_norm"]


def finite_lp_norm(x: np.ndarray, p: float) -> float:
    """The l_p norm of a vector, computed without overflow."""
    top = float(np.abs(x).max())
    return top * float(np.linalg.norm(x / top, ord=p)) if 0.0 < top < math.inf else top


@dataclass(frozen=True)
class Block:
    """One player: its set, and how much one record may change its part of the operator.

    Parameters
    ----------
    constraint : Simplex, L1Ball, L2Ball or LpBall
        The player's set. Its l_p space has p = 1, 1, 2 and the order of the ball, respectively.
    size : int
        Number of coordinates.
    lipschitz : float
        Bound, at every point, on the dual norm l_{p/(p-1)} of a record's part of the operator.
    sensitivity : float or None, default=None
        Bound on the l2 norm of the change of the sum over records when one record is replaced.
        None for the bound that follows from ``lipschitz``; give a smaller one if you know it.

    Raises
    ------
    TypeError
        If a parameter has the wrong type, or ``constraint`` is another set.
    ValueError
        If ``size`` is below 1, or a bound or the order of the ball is outside its range.
    """

    constraint: Any
    size: int
    lipschitz: float
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        order_of(self.constraint)
        object.__setattr__(self, "constraint", in_double_precision(self.constraint))
        check_bound("constraint.radius", self.constraint.radius)
        if not is_number(self.size, Integral) or self.size < 1:
            raise ValueError(f"size must be a whole number >= 1, got {self.size!r}.")
        # In float64: less precise numbers would lose the margins of sensitivities.
        object.__setattr__(self, "size", int(self.size))
        object.__setattr__(self, "lipschitz", check_bound("lipschitz", self.lipschitz))
        if self.sensitivity is not None:
            object.__setattr__(self, "sensitivity", check_bound("sensitivity", self.sensitivity))

    @cached_property
    def p(self) -> float:
        """Order of the space."""
        return order_of(self.constraint)

    @cached_property
    def pbar(self) -> float:
        """Order of the norm, near p and at most 2, whose square is strongly convex.

        It is max(p, 1 + 1 / log d), capped at 2. The formula exceeds 2 for d = 2 and is undefined
        for d = 1; where it is capped, the l_p norm is at most sqrt(2) times the l2 norm.
        """
        return 2.0 if self.size <= 2 else min(2.0, max(self.p, 1.0 + 1.0 / math.log(self.size)))

    @cached_property
    def kappa(self) -> float:
        """Half of the squared norm is (1 / kappa)-strongly convex with respect to the norm."""
        return 1.0 / (self.pbar - 1.0)

    @cached_property
    def scale(self) -> float:
        """The diameter of the set, by which the l_pbar norm is divided."""
        return self.constraint.diameter(self.pbar)

    @cached_property
    def distortion(self) -> float:
        """Bound on the ratio of l_p to l_pbar norms, and of dual norms l_{pbar*} to l_{p*}."""
        return self.size ** (1.0 / self.p - 1.0 / self.pbar) if self.pbar > self.p else 1.0

    @property
    def dual_bound(self) -> float:
        """Bound on a record's part of the operator in the dual of the block's norm."""
        return self.scale * self.distortion * self.lipschitz

    @property
    def lipschitz_l2(self) -> float:
        """Bound on a record's part of the operator in the l2 norm."""
        return max(1.0, self.size ** (0.5 - 1.0 + 1.0 / self.p)) * self.lipschitz

    @property
    def change_l2(self) -> float:
        """Bound on the l2 norm of the change of the sum over records; see ``sensitivity``."""
        return 2.0 * self.lipschitz_l2 if self.sensitivity is None else self.sensitivity

    def start(self) -> np.ndarray:
        """The centre of the set, a public point."""
        if isinstance(self.constraint, Simplex):
            return np.full(self.size, self.constraint.radius / self.size)
        return np.zeros(self.size)

    def radius(self) -> float:
        """Largest distance from `start` in the block's norm."""
        if isinstance(self.constraint, Simplex):
            vertex = -self.start()
            vertex[0] += self.constraint.radius
            return self.norm(vertex)
        return 0.5

    def point(self, centre: np.ndarray, u: np.ndarray) -> np.ndarray:
        """``centre + u``, moved into the set if rounding has left it outside."""
        z, radius = centre + u, self.constraint.radius
        if isinstance(self.constraint, Simplex):
            z = np.maximum(z, 0.0)
            return z * (radius / z.sum())
        return z * (radius / max(radius, finite_lp_norm(z, self.p)))

    def norm(self, u: np.ndarray) -> float:
        """Norm of a displacement."""
        return finite_lp_norm(u, self.pbar) / self.scale

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradient of half of the squared norm."""
        length = finite_lp_norm(u, self.pbar)
        if length == 0.0:
            return np.zeros_like(u)
        return np.sign(u) * (np.abs(u) / length) ** (self.pbar - 1.0) * (length / self.scale**2)

    def prox(self, g: np.ndarray, centre: np.ndarray, weight: float) -> np.ndarray:
        """The u that minimises ``<g, u> + weight norm(u)**2 / 2`` with ``centre + u`` in the set.

        Parameters
        ----------
        g, centre : ndarray of shape (size,)
            Finite vectors; the centre lies in the set.
        weight : float, > 0

        Returns
        -------
        u : ndarray of shape (size,)
        """
        radius = self.constraint.radius
        u = np.empty(self.size)
        unit = g * (self.scale**2 / (weight * radius))
        c = centre / radius
        signed = not isinstance(self.constraint, Simplex)
        if not signed:
            unit -= unit.min()  # adding a constant makes no difference on a simplex
        # Beyond this the step reaches the boundary in any case, and powers would overflow.
        top = float(np.abs(unit).max())
        if top > 1e12:
            unit *= 1e12 / top
        unit_prox(self.constraint, signed, self.pbar, c, unit, u)
        return radius * u

    def gap(self, g: np.ndarray, centre: np.ndarray, weight: float, u: np.ndarray) -> float:
        """Certificate: how far the value of ``u`` may be above the minimum that `prox` seeks."""
        slope = g + weight * self.gradient(u)
        if isinstance(self.constraint, Simplex):
            least = self.constraint.radius * float(slope.min())
        else:
            dual = finite_lp_norm(slope, conjugate(self.p))
            least = -self.constraint.radius * dual
        return float(slope @ u + slope @ centre) - least


@dataclass(frozen=True)
class Geometry:
    """The product of the blocks: a vector holds the blocks' vectors one after the other."""

    blocks: tuple[Block, ...]

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """The slice of a vector that belongs to each block."""
        ends = np.cumsum([block.size for block in self.blocks])
        return tuple(slice(int(e) - b.size, int(e)) for b, e in zip(self.blocks, ends, strict=True))

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(block.size for block in self.blocks)

    @property
    def kappa(self) -> float:
        """Half of the squared norm is (1 / kappa)-strongly convex with respect to the norm."""
        return max(block.kappa for block in self.blocks)

    @property
    def diameter(self) -> float:
        """Bound on the diameter of the product; every block has diameter 1."""
        return math.sqrt(len(self.blocks))

    @property
    def radius(self) -> float:
        """Largest distance from `start`; 1 if the set is a single point."""
        return math.hypot(*(block.radius() for block in self.blocks)) or 1.0

    @property
    def bound(self) -> float:
        """Bound on a record's operator in the dual norm."""
        return math.hypot(*(block.dual_bound for block in self.blocks))

    def smoothness(self, matrix: np.ndarray) -> float:
        """Lipschitz constant of the operator from bounds between blocks, in l_p norms.

        ``matrix[i, j]`` bounds how far block i of the operator moves in the dual norm when block j
        of the point moves by one unit.
        """
        weight = np.array([block.scale * block.distortion for block in self.blocks])
        return float(np.linalg.norm(weight[:, None] * matrix * weight, ord=2))

    def _each(self, method: str, *vectors: np.ndarray, **options: float) -> list[Any]:
        pairs = zip(self.blocks, self.parts, strict=True)
        return [getattr(b, method)(*(v[part] for v in vectors), **options) for b, part in pairs]

    def start(self) -> np.ndarray:
        """The centre of the set, a public point."""
        return np.concatenate(self._each("start"))

    def point(self, centre: np.ndarray, u: np.ndarray) -> np.ndarray:
        """``centre + u``, moved into the set if rounding has left it outside."""
        return np.concatenate(self._each("point", centre, u))

    def norm(self, u: np.ndarray) -> float:
        """Norm of a displacement."""
        return math.hypot(*self._each("norm", u))

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradient of half of the squared norm."""
        return np.concatenate(self._each("gradient", u))

    def prox(self, g: np.ndarray, centre: np.ndarray, weight: float) -> np.ndarray:
        """The u that minimises ``<g, u> + weight norm(u)**2 / 2``; see `Block.prox`."""
        return np.concatenate(self._each("prox", g, centre, weight=weight))
