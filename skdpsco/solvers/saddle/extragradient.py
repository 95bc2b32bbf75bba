"""Strongly monotone inequalities, solved up to a certified distance by extragradient.

Nothing here is private by itself: the caller adds noise to the solution. Proof:
docs/proofs/mirror_prox.md, section 6.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco.constraints.sets import L1Ball, Simplex
from skdpsco.data.record_functions import Data
from skdpsco.solvers.saddle.geometry import Geometry
from skdpsco.solvers.saddle.problem import VariationalProblem, in_chunks
from skdpsco.solvers.steps import move_into

__all__ = ["ACCELERATED", "Round", "Solve", "project_blocks"]


@dataclass(frozen=True)
class AcceleratedTuning:
    """Constants of `AcceleratedRecursive` that were chosen by hand."""

    accuracy: float = 0.02  # error of a round's solution, relative to its stability
    batch: int = 128  # number of records in a variance-reduced step


ACCELERATED = AcceleratedTuning()


class Round(NamedTuple):
    """The public numbers that describe one round.

    Parameters
    ----------
    n_samples : int
    weights : tuple of float
        Weights of the regularisers around the earlier centres.
    smoothness : float
        Lipschitz constant of the records' operator alone, in the l2 norm.
    error : float
        Largest distance between the computed and the exact solution, before noise.
    tolerance : float
        A point whose computed residual is at most this is within ``error`` of the solution.
    n_warm, n_iter : int
        Limits on the number of variance-reduced steps and on the number of extragradient steps.
        The latter suffices for the certificate.
    grid : float
        Grid of the noise.
    """

    n_samples: int
    weights: tuple[float, ...]
    smoothness: float
    error: float
    tolerance: float
    n_warm: int
    n_iter: int
    grid: float

    @property
    def mu(self) -> float:
        """Modulus of strong monotonicity."""
        return sum(self.weights)

    @property
    def step(self) -> float:
        """Step size of extragradient."""
        return 1.0 / (3.0 * (self.smoothness + self.mu))


def project_blocks(geometry: Geometry, v: np.ndarray) -> np.ndarray:
    """Euclidean projection of ``v`` onto the sets of all blocks."""
    z = v.copy()
    for block, part in zip(geometry.blocks, geometry.parts, strict=True):
        constraint = block.constraint
        if isinstance(constraint, Simplex):
            # Adding a constant makes no difference, and non-negative vectors are projected on the
            # face of the ball.
            z[part] += constraint.radius - z[part].min()
            constraint = L1Ball(constraint.radius)
        move_into(constraint, z[part])
    return z


class Solve:
    """One round on its records; nothing is private yet, and only `solution` may be used outside."""

    def __init__(
        self, problem: VariationalProblem, round_: Round, data: Data, centres: list[np.ndarray]
    ) -> None:
        self.problem: VariationalProblem = problem
        self.round: Round = round_
        self.data: Data = data
        self.centre: np.ndarray = np.average(centres, axis=0, weights=round_.weights)

    def mean(self, z: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Mean operator over some of the records."""
        data = tuple(array[rows] for array in self.data)
        total = np.zeros(len(z))
        for chunk in in_chunks(data):
            total += self.problem.operator.total(z, chunk)
        return self.problem.mean(z, total, len(data[0]))

    def pull(self, z: np.ndarray) -> np.ndarray:
        """Gradient of the sum of the regularisers."""
        return self.round.mu * (z - self.centre)

    def nearest(self, v: np.ndarray) -> np.ndarray:
        """The point of the sets that is closest to v."""
        return project_blocks(self.problem.geometry, v)

    def solution(self, coins: np.random.Generator) -> np.ndarray:
        """A point that extragradient certifies to be within the round's error."""
        step, tolerance = self.round.step, self.round.tolerance
        x = self.warm(coins) if self.round.n_warm > 0 else self.nearest(self.centre)
        for _ in range(self.round.n_iter):
            w = x - step * (self.mean(x) + self.pull(x))
            y = self.nearest(w)
            g = self.mean(y) + self.pull(y)
            if np.linalg.norm(g + (w - y) / step) <= tolerance:
                return y
            x = self.nearest(x - step * g)
        # Operators that satisfy what they declare never get here. A public point reveals less than
        # an exception.
        return self.nearest(self.centre)

    def warm(self, coins: np.random.Generator) -> np.ndarray:
        """A starting point: loopless variance-reduced extragradient of Alacaoglu and Malitsky."""
        r, n = self.round, self.round.n_samples
        p = 2.0 * ACCELERATED.batch / n
        tau = 0.5 * math.sqrt(p) / r.smoothness
        near = r.tolerance * r.step * 0.75  # 4 / (3 step) times this is the tolerance

        def prox(v: np.ndarray) -> np.ndarray:
            return self.nearest((v + tau * r.mu * self.centre) / (1.0 + tau * r.mu))

        z = snapshot = self.nearest(self.centre)
        full = self.mean(snapshot)
        for _ in range(r.n_warm):
            back = (1.0 - p) * z + p * snapshot
            half = prox(back - tau * full)
            rows = coins.integers(n, size=ACCELERATED.batch)
            z = prox(back - tau * (full + self.mean(half, rows) - self.mean(snapshot, rows)))
            if coins.random() < p:
                snapshot, full = z, self.mean(z)
                y = self.nearest(z - r.step * (full + self.pull(z)))
                if np.linalg.norm(z - y) <= near:
                    break
        return snapshot
